import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  feedLink,
  pageLinks,
  rateLimitHeaders,
} from "../../supabase/functions/public-audit-log/headers.ts";
import type { Query } from "../../supabase/functions/public-audit-log/query_schema.ts";

const URL = "https://project.example/audit";

const QUERY: Query = {
  start: "2026-03-01",
  end: "2026-03-02",
  limit: 100,
  offset: 0,
  order: "asc",
};

/** The offset of each linked page. */
function offsets(limit: number, offset: number, total: number): Record<string, number> {
  const links = pageLinks(URL, { ...QUERY, limit, offset }, total);
  return Object.fromEntries(
    Array.from(
      links.matchAll(/offset=(-?\d+)>; rel="(\w+)"/g),
      ([, target, rel]) => [rel, Number(target)],
    ),
  );
}

describe("pageLinks()", () => {
  it("keeps every parameter of the query, and is absolute", () => {
    const page = `${URL}?start=2026-03-01&end=2026-03-02&action=agent_added&order=desc&limit=100`;
    assertEquals(
      pageLinks(URL, { ...QUERY, action: "agent_added", order: "desc" }, 0),
      `<${page}&offset=0>; rel="first", <${page}&offset=0>; rel="last"`,
    );
  });

  it("has no previous page at the start and no next page at the end", () => {
    assertEquals(offsets(100, 0, 250), { first: 0, next: 100, last: 200 });
    assertEquals(offsets(100, 100, 250), { first: 0, prev: 0, next: 200, last: 200 });
    assertEquals(offsets(100, 200, 250), { first: 0, prev: 100, last: 200 });
  });

  it("ends exactly at the total", () => {
    assertEquals(offsets(100, 0, 100), { first: 0, last: 0 });
    assertEquals(offsets(100, 0, 101), { first: 0, next: 100, last: 100 });
    assertEquals(offsets(100, 0, 0), { first: 0, last: 0 });
  });

  it("has a last page that next leads to, also from an offset between two pages", () => {
    assertEquals(offsets(100, 1050, 1100), { first: 0, prev: 950, last: 1050 });
    assertEquals(offsets(7, 3, 1100), { first: 0, next: 10, last: 1095 });
    assertEquals(offsets(7, 3, 2), { first: 0, last: 0 });
  });

  it("has no previous page that overlaps this one", () => {
    for (let offset = 0; offset < 250; offset += 9) {
      const { prev } = offsets(100, offset, 250);
      assertEquals(prev, offset < 100 ? undefined : offset - 100);
    }
  });

  it("leads back from beyond the end to the last page", () => {
    assertEquals(offsets(100, 9000, 250), { first: 0, prev: 200, last: 200 });
  });
});

describe("feedLink()", () => {
  it("leads to what comes next, with the same range, action and limit", () => {
    assertEquals(
      feedLink(URL, { ...QUERY, action: "agent_added" }, "cursor-1"),
      `<${URL}?start=2026-03-01&end=2026-03-02&action=agent_added&limit=100&after=cursor-1>; rel="next"`,
    );
  });
});

describe("rateLimitHeaders()", () => {
  it("are structured fields of draft-ietf-httpapi-ratelimit-headers-10", () => {
    assertEquals(rateLimitHeaders({ remaining: 59, reset: 7 }), {
      "RateLimit-Policy": '"default";q=60;w=60',
      "RateLimit": '"default";r=59;t=7',
    });
  });

  it("say when to try again, once none is left", () => {
    assertEquals(rateLimitHeaders({ reset: 7 }), {
      "RateLimit-Policy": '"default";q=60;w=60',
      "RateLimit": '"default";r=0;t=7',
      "Retry-After": "7",
    });
  });
});
