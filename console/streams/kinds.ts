import type { KINDS } from "../../supabase/functions/audit-log-streams/destinations/index.ts";

// What a person enters for each kind of destination (supabase/functions/audit-log-streams/destinations).

export type KindName = keyof typeof KINDS;

export interface Field {
  label: string;
  description?: string;
  placeholder?: string;
  options?: { value: string; label: string }[];
  isUrl?: boolean;
  isOptional?: boolean;
  isMultiline?: boolean;
}

interface Kind {
  name: string;
  hint: string;
  /** Asks for its address, unless that is the same for everybody. */
  url: string | Field;
  /** A setting beside the address. */
  more?: Field & { name: "region" | "body" };
  /** The parts of its secret, which colons join. None: we make the secret. */
  secrets: Field[];
  /** Where a test shows up, and what to search for there. */
  look: string;
  search?: string;
  caution?: string;
}

const BODIES = [
  { value: "ndjson", label: "One JSON object a line (NDJSON)" },
  { value: "array", label: "A JSON array" },
];

const DATADOG_SITES = [
  ["datadoghq.eu", "EU"],
  ["datadoghq.com", "US1"],
  ["us3.datadoghq.com", "US3"],
  ["us5.datadoghq.com", "US5"],
  ["ap1.datadoghq.com", "AP1"],
  ["ap2.datadoghq.com", "AP2"],
  ["ddog-gov.com", "US1-FED"],
].map(([site, name]) => ({
  value: `https://http-intake.logs.${site}`,
  label: `${name} (${site})`,
}));

const SLACK_URL = "https://hooks.slack.com/services";

export const KIND_OF: Record<KindName, Kind> = {
  webhook: {
    name: "Webhook",
    hint: "Your own receiver, signed as Standard Webhooks",
    url: {
      isUrl: true,
      label: "Address",
      description: "Auditors see it: it must not contain a token",
      placeholder: "https://example.com/audit-log",
    },
    more: { name: "body", label: "Body", options: BODIES },
    secrets: [],
    look: "Your receiver has an entry with the action",
    search: "audit_log_test",
  },
  splunk: {
    name: "Splunk",
    hint: "HTTP Event Collector",
    url: {
      isUrl: true,
      label: "Address of the HTTP Event Collector",
      placeholder: "https://example.com:8088",
    },
    secrets: [{ label: "Token", description: "Settings › Data inputs › HTTP Event Collector" }],
    look: "Search Splunk for",
    search: "sourcetype=audit_log action=audit_log_test",
  },
  datadog: {
    name: "Datadog",
    hint: "Logs",
    url: { label: "Site", options: DATADOG_SITES },
    secrets: [{ label: "API key", description: "Organization settings › API keys" }],
    look: "Search Datadog’s logs for",
    search: "source:audit_log @action:audit_log_test",
    caution: "Datadog drops entries that are older than 18 hours.",
  },
  elasticsearch: {
    name: "Elasticsearch",
    hint: "Or OpenSearch",
    url: {
      isUrl: true,
      label: "Address of the index",
      placeholder: "https://example.com:9200/audit-log",
    },
    secrets: [{
      label: "API key",
      description: "Encoded, as Kibana shows it; or a whole Authorization, such as Basic …",
      isOptional: true,
    }],
    look: "Search the index for",
    search: "action:audit_log_test",
  },
  s3: {
    name: "Bucket",
    hint: "S3, R2, MinIO, Google Cloud Storage",
    url: {
      isUrl: true,
      label: "Address of the bucket, with a folder",
      placeholder: "https://s3.eu-central-1.amazonaws.com/bucket/audit-log",
    },
    more: {
      name: "region",
      label: "Region",
      description: "Not needed for AWS, R2 and Backblaze.",
      placeholder: "us-east-1",
      isOptional: true,
    },
    secrets: [{ label: "Access key ID" }, { label: "Secret access key" }],
    look: "The folder test in the bucket has a new object.",
  },
  otlp: {
    name: "OpenTelemetry",
    hint: "Grafana, New Relic, Honeycomb, a collector",
    url: {
      isUrl: true,
      label: "Address, up to /v1/logs",
      placeholder: "https://example.com/v1/logs",
    },
    secrets: [{
      label: "Headers",
      description: "One per line, such as Authorization: Bearer …",
      isMultiline: true,
      isOptional: true,
    }],
    look: "Search the logs for",
    search: "audit_log_test",
  },
  slack: {
    name: "Slack",
    hint: "One sentence per entry, for a few actions",
    url: SLACK_URL,
    secrets: [{
      label: "Webhook address",
      placeholder: `${SLACK_URL}/T…/B…/…`,
      description: "Of an incoming webhook. Whoever knows it can write to the channel.",
    }],
    look: "The channel has a message that begins “This is a test.”",
  },
};

export function kindOf(
  { destination: { kind } }: { destination: { kind: string } },
): Kind | undefined {
  return Object.hasOwn(KIND_OF, kind) ? KIND_OF[kind as KindName] : undefined;
}

/** Makes the secret of what was entered. */
export function secretOf(kind: KindName, parts: string[]): string {
  const secret = parts.join(":");
  if (kind === "slack" && !secret.startsWith(`${SLACK_URL}/`)) {
    throw new Error(`The address of a Slack webhook begins with ${SLACK_URL}/.`);
  }
  if (kind !== "otlp" && /[^ -~]/.test(secret)) {
    throw new Error("The secret has a line break, or a character that is not ASCII.");
  }
  return kind === "slack" ? secret.slice(SLACK_URL.length + 1) : secret;
}

export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? "";
}

/** A kind and a host: whoever is there gets the secret. */
export function whereOf({ kind, url }: { kind: string; url: string }): string {
  return `${kind} ${hostOf(url)}`;
}
