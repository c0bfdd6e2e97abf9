import {
  type Answer,
  type Batch,
  isSuccess,
  JSON_TYPE,
  type Kind,
  pack,
  parse,
  readJson,
  shown,
  under,
  type Verdict,
} from "./destination.ts";

/**
 * OTLP/HTTP with JSON: Grafana, New Relic, Honeycomb, a collector. The URL is the whole one, or the one that they show,
 * without /v1/logs. The secret is headers, NAME: VALUE on each line.
 */
export const otlp: Kind = {
  name: "OpenTelemetry",
  hint: "Grafana, New Relic, Honeycomb, a collector",
  url: {
    isUrl: true,
    label: "Address, up to /v1/logs",
    placeholder: "https://example.com/v1/logs",
  },
  address(text) {
    const isBase = /^\/*$|\/otlp\/*$/.test(new URL(text).pathname);
    return isBase ? under(text, "v1/logs") : new URL(text);
  },
  secrets: [{
    label: "Headers",
    description: "One per line, such as Authorization: Bearer …",
    isMultiline: true,
    isOptional: true,
  }],
  look: "Search the logs for",
  search: "audit_log_test",
  make: ({ url }) => ({
    async build(batch, [secret = ""]) {
      const { headers, body } = await pack(requestOf(batch), JSON_TYPE);
      return { method: "POST", url, headers: { ...headers, ...parseHeaders(secret) }, body };
    },
    read,
  }),
};

/** An ExportLogsServiceRequest, whose bodies are the entries as texts. */
function requestOf({ lines, shownId }: Batch): string {
  const records = lines.map((line) => {
    const { id, action: event, time } = parse(line);
    return `{"timeUnixNano":"${Date.parse(time)}000000","severityNumber":9,"severityText":"INFO",` +
      `"eventName":"${event}","body":{"stringValue":${JSON.stringify(line)}},"attributes":[` +
      `${attribute("event.name", event)},${attribute("log.record.uid", id)}]}`;
  });
  const resource = `{"attributes":[${attribute("service.name", "audit_log")},` +
    `${attribute("organization.id", shownId)}]}`;
  const scope = `{"scope":{"name":"audit_log"},"logRecords":[${records.join(",")}]}`;
  return `{"resourceLogs":[{"resource":${resource},"scopeLogs":[${scope}]}]}`;
}

function attribute(key: string, value: string): string {
  return JSON.stringify({ key, value: { stringValue: value } });
}

/** Reads NAME: VALUE on each line. Whatever else there is is no header. */
function parseHeaders(text: string): Record<string, string> {
  const pairs = text.split(/\r?\n/).flatMap((line) => {
    const [, name, value] = line.match(/^([\w-]+):\s*(.*?)\s*$/) ?? [];
    return name && value ? [[name.toLowerCase(), value]] : [];
  });
  return Object.fromEntries(pairs);
}

function read(answer: Answer): Verdict | undefined {
  // Nobody says which, so less at once finds them.
  const [, count] = answer.body.match(/"rejected_?log_?records"\s*:\s*"?(\d+)/i) ?? [];
  const isPartial = isSuccess(answer) && Number(count) > 0;
  return isPartial ? { decision: "rejected", error: shown(answer.body) } : readJson(answer);
}
