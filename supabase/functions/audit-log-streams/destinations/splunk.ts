import {
  type Answer,
  type Destination,
  isSuccess,
  JSON_TYPE,
  pack,
  parseSeal,
  type Settings,
  shown,
  timeOf,
  unconfirmed,
  under,
  type Verdict,
} from "./destination.ts";

/** Of the token, not of the events: no such index, and a token that wants the indexer's acknowledgment (10, 11, 14). */
const SETTING_CODES = [7, 10, 11, 14];

/** Splunk's HTTP Event Collector. Events have no id there: a repeat is stored twice. */
export function splunk(settings: Settings): Destination {
  return {
    async build({ lines, what }, [token = ""]) {
      const events = lines.map((line) => {
        const isSeal = what === "seals";
        const time = Date.parse(isSeal ? parseSeal(line).sealed_at : timeOf(line)) / 1000;
        const type = isSeal ? "audit_log_seal" : "audit_log";
        return `{"time":${time},"sourcetype":"${type}","event":${line}}`;
      });
      const { headers, body } = await pack(events.join("\n"), JSON_TYPE);
      return {
        method: "POST",
        url: under(settings.url, "services/collector/event"),
        headers: { ...headers, authorization: `Splunk ${token}` },
        body,
      };
    },
    read,
  };
}

function read(answer: Answer): Verdict | undefined {
  const code = Number(answer.body.match(/"code"\s*:\s*(\d+)/)?.[1]);
  if (isSuccess(answer)) return code === 0 ? { decision: "delivered" } : unconfirmed(answer);
  const error = `status ${answer.status}: ${shown(answer.body)}`;
  return SETTING_CODES.includes(code) ? { decision: "wait", error } : undefined;
}
