import type { UnparsedReading } from "./ask_database.ts";
import { feedAddress, pageLinks } from "./headers.ts";
import { NDJSON, prefersNdjson, toNdjson } from "./ndjson.ts";
import type { Resource } from "./parse_query.ts";
import type { ActionsPage, Page, SealsPage } from "./page_schema.ts";
import type { Query } from "./query_schema.ts";
import type { Turn } from "./turns.ts";
import { respondWith } from "./unparsed_items.ts";

export interface PageResponseOptions {
  resource: Resource;
  /** Where callers reach this resource, for the links to other pages. */
  url: string;
  /** The `Accept` header. */
  accept: string | null;
  /** The request's turn, which ends with the body. */
  turn: Turn;
  headers: HeadersInit;
}

/** Answers 200 with a page, as JSON or NDJSON. */
export function pageResponse(
  query: Query,
  { organization_id, total, cursor, has_more, altered, items }: UnparsedReading,
  { resource, url, accept, turn, headers }: PageResponseOptions,
): Response {
  const { start, end, since, until, limit, offset } = query;
  const next = cursor && has_more ? feedAddress(url, query, cursor) : null;
  const common = {
    ...headers,
    ...next && { "Link": `<${next}>; rel="next"` },
    ...!cursor && resource !== "actions" && { "Link": pageLinks(url, query, total) },
    "X-Total-Count": String(total),
    ...cursor && { "X-Cursor": cursor, "X-Has-More": String(has_more) },
  };
  // Seals and actions are always one JSON document.
  if (resource === "entries" && prefersNdjson(accept)) {
    const headers = { ...common, "Content-Type": NDJSON };
    return respondWith("", toNdjson(items), "", { turn, headers });
  }
  const page: Omit<Page | SealsPage | ActionsPage, "items"> = {
    organization_id,
    ...resource !== "actions" && { start, end },
    ...since && { since },
    ...until && { until },
    total,
    ...resource !== "actions" && { limit, offset },
    ...cursor && { cursor, has_more: has_more === true, next },
    ...altered && { altered },
  };
  const before = `${JSON.stringify(page).slice(0, -1)},"items":`;
  return respondWith(before, items, "}", {
    turn,
    headers: { ...common, "Content-Type": "application/json" },
  });
}
