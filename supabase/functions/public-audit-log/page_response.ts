import type { UnparsedReading } from "./ask_database.ts";
import { pageAddress, pageLinks } from "./headers.ts";
import type { Resource } from "./parse_query.ts";
import type { ActionsPage, Page, SealsPage } from "./page_schema.ts";
import type { Query } from "./query_schema.ts";
import type { Turn } from "./turns.ts";
import { respondWith } from "./unparsed_items.ts";

/** The media type of one JSON object a line. */
export const NDJSON = "application/x-ndjson";

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
  const next = cursor && has_more ? pageAddress(url, query, { after: cursor }) : null;
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

/**
 * Whether an `Accept` header prefers NDJSON to JSON (RFC 9110 section 12.5.1). Everyone else gets JSON, also
 * callers that accept neither.
 */
export function prefersNdjson(accept: string | null): boolean {
  const weights = new Map<string, number>();
  for (const range of accept?.toLowerCase().split(",") ?? []) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    const q = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
    if (/^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(q)) weights.set(type, Number(q));
  }
  // Of two types with the same weight, one that is named is preferred to one that a wildcard covers.
  const weightOf = (type: string) =>
    weights.get(type) ?? (weights.get("application/*") ?? weights.get("*/*") ?? 0) * 0.9999;
  return weightOf(NDJSON) > weightOf("application/json");
}

const COMMA = 0x2c;
const LINE_BREAK = 0x0a;

/**
 * Turns a JSON array with one item a line into NDJSON by removing the brackets and the commas at the ends of
 * lines. Works in place: `items` is overwritten.
 */
export function toNdjson(items: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const end = items.length - 1;
  let written = 0;
  for (let start = 1; start < end;) {
    const lineBreak = items.indexOf(LINE_BREAK, start);
    const next = lineBreak < 0 ? end : lineBreak;
    const isLast = next === end;
    if (!isLast && items[next - 1] !== COMMA) throw new Error("items are not one a line");
    const stop = isLast ? end : next - 1;
    items.copyWithin(written, start, stop);
    written += stop - start;
    items[written++] = LINE_BREAK;
    start = next + 1;
  }
  return items.subarray(0, written);
}
