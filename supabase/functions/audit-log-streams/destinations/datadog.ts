import { isJson, type Kind, pack, parse, under } from "./destination.ts";

const SITES = [
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

/** It takes 1,000 logs and 5 MB at once. The message is the entry as a text, of which Datadog makes attributes. */
export const datadog: Kind = {
  name: "Datadog",
  hint: "Logs",
  url: { label: "Site", options: SITES },
  address: (url) => under(url, "api/v2/logs"),
  secrets: [{ label: "API key", description: "Organization settings › API keys" }],
  look: "Search Datadog’s logs for",
  search: "source:audit_log @action:audit_log_test",
  caution: "Datadog drops entries that are older than 18 hours.",
  async build({ lines, platform_id }, [key = ""], { url }) {
    const tags = JSON.stringify(`organization:${platform_id}`);
    const logs = lines.map((line) => {
      const { time, action } = parse(line);
      const service = action === "seal" ? "audit_log_seals" : "audit_log";
      return `{"ddsource":"audit_log","service":"${service}","ddtags":${tags},` +
        `"timestamp":${Date.parse(time)},"message":${JSON.stringify(line)}}`;
    });
    return await pack(url, `[${logs.join(",")}]`, { "dd-api-key": key });
  },
  isOwn: isJson,
};
