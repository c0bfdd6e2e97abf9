import {
  type Destination,
  JSON_TYPE,
  pack,
  parseSeal,
  readJson,
  type Settings,
  timeOf,
  under,
} from "./destination.ts";

/**
 * Datadog's intake, which takes 1,000 logs and 5 MB at once, and drops logs that are older than 18 hours. The message is
 * the entry as a text, as the Agent sends a line of a file: Datadog makes attributes of it.
 */
export function datadog(settings: Settings): Destination {
  return {
    async build({ lines, what, shownId }, [key = ""]) {
      const tags = JSON.stringify(`organization:${shownId}`);
      const logs = lines.map((line) => {
        const isSeal = what === "seals";
        const time = Date.parse(isSeal ? parseSeal(line).sealed_at : timeOf(line));
        const service = isSeal ? "audit_log_seals" : "audit_log";
        return `{"ddsource":"audit_log","service":"${service}","ddtags":${tags},"timestamp":${time},` +
          `"message":${JSON.stringify(line)}}`;
      });
      const { headers, body } = await pack(`[${logs.join(",")}]`, JSON_TYPE);
      const url = under(settings.url, "api/v2/logs");
      return { method: "POST", url, headers: { ...headers, "dd-api-key": key }, body };
    },
    read: readJson,
  };
}
