import { encode, type Kind, pack, parse } from "./destination.ts";

const EXAMPLE = "https://example.eastus-1.ingest.monitor.azure.com" +
  "/dataCollectionRules/dcr-000a/streams/Custom-AuditLog";

/**
 * It takes 1 MB at once. The secret is TENANT:CLIENT:SECRET of an application that may publish to the rule. A row has the
 * whole entry in one column: such a table keeps the name `id` for itself.
 */
export const sentinel: Kind = {
  name: "Microsoft Sentinel",
  hint: "Azure Monitor Logs Ingestion API",
  url: { label: "Address of the stream in the data collection rule", placeholder: EXAMPLE },
  address(text) {
    const url = new URL(text);
    url.pathname = url.pathname.replace(/\/+$/, "");
    if (!/^\/dataCollectionRules\/[^/]+\/streams\/[^/]+$/i.test(url.pathname)) {
      throw new Error(`the address is not one like ${EXAMPLE}`);
    }
    if (!url.searchParams.has("api-version")) url.searchParams.set("api-version", "2023-01-01");
    return url;
  },
  secrets: [
    { label: "Directory (tenant) ID" },
    { label: "Application (client) ID" },
    {
      label: "Client secret",
      description: "Its value. The application needs the role Monitoring Metrics Publisher.",
    },
  ],
  look: "Search the table for",
  search: 'Entry.action == "audit_log_test"',
  caution: "Azure shows entries that are older than two days under the time of their arrival.",
  askForToken([secret = ""]) {
    const [tenant = "", client_id = "", ...rest] = secret.split(":");
    const form = new URLSearchParams({
      grant_type: "client_credentials",
      scope: "https://monitor.azure.com//.default",
      client_id,
      client_secret: rest.join(":"),
    });
    const path = `/${encodeURIComponent(tenant)}/oauth2/v2.0/token`;
    const url = new URL(path, "https://login.microsoftonline.com");
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return { method: "POST", url, headers, body: encode(form.toString()) };
  },
  async build({ lines }, [token = ""], { url }) {
    const rows = lines.map((line) => `{"TimeGenerated":"${parse(line).time}","Entry":${line}}`);
    const authorization = `Bearer ${token}`;
    return await pack(url, `[${rows.join(",")}]`, { authorization });
  },
  isOwn: ({ status }) => status === 204,
};
