import {
  type Destination,
  idOf,
  JSON_TYPE,
  pack,
  parseSeal,
  type Settings,
  timeOf,
  under,
} from "./destination.ts";

/** Datadog's intake, which takes 1,000 logs and 5 MB at once, and drops logs that are older than 18 hours. */
export function datadog(settings: Settings): Destination {
  return {
    async build({ lines, what, organizationId }, [key = ""]) {
      const tags = JSON.stringify(`organization:${organizationId}`);
      const logs = lines.map((line) => {
        const isSeal = what === "seals";
        const { time, service, message } = isSeal
          ? sealed(line)
          : { time: timeOf(line), service: "audit_log", message: `entry ${idOf(line)}` };
        return `{"ddsource":"audit_log","service":"${service}","ddtags":${tags},"timestamp":"${time}",` +
          `"message":"${message}",${line.slice(1)}`;
      });
      const { headers, body } = await pack(`[${logs.join(",")}]`, JSON_TYPE, settings);
      const url = under(settings.url, "api/v2/logs");
      return { method: "POST", url, headers: { ...headers, "dd-api-key": key }, body };
    },
  };
}

function sealed(line: string) {
  const { sequence, day, sealed_at: time } = parseSeal(line);
  return { time, service: "audit_log_seals", message: `seal ${sequence} of ${day}` };
}
