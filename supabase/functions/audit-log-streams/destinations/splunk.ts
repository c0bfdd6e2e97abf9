import { type Answer, isSuccess, type Kind, pack, parse, shown, under } from "./destination.ts";

/** Of the token, not of the events: no such index, and a token that wants the indexer's acknowledgment (10, 11, 14). */
const SETTING_CODES = [7, 10, 11, 14];

/** Splunk's HTTP Event Collector. Events have no id there: a repeat is stored twice. */
export const splunk: Kind = {
  name: "Splunk",
  hint: "HTTP Event Collector",
  url: { label: "Address of the HTTP Event Collector", placeholder: "https://example.com:8088" },
  address: (url) => under(url, "services/collector/event", /\/services\/collector(\/.*)?$/),
  secrets: [{ label: "Token", description: "Settings › Data inputs › HTTP Event Collector" }],
  look: "Search Splunk for",
  search: "sourcetype=audit_log action=audit_log_test",
  async build({ lines }, [token = ""], { url }) {
    const events = lines.map((line) => {
      const { time, action } = parse(line);
      const type = action === "seal" ? "audit_log_seal" : "audit_log";
      return `{"time":${Date.parse(time) / 1000},"sourcetype":"${type}","event":${line}}`;
    });
    return await pack(url, events.join("\n"), { authorization: `Splunk ${token}` });
  },
  read(answer) {
    if (isSuccess(answer) || !SETTING_CODES.includes(codeOf(answer))) return undefined;
    return { decision: "wait", error: `status ${answer.status}: ${shown(answer.body)}` };
  },
  isOwn: (answer) => codeOf(answer) === 0,
};

function codeOf({ body }: Answer): number {
  return Number(body.match(/"code"\s*:\s*(\d+)/)?.[1]);
}
