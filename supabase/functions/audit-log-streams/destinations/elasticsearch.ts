import {
  type Answer,
  type Batch,
  type Destination,
  encode,
  idOf,
  isSuccess,
  NDJSON,
  pack,
  parseSeal,
  type SetAside,
  type Settings,
  sha256,
  shown,
  timeOf,
  unconfirmed,
  under,
  type Verdict,
} from "./destination.ts";

/** Elasticsearch's or OpenSearch's `_bulk`. If that has an entry already, it answers 409: no failure. */
export function elasticsearch(settings: Settings): Destination {
  return {
    async build({ lines, what, shownId }, [token = ""]) {
      // Two organizations may have the same id and time, and one index. Their names may be longer than an _id.
      const organization = (await sha256(encode(shownId))).slice(0, 16);
      const documents = lines.map((line) => {
        const { id, time } = what === "seals"
          ? named(line)
          : { id: idOf(line), time: timeOf(line) };
        return `{"create":{"_id":"${organization}/${id}/${time}"}}\n{"@timestamp":"${time}",${
          line.slice(1)
        }\n`;
      });
      const { headers, body } = await pack(documents.join(""), NDJSON);
      const authorization = token.includes(" ") ? token : `ApiKey ${token}`;
      const url = under(settings.url, "_bulk");
      url.searchParams.set("filter_path", "errors,items.*.status,items.*.error");
      return { method: "POST", url, headers: { ...headers, ...token && { authorization } }, body };
    },
    read,
  };
}

/** A chain that was made anew has other seals under the same numbers: that must show. */
function named(line: string): { id: string; time: string } {
  const { sequence, seal, sealed_at: time } = parseSeal(line);
  return { id: `seal/${sequence}/${seal}`, time };
}

interface BulkAnswer {
  errors?: boolean;
  items?: { create?: { status?: number; error?: { type?: string } } }[];
}

function read(answer: Answer, { lines }: Batch): Verdict | undefined {
  if (!isSuccess(answer)) return undefined;
  const { errors, items = [] } = parse(answer.body);
  if (errors === false) return { decision: "delivered" };
  if (items.length !== lines.length) return unconfirmed(answer);
  const setAside: SetAside[] = [];
  for (const [n, { create }] of items.entries()) {
    const { status = 500, error } = create ?? {};
    if (status < 300 || status === 409) continue;
    const reason = JSON.stringify(error) ?? "";
    // Any other status than 400 is of the index, the token or the load: the next entry would be refused, too. So would
    // it be by an index that is closed (index_closed_exception), or has a name that cannot be one.
    if (status !== 400 || /^(invalid_)?index_/.test(error?.type ?? "")) {
      const line = lines[n] ?? "";
      const error = `it refuses the entry ${idOf(line)} of ${timeOf(line)} with status ${status}: ${
        shown(reason)
      }`;
      return { decision: "wait", error };
    }
    setAside.push({ n, reason });
  }
  return { decision: "delivered", setAside };
}

/** An answer that is not JSON, as of a proxy, confirms nothing. */
function parse(body: string): BulkAnswer {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}
