import {
  type Answer,
  isSuccess,
  JSON_TYPE,
  type Kind,
  pack,
  parse,
  shown,
  unconfirmed,
  under,
  type Verdict,
} from "./destination.ts";

/** Of the token, not of the events: no such index, and a token that wants the indexer's acknowledgment (10, 11, 14). */
const SETTING_CODES = [7, 10, 11, 14];

/** Splunk's HTTP Event Collector. Events have no id there: a repeat is stored twice. */
export const splunk: Kind = {
  name: "Splunk",
  hint: "HTTP Event Collector",
  url: {
    isUrl: true,
    label: "Address of the HTTP Event Collector",
    placeholder: "https://example.com:8088",
  },
  address: (url) => under(url, "services/collector/event", /\/services\/collector(\/.*)?$/),
  secrets: [{ label: "Token", description: "Settings › Data inputs › HTTP Event Collector" }],
  look: "Search Splunk for",
  search: "sourcetype=audit_log action=audit_log_test",
  make: ({ url }) => ({
    async build({ lines }, [token = ""]) {
      const events = lines.map((line) => {
        const { time, action } = parse(line);
        const type = action === "seal" ? "audit_log_seal" : "audit_log";
        return `{"time":${Date.parse(time) / 1000},"sourcetype":"${type}","event":${line}}`;
      });
      const { headers, body } = await pack(events.join("\n"), JSON_TYPE);
      return {
        method: "POST",
        url,
        headers: { ...headers, authorization: `Splunk ${token}` },
        body,
      };
    },
    read,
  }),
};

function read(answer: Answer): Verdict | undefined {
  const code = Number(answer.body.match(/"code"\s*:\s*(\d+)/)?.[1]);
  if (isSuccess(answer)) return code === 0 ? { decision: "delivered" } : unconfirmed(answer);
  const error = `status ${answer.status}: ${shown(answer.body)}`;
  return SETTING_CODES.includes(code) ? { decision: "wait", error } : undefined;
}
