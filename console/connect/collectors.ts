/** How a program takes the log: what one copies, with address and key filled in. */
export interface Collector {
  id: string;
  name: string;
  /** What to do with the text. */
  instructions: string;
  text: (url: string, token: string) => string;
}

// All of them are in docs/integrating.md, and run by tests/clients and tests/collectors.

const COMMAND =
  "Runs public-audit-log, the command of this project, on Node or Deno. It goes on where it ended, also after it was killed.";

/** The environment that they all read: a key in a command's arguments could be seen by others. */
function environment(url: string, token: string): string {
  return `export AUDIT_LOG_URL=${url}\nexport AUDIT_LOG_API_KEY=${token}`;
}

function forwardTo(id: string, name: string, sink: string, secret = "FORWARD_TOKEN"): Collector {
  return {
    id,
    name,
    instructions: COMMAND,
    text: (url, token) =>
      `${environment(url, token)}\n${secret && `export ${secret}=…\n`}` +
      `public-audit-log forward --to=${sink} --state=audit-log.state`,
  };
}

export const COLLECTORS: Collector[] = [
  {
    id: "curl",
    name: "curl",
    instructions: "Asks once for the entries of today. Use it to see that the key works.",
    text: (url, token) => {
      const day = new Date().toISOString().slice(0, 10);
      return `curl "${url}?start=${day}&end=${day}" \\\n  -H "Authorization: Bearer ${token}"`;
    },
  },
  {
    id: "export",
    name: "A file, kept up to date",
    instructions: COMMAND,
    text: (url, token) =>
      `${environment(url, token)}\npublic-audit-log export --out=audit-log.ndjson --follow`,
  },
  forwardTo("splunk", "Splunk", "splunk:https://HOST:8088"),
  forwardTo("elasticsearch", "Elasticsearch, OpenSearch", "elasticsearch:https://HOST/INDEX"),
  forwardTo("s3", "An S3-compatible bucket", "s3://BUCKET/FOLDER", ""),
  forwardTo("webhook", "A webhook", "https://HOST/PATH"),
  {
    id: "redpanda",
    name: "Redpanda Connect",
    instructions: "Runs examples/redpanda-connect/follow_audit_log.yaml of this project.",
    text: (url, token) =>
      `${environment(url, token)}\nexport AUDIT_LOG_STATE=state\n` +
      "export AUDIT_LOG_FILE=audit-log.ndjson",
  },
  {
    id: "node-red",
    name: "Node-RED",
    instructions:
      "Import examples/node-red/follow_audit_log.json of this project, and start Node-RED with these variables.",
    text: (url, token) => `${environment(url, token)}\nexport AUDIT_LOG_FILE=audit-log.ndjson`,
  },
  {
    id: "program",
    name: "Your own program",
    instructions:
      "Set these variables. The page “Integrating” has the loop in curl, TypeScript and Python.",
    text: environment,
  },
];
