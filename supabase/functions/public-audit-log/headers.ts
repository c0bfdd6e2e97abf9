import type { Query } from "./query.ts";

/** On every answer. */
export const COMMON_HEADERS = {
  "Cache-Control": "no-store",
  "Vary": "Authorization",
  "X-Content-Type-Options": "nosniff",
};

/**
 * The challenge of a 401 (RFC 6750 section 3): with an error code only when a token was sent.
 */
export function challenge(tokenSent: boolean): HeadersInit {
  const realm = 'Bearer realm="public-audit-log"';
  return { "WWW-Authenticate": tokenSent ? `${realm}, error="invalid_token"` : realm };
}

/**
 * The state of the key's limit (draft-ietf-httpapi-ratelimit-headers-10). `reset` is in seconds,
 * rounded up: when the oldest counted request leaves the window and one more becomes possible.
 */
export function rateLimitHeaders(remaining: number, reset: number): HeadersInit {
  return {
    "RateLimit-Policy": '"default";q=60;w=60',
    "RateLimit": `"default";r=${remaining};t=${reset}`,
  };
}

/**
 * `Link` to the first, previous, next and last page (RFC 8288). The targets are query-only: relative
 * to whatever address the caller used, which the function does not see.
 */
export function pageLinks(query: Query, total: number): string {
  const { limit, offset } = query;
  // The last page of those that `next` leads to: in step with this one.
  const first = offset % limit;
  const last = total > first ? first + Math.floor((total - 1 - first) / limit) * limit : 0;
  const offsets: Record<string, number | undefined> = {
    first: 0,
    prev: offset > 0 ? Math.max(0, Math.min(offset - limit, last)) : undefined,
    next: offset + limit < total ? offset + limit : undefined,
    last,
  };
  return Object.entries(offsets).flatMap(([rel, target]) => {
    if (target === undefined) return [];
    const { start, end, action, order } = query;
    const parameters = new URLSearchParams({ start, end });
    if (action) parameters.set("action", action);
    if (order !== "asc") parameters.set("order", order);
    parameters.set("limit", String(limit));
    parameters.set("offset", String(target));
    return `<?${parameters}>; rel="${rel}"`;
  }).join(", ");
}
