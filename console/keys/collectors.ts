interface Collector {
  name: string;
  instructions: string;
  /** The text to copy, with URL and key filled in. */
  text: (url: string, token: string) => string;
}

// docs/integrating.md has all of them. tests/clients runs them.

const COMMAND =
  "Needs Node or Deno, and the command public-audit-log: docs/integrating.md in the repository of Public Audit Log says how to install it. After a stop it goes on where it was.";

/** All collectors read these variables, because others could see a key in a command's arguments. */
function environment(url: string, token: string): string {
  return `export AUDIT_LOG_URL=${url}\nexport AUDIT_LOG_API_KEY=${token}`;
}

/** curl reads the key from its input. */
export function curl(url: string, options = ""): string {
  return `printf 'Authorization: Bearer %s' "$AUDIT_LOG_API_KEY" |\n` +
    `  curl --header @- ${options}"${url}"`;
}

function forwardTo(name: string, sink: string, secret = "export FORWARD_TOKEN=…\n"): Collector {
  return {
    name,
    instructions: COMMAND,
    text: (url, token) =>
      `${environment(url, token)}\n${secret}` +
      `public-audit-log forward --to=${sink} --state=audit-log.state`,
  };
}

export const COLLECTORS: Collector[] = [
  {
    name: "curl",
    instructions: "Ask once for today's entries, to see that the key works.",
    text: (url, token) => {
      const day = new Date().toISOString().slice(0, 10);
      return `${environment(url, token)}\n${curl(`$AUDIT_LOG_URL?start=${day}&end=${day}`)}`;
    },
  },
  {
    name: "A file, kept up to date",
    instructions: COMMAND,
    text: (url, token) =>
      `${environment(url, token)}\npublic-audit-log export --out=audit-log.ndjson --follow`,
  },
  forwardTo("Splunk", "splunk:https://HOST:8088"),
  forwardTo("Elasticsearch, OpenSearch", "elasticsearch:https://HOST/INDEX"),
  forwardTo("An S3-compatible bucket", "s3://BUCKET/FOLDER", ""),
  forwardTo("A webhook", "https://HOST/PATH"),
  {
    name: "Your own program",
    instructions:
      "Set these variables. docs/integrating.md in the repository of Public Audit Log has the loop in TypeScript and Python.",
    text: environment,
  },
];
