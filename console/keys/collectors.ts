import { now } from "../shared/days.ts";
import { AUDIT_LOG_URL, CONSOLE_URL } from "../shared/transport.ts";

// The ways in which an application can use a key. The pages of the documentation explain them; tests run them.

export interface Field {
  name: string;
  label: string;
  example: string;
  pattern: RegExp;
}

export interface Collector {
  name: string;
  hint: string;
  /** The page that says more. */
  page: "api" | "following" | "integrating";
  /** What only the person knows, and is no secret. */
  fields: Field[];
  /** A secret of the other side. It goes into a file, as the token does, because a shell keeps a history. */
  secret?: Secret;
  /** What to run when the fields are filled in. */
  command: (values: Record<string, string>) => string;
}

interface Secret {
  label: string;
  hint: string;
  store: string;
}

const UP_TO_DATE = "Every entry arrives. After a stop, the same command continues.";

/** No quote or space in it, so that it stays one word in single quotes. */
const HTTPS = /^https:\/\/[^\s'"]+\.[^\s'"]+$/;

export function store(file: string): string {
  return `(umask 077; cat > ${file})`;
}

export const TOKEN_FILE = "audit-log.key";

const ADDRESS = `export AUDIT_LOG_URL=${AUDIT_LOG_URL}\n`;
const WITH_KEY = `${ADDRESS}export AUDIT_LOG_API_KEY="$(cat ${TOKEN_FILE})"\n`;
/** The command reads the file at each request, so that a rotation needs no restart. */
const WITH_COMMAND = `npm install --global ${CONSOLE_URL}public-audit-log.tgz
${ADDRESS}export AUDIT_LOG_API_KEY_FILE=${TOKEN_FILE}
`;

/** A program that the documentation shows. */
function reader(name: string, run: string, program: string): Collector {
  return {
    name,
    hint: `A program to read and change. It prints every entry. ${UP_TO_DATE}`,
    page: "following",
    fields: [],
    command: () =>
      `${WITH_KEY}curl --fail --remote-name ${CONSOLE_URL}docs/${program}\n${run} ${program}`,
  };
}

interface SinkOptions {
  /** What comes before the address after `--to=`. */
  prefix: string;
  label: string;
  example: string;
  secret: Secret;
  /** More options of the command. */
  options?: () => string;
}

function sink(name: string, sinkOptions: SinkOptions): Collector {
  const { prefix, label, example, secret, options = () => "" } = sinkOptions;
  return {
    name,
    hint: `Needs Node. ${UP_TO_DATE}`,
    page: "integrating",
    fields: [{ name: "address", label, example, pattern: HTTPS }],
    secret,
    command: ({ address }) =>
      `${WITH_COMMAND}export FORWARD_TOKEN_FILE=sink.secret
public-audit-log forward --to='${prefix}${address}' --state=audit-log.state${options()}`,
  };
}

function pasted(label: string): Secret {
  return {
    label,
    hint: "Run this, paste the secret, and press Enter and Ctrl-D.",
    store: store("sink.secret"),
  };
}

export const COLLECTORS: Collector[] = [
  {
    name: "curl",
    hint: "Ask once for today's entries, to see that the key works.",
    page: "api",
    fields: [],
    // curl reads the key from its input, because others could see it in arguments.
    command: () =>
      `${WITH_KEY}printf 'Authorization: Bearer %s' "$AUDIT_LOG_API_KEY" |
  curl --header @- "$AUDIT_LOG_URL?start=$(date -u +%F)&end=$(date -u +%F)"`,
  },
  reader("Python", "python3", "follow.py"),
  reader("Node", "node", "follow.mjs"),
  reader("Go", "go run", "follow.go"),
  {
    name: "A file, kept up to date",
    hint: `Needs Node. ${UP_TO_DATE}`,
    page: "integrating",
    fields: [],
    command: () => `${WITH_COMMAND}public-audit-log export --out=audit-log.ndjson --follow`,
  },
  sink("Splunk", {
    prefix: "splunk:",
    label: "Address of the HTTP Event Collector",
    example: "https://splunk.example.com:8088",
    secret: pasted("token of the HTTP Event Collector"),
  }),
  sink("Elasticsearch, OpenSearch", {
    prefix: "elasticsearch:",
    label: "Address, with the index",
    example: "https://elastic.example.com/audit-log",
    secret: pasted("API key"),
  }),
  sink("Datadog", {
    prefix: "datadog:",
    label: "Intake of your site",
    example: "https://http-intake.logs.datadoghq.com",
    secret: pasted("API key"),
    // It drops entries of more than 18 hours ago. The time is the hour's, so that the same text comes again.
    options: () => ` --since=${new Date(now()).toISOString().slice(0, 13)}:00:00Z`,
  }),
  sink("OpenTelemetry (OTLP)", {
    prefix: "otlp:",
    label: "Address of the receiver",
    example: "https://collector.example.com/v1/logs",
    secret: pasted("header, as in Authorization: …"),
  }),
  sink("Slack, for a few actions", {
    prefix: "slack:",
    label: "Address of incoming webhooks",
    example: "https://hooks.slack.com/services",
    secret: pasted("rest of the webhook's address, after services/"),
    options: () => " --action=api_key_created --action=api_key_rotated --action=api_key_revoked",
  }),
  {
    name: "An S3-compatible bucket",
    hint: `Needs Node. ${UP_TO_DATE} For a store that is not AWS's, also set AWS_ENDPOINT_URL_S3.`,
    page: "integrating",
    fields: [
      {
        name: "bucket",
        label: "Bucket and folder",
        example: "s3://bucket/audit-log",
        pattern: /^s3:\/\/[^\s'"/]+[^\s'"]*$/,
      },
      { name: "region", label: "Region", example: "eu-central-1", pattern: /^[\w-]+$/ },
      { name: "id", label: "Access key ID", example: "AKIAIOSFODNN7EXAMPLE", pattern: /^\w+$/ },
    ],
    secret: pasted("secret access key"),
    command: ({ bucket, region, id }) =>
      `${WITH_COMMAND}export AWS_REGION=${region} AWS_ACCESS_KEY_ID=${id}
export AWS_SECRET_ACCESS_KEY="$(cat sink.secret)"
public-audit-log forward --to='${bucket}' --state=audit-log.state`,
  },
  sink("A webhook", {
    prefix: "",
    label: "Address",
    example: "https://collector.example.com/audit",
    secret: {
      label: "signing secret",
      hint: "Run this to make one, and give it to the receiver (Standard Webhooks).",
      store: '(umask 077; echo "whsec_$(openssl rand -base64 24)" > sink.secret)',
    },
  }),
];
