import { clientAddress } from "./client_address.ts";
import type { Database } from "./database.ts";
import { decide } from "./decision.ts";
import { challenge, COMMON_HEADERS, feedLink, pageLinks, rateLimitHeaders } from "./headers.ts";
import { NDJSON, prefersNdjson, toNdjson } from "./ndjson.ts";
import type { Page, SealsPage } from "./page.ts";
import { printable } from "./printable.ts";
import { problem } from "./problem.ts";
import { EntriesQuery, parseQuery, SealsQuery, wrongCursor } from "./query.ts";
import { bearerToken, isWellFormed, tokenHash } from "./token.ts";
import { respondWith } from "./unread.ts";

/** What is logged of a request: one JSON object on one line. Never a token, never its hash. */
export interface LogLine {
  request_id: string;
  /** The API key, once the database has recognized it. */
  key_id?: string;
  status: number;
  /** From the request's arrival to its answer. */
  ms: number;
  /** Of those, spent waiting for the database. */
  db_ms?: number;
  /** The cause of a 500. */
  error?: string;
}

export interface HandlerOptions {
  database: Database;
  /** Where callers reach the function. */
  publicUrl: string;
  log: (line: LogLine) => void;
}

/** What is learned about a request on its way, for the log. */
type Trace = Pick<LogLine, "request_id" | "key_id" | "db_ms" | "error">;

/** The whole service as one function, from request to response. It never rejects. */
export function createHandler({ database, publicUrl, log }: HandlerOptions) {
  return async function handle(request: Request): Promise<Response> {
    const arrival = performance.now();
    const trace: Trace = { request_id: crypto.randomUUID() };
    let response: Response;
    try {
      response = await answer(request, database, publicUrl, trace);
    } catch (error) {
      trace.error = printable(String(error));
      response = problem("internal_error", trace.request_id);
    }
    for (const [name, value] of Object.entries(COMMON_HEADERS)) response.headers.set(name, value);
    response.headers.set("X-Request-Id", trace.request_id);
    log({ ...trace, status: response.status, ms: milliseconds(arrival) });
    return response;
  };
}

/** Some hosts leave the function's address in front; some clients end every address with a slash. */
const PATH = /^(?:\/functions\/v1)?\/public-audit-log(\/seals)?\/?$/;

async function answer(
  request: Request,
  database: Database,
  publicUrl: string,
  trace: Trace,
): Promise<Response> {
  const id = trace.request_id;
  // A malformed Host header makes `request.url` unparsable.
  const url = URL.parse(request.url);
  const path = url?.pathname.match(PATH);
  if (!url || !path) return problem("not_found", id);
  if (request.method !== "GET") {
    return problem("method_not_allowed", id, { headers: { Allow: "GET" } });
  }

  const token = bearerToken(request.headers.get("Authorization"));
  if (token === null || !await isWellFormed(token)) {
    return problem("unauthorized", id, { headers: challenge(token !== null) });
  }

  const [, seals = ""] = path;
  const ofSeals = seals !== "";
  const { query, errors } = parseQuery(url.search.slice(1), ofSeals ? SealsQuery : EntriesQuery);
  const asked = {
    tokenHash: await tokenHash(token),
    clientAddress: clientAddress(request.headers),
    query,
    ofSeals,
  };
  const departure = performance.now();
  const decision = await decide(database, asked)
    .finally(() => trace.db_ms = milliseconds(departure));
  if (decision.decision === "unauthorized") {
    return problem("unauthorized", id, { headers: challenge(true) });
  }

  trace.key_id = decision.api_key_id;
  if (decision.decision === "rate_limited") {
    const headers = {
      ...rateLimitHeaders(0, decision.reset),
      "Retry-After": String(decision.reset),
    };
    return problem("rate_limited", id, { headers });
  }

  const headers = rateLimitHeaders(decision.remaining, decision.reset);
  if (!query) return problem("invalid_parameters", id, { headers, errors });
  if (!decision.page || !decision.items) {
    if (!query.after) throw new Error("public_audit_log answered a query without a page");
    return problem("invalid_parameters", id, { headers, errors: [wrongCursor(query.after)] });
  }
  const { total, next, altered } = decision.page;
  const { start, end, limit, offset } = query;
  const page: Omit<Page, "items"> | Omit<SealsPage, "items"> = {
    organization_id: decision.organization_id,
    start,
    end,
    total,
    limit,
    offset,
    ...altered && { altered },
  };
  const base = publicUrl + seals;
  const isNdjson = !ofSeals && prefersNdjson(request.headers.get("Accept"));
  const before = isNdjson ? "" : `${JSON.stringify(page).slice(0, -1)},"items":`;
  const items = isNdjson ? toNdjson(decision.items) : decision.items;
  return respondWith(before, items, isNdjson ? "" : "}", {
    ...headers,
    "Content-Type": isNdjson ? NDJSON : "application/json",
    "Link": next ? feedLink(base, query, next) : pageLinks(base, query, total),
    "X-Total-Count": String(total),
  });
}

function milliseconds(since: number): number {
  return Math.round((performance.now() - since) * 10) / 10;
}
