import { askDatabase, type DataApiClient } from "./ask_database.ts";
import { contractOf } from "./contract.ts";
import type { Environment } from "./environment.ts";
import { challenge, clientAddress, COMMON_HEADERS, rateLimitHeaders } from "./headers.ts";
import { type LogLine, sanitizeForLog } from "./log_line.ts";
import { pageResponse } from "./page_response.ts";
import { parseQuery, type Resource } from "./parse_query.ts";
import { errorsOf, problem, type ProblemContext } from "./problem.ts";
import { sha256 } from "./sha256.ts";
import { Slots } from "./slots.ts";
import { bearerToken, isWellFormed } from "./token.ts";

export interface HandlerOptions extends Pick<Environment, "publicUrl" | "consoleUrl"> {
  dataApi: DataApiClient;
  log: (line: LogLine) => void;
}

type Trace = Pick<LogLine, "request_id" | "api_key_id" | "db_ms" | "error">;

/** Makes the function that answers every request. It never rejects. */
export function createHandler(options: HandlerOptions) {
  const slots = new Slots();
  return async function handle(request: Request): Promise<Response> {
    const arrival = performance.now();
    const trace: Trace = { request_id: crypto.randomUUID() };
    const context = { requestId: trace.request_id, consoleUrl: options.consoleUrl };
    const answered = answer(request, { ...options, slots, context }, trace);
    const response = await answered.catch((error) => {
      trace.error = sanitizeForLog(String(error));
      return problem("internal_error", context);
    });
    for (const [name, value] of Object.entries(COMMON_HEADERS)) response.headers.set(name, value);
    response.headers.set("X-Request-Id", trace.request_id);
    options.log({ ...trace, status: response.status, ms: milliseconds(arrival) });
    return response;
  };
}

/** Some hosts do not strip the prefix. Some clients append a slash. */
const PATH =
  /^(?:\/functions\/v1)?\/public-audit-log(?:\/(seals|actions|openapi\.json)|\/entries\/([^/]+))?\/?$/;

async function answer(
  request: Request,
  options: HandlerOptions & { slots: Slots; context: ProblemContext },
  trace: Trace,
): Promise<Response> {
  const { context } = options;
  // A malformed Host header makes `request.url` unparsable.
  const url = URL.parse(request.url);
  const path = url?.pathname.match(PATH);
  if (!url || !path) return problem("not_found", context);
  if (request.method !== "GET") {
    return problem("method_not_allowed", context, { headers: { Allow: "GET" } });
  }

  const [, name, entryId] = path;
  // Without a key, because programs read it that make a client before anybody has one.
  if (name === "openapi.json") {
    // To pages of other origins, too: it says nothing about any log.
    const headers = { "Content-Type": "application/json", "Access-Control-Allow-Origin": "*" };
    return new Response(contractOf(options.publicUrl), { headers });
  }

  const token = bearerToken(request.headers.get("Authorization"));
  const unauthorized = () =>
    problem("unauthorized", context, { headers: challenge(token !== null) });
  if (token === null || !await isWellFormed(token)) return unauthorized();

  const resource = entryId ? "entry" : name ? name as Resource : "entries";
  const parse = (actions?: string[]) =>
    parseQuery(url.search.slice(1), { resource, id: entryId, actions });
  const { query } = parse();
  const asked = {
    tokenHash: await sha256(token),
    clientAddress: clientAddress(request.headers),
    resource,
    query,
  } as const;
  // The database is asked about an invalid query, too: the request must count, and only the holder of a live key
  // is told the errors.
  const slot = await options.slots.take(asked.tokenHash, query?.limit ?? 0);
  try {
    const departure = performance.now();
    const answered = await askDatabase(options.dataApi, asked)
      .finally(() => trace.db_ms = milliseconds(departure));
    if (answered.decision === "unauthorized") return unauthorized();

    trace.api_key_id = answered.api_key_id;
    const headers = rateLimitHeaders(answered);
    if (answered.decision === "rate_limited") return problem("rate_limited", context, { headers });
    // An invalid query string is answered with invalid_query. What has no errors to tell of is a fault.
    if (!query || answered.decision !== "accepted") {
      const errors = answered.decision === "invalid_query"
        ? parse(answered.actions).errors
        : errorsOf(answered.decision, query);
      if (errors) return problem("invalid_parameters", context, { headers, errors });
      throw new Error(`public_audit_log answered ${answered.decision}, which does not fit`);
    }
    if (resource === "entry" && answered.total === 0) {
      return problem("entry_not_found", context, { headers });
    }
    return pageResponse(query, answered, {
      resource,
      url: options.publicUrl + (name ? `/${name}` : ""),
      accept: request.headers.get("Accept"),
      slot,
      headers,
    });
  } finally {
    slot.shrinkTo(slot.bodyBytes);
  }
}

function milliseconds(since: number): number {
  return Math.round((performance.now() - since) * 10) / 10;
}
