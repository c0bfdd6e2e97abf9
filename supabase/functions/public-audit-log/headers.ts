import * as z from "zod";
import type { Answered } from "./ask_database.ts";
import type { Query } from "./query_schema.ts";

const Address = z.union([z.ipv4(), z.ipv6()]);
const WITH_PORT = /^\[(.*)\](?::\d+)?$|^(\d+(?:\.\d+){3}):\d+$/;

/**
 * The caller's IP address, for the record of who read the log; `undefined` when no proxy reports one. On Supabase
 * it is `CF-Connecting-IP`, which only Supabase's proxy can set. Elsewhere it is the last address of
 * `X-Forwarded-For`, which the nearest proxy adds: trust it as much as that proxy.
 */
export function clientAddress(headers: Headers): string | undefined {
  const reported = headers.get("CF-Connecting-IP") ??
    headers.get("X-Forwarded-For")?.split(",").at(-1);
  const address = reported?.trim().replace(WITH_PORT, "$1$2");
  return Address.safeParse(address).data;
}

export const NDJSON = "application/x-ndjson";

/** Whether an `Accept` header prefers NDJSON to JSON (RFC 9110 section 12.5.1), which everyone else gets. */
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

export const COMMON_HEADERS = {
  "Cache-Control": "no-store",
  "Vary": "Authorization, Accept",
  "X-Content-Type-Options": "nosniff",
};

/** The challenge of a 401 (RFC 6750 section 3): with an error code only when a token was sent. */
export function challenge(tokenSent: boolean): HeadersInit {
  const realm = 'Bearer realm="public-audit-log"';
  return { "WWW-Authenticate": tokenSent ? `${realm}, error="invalid_token"` : realm };
}

/** The state of the key's rate limit (draft-ietf-httpapi-ratelimit-headers-10). */
export function rateLimitHeaders(
  { decision, quota, remaining, reset }: Exclude<Answered, { decision: "unauthorized" }>,
): HeadersInit {
  return {
    "RateLimit-Policy": `"default";q=${quota};w=60`,
    "RateLimit": `"default";r=${remaining};t=${reset}`,
    ...decision === "rate_limited" && { "Retry-After": String(reset) },
  };
}

/** `Link` to the other pages (RFC 8288). Absolute: axios with li, octokit and Elastic's collectors resolve no other. */
export function pageLinks(publicUrl: string, query: Query, total: number): string {
  const { limit, offset } = query;
  // A reader that follows `next` from here ends on this page. Divided by `limit`, its offset and
  // this one leave the same remainder.
  const first = offset % limit;
  const last = total > first ? first + Math.floor((total - 1 - first) / limit) * limit : 0;
  const offsets = {
    first: 0,
    // There is none when less than a page lies before this one: the two would overlap.
    ...offset >= limit && { prev: Math.min(offset - limit, last) },
    ...offset + limit < total && { next: offset + limit },
    last,
  };
  const links = Object.entries(offsets)
    .map(([rel, offset]) => `<${pageAddress(publicUrl, query, { offset })}>; rel="${rel}"`);
  // Node takes 16 KB of headers in all. Whoever follows `next` still gets every page.
  const isLong = links.join().length > 8_000;
  const most = `rel="${offsets.next ? "next" : "first"}"`;
  return links.filter((link) => !isLong || link.endsWith(most)).join(", ");
}

/** The address of another page of a query: of an `offset`, or of the feed's cursor `after`. */
export function pageAddress(
  publicUrl: string,
  { limit, offset: _offset, after: _after, order, ...filters }: Query,
  place: { offset: number } | { after: string },
): string {
  const given = { ...filters, ...order === "desc" && { order }, limit, ...place };
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  return `${publicUrl}?${parameters}`;
}
