import { sha256 } from "../../public-audit-log/sha256.ts";
import { isSuccess, type Kind, NDJSON, pack, parse } from "./destination.ts";
import { shown, unconfirmed, under, type Verdict } from "./destination.ts";

const PARTS = "errors,items.*.status,items.*.error,items.*.failure_store";

/** Elasticsearch's or OpenSearch's `_bulk`. If that has an entry already, it answers 409: no failure. */
export const elasticsearch: Kind = {
  name: "Elasticsearch",
  hint: "Or OpenSearch",
  url: { label: "Address of the index", placeholder: "https://example.com:9200/audit-log" },
  address(text) {
    const url = under(text, "_bulk", /\/_\w+(\/.*)?$/);
    if (url.pathname === "/_bulk") {
      throw new Error(`the address has no index: write https://${url.host}/audit-log`);
    }
    url.searchParams.set("filter_path", PARTS);
    return url;
  },
  secrets: [{
    label: "API key",
    description: "Encoded, as Kibana shows it; or a whole Authorization, such as Basic …",
    isOptional: true,
  }],
  look: "Search the index for",
  search: "action:audit_log_test",
  async build({ lines, platform_id }, [token = ""], { url }) {
    // Two organizations may have the same id and time, and one index. Their names may be longer than an _id.
    const organization = (await sha256(platform_id)).slice(0, 16);
    const documents = lines.map((line) => {
      const { id, time, action } = parse(line);
      const name = action === "seal" ? `seal/${id.replace(":", "/")}` : id;
      const create = { _id: `${organization}/${name}/${time}` };
      return `${JSON.stringify({ create })}\n{"@timestamp":"${time}",${line.slice(1)}\n`;
    });
    const authorization = token.includes(" ") ? token : `ApiKey ${token}`;
    const headers = { "content-type": NDJSON, ...token && { authorization } };
    return await pack(url, documents.join(""), headers);
  },
  read(answer, { lines }) {
    if (!isSuccess(answer)) return undefined;
    const { errors, items = [] } = parseAnswer(answer.body);
    if (errors === false && items.length === 0) return { decision: "delivered" };
    if (items.length !== lines.length) return unconfirmed(answer);
    const rejected: Verdict["rejected"] = [];
    for (const [n, { create }] of items.entries()) {
      const { status = 500, error, failure_store } = create ?? {};
      // A success, too: the data stream could not take the entry, and has put it aside.
      const isAside = failure_store === "used";
      if (!isAside && (status < 300 || status === 409)) continue;
      const reason = isAside ? "the entry is in the failure store" : JSON.stringify(error) ?? "";
      // Any other status than 400 is of the index, the token or the load: the next entry would be rejected, too. So
      // would it be by an index that is closed (index_closed_exception), or has a name that cannot be one.
      if (!isAside && (status !== 400 || /^(invalid_)?index_/.test(error?.type ?? ""))) {
        const { id, time } = parse(lines[n] ?? "");
        const what = `the entry ${id} of ${time} with status ${status}`;
        return { decision: "wait", error: `it rejects ${what}: ${shown(reason)}` };
      }
      rejected.push({ n, reason });
    }
    return { decision: "delivered", rejected };
  },
};

interface BulkAnswer {
  errors?: boolean;
  items?: { create?: { status?: number; error?: { type?: string }; failure_store?: string } }[];
}

/** An answer that is not JSON, as of a proxy, confirms nothing. */
function parseAnswer(body: string): BulkAnswer {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}
