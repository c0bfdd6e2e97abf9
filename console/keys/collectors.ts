// The ways in which an application can use a key. docs/integrating.md has all of them; tests/clients runs them.

interface Collector {
  name: string;
  hint: string;
  /** What to run after setting `AUDIT_LOG_URL` and `AUDIT_LOG_API_KEY`: others could see a key in arguments. */
  command: string;
}

const COMMAND =
  "Needs Node or Deno, and the command public-audit-log: docs/integrating.md in the repository of Public Audit Log says how to install it. After a stop it goes on where it was.";

function forwardTo(name: string, sink: string, secret = "export FORWARD_TOKEN=…\n"): Collector {
  const command = `${secret}public-audit-log forward --to=${sink} --state=audit-log.state`;
  return { name, hint: COMMAND, command };
}

export const COLLECTORS: Collector[] = [
  {
    name: "curl",
    hint: "Ask once for today's entries, to see that the key works.",
    // curl reads the key from its input.
    command: `printf 'Authorization: Bearer %s' "$AUDIT_LOG_API_KEY" |
  curl --header @- "$AUDIT_LOG_URL?start=$(date -u +%F)&end=$(date -u +%F)"`,
  },
  {
    name: "A file, kept up to date",
    hint: COMMAND,
    command: "public-audit-log export --out=audit-log.ndjson --follow",
  },
  forwardTo("Splunk", "splunk:https://HOST:8088"),
  forwardTo("Elasticsearch, OpenSearch", "elasticsearch:https://HOST/INDEX"),
  forwardTo("Datadog", "datadog:https://http-intake.logs.datadoghq.com"),
  forwardTo(
    "OpenTelemetry (OTLP)",
    "otlp:https://HOST/v1/logs",
    "export FORWARD_TOKEN='Authorization: …'\n",
  ),
  forwardTo(
    "An S3-compatible bucket",
    "s3://BUCKET/FOLDER",
    "export AWS_REGION=… AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…\n",
  ),
  forwardTo("A webhook", "https://HOST/PATH"),
];
