import { isJson, isSuccess, type Kind, pack, parse, shown, under } from "./destination.ts";

/** OTLP/HTTP with JSON. The URL may lack /v1/logs, as some show it. The secret is headers, NAME: VALUE on each line. */
export const otlp: Kind = {
  name: "OpenTelemetry",
  hint: "Grafana, New Relic, Honeycomb, a collector",
  url: { label: "Address, up to /v1/logs", placeholder: "https://example.com/v1/logs" },
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
  /** An ExportLogsServiceRequest, whose bodies are the entries as texts. */
  async build({ lines, platform_id }, [secret = ""], { url }) {
    const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
    const logRecords = lines.map((line) => {
      const { id, action: eventName, time } = parse(line);
      return {
        timeUnixNano: `${Date.parse(time)}000000`,
        severityNumber: 9,
        severityText: "INFO",
        eventName,
        body: { stringValue: line },
        attributes: [attribute("event.name", eventName), attribute("log.record.uid", id)],
      };
    });
    const owner = attribute("organization.id", platform_id);
    const resource = { attributes: [attribute("service.name", "audit_log"), owner] };
    const scopeLogs = [{ scope: { name: "audit_log" }, logRecords }];
    const text = JSON.stringify({ resourceLogs: [{ resource, scopeLogs }] });
    return await pack(url, text, parseHeaders(secret));
  },
  read(answer) {
    // Nobody says which, so less at once finds them.
    const [, count] = answer.body.match(/"rejected_?log_?records"\s*:\s*"?(\d+)/i) ?? [];
    const isPartial = isSuccess(answer) && Number(count) > 0;
    return isPartial ? { decision: "rejected", error: shown(answer.body) } : undefined;
  },
  isOwn: isJson,
};

/** Reads NAME: VALUE on each line. Whatever else there is is no header. */
function parseHeaders(text: string): Record<string, string> {
  const pairs = text.split(/\r?\n/).flatMap((line) => {
    const [, name, value] = line.match(/^([\w-]+):\s*(.*?)\s*$/) ?? [];
    return name && value ? [[name.toLowerCase(), value]] : [];
  });
  return Object.fromEntries(pairs);
}
