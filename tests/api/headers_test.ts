// Needs nothing.

import { assert, assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { clientAddress, NDJSON } from "../../supabase/functions/public-audit-log/headers.ts";
import { pageLinks, prefersNdjson } from "../../supabase/functions/public-audit-log/headers.ts";

const URL = "https://project.example/audit";
const DAYS = { start: "2026-03-01", end: "2026-03-02" };

it("headers link to pages that neither overlap nor leave anything out", () => {
  const pages: [limit: number, offset: number, total: number, Record<string, number>][] = [
    [100, 0, 250, { first: 0, next: 100, last: 200 }],
    [100, 100, 250, { first: 0, prev: 0, next: 200, last: 200 }],
    [100, 200, 250, { first: 0, prev: 100, last: 200 }],
    [100, 0, 100, { first: 0, last: 0 }],
    [100, 0, 101, { first: 0, next: 100, last: 100 }],
    [100, 0, 0, { first: 0, last: 0 }],
    // From an offset that is no multiple of the limit, next leads to this last page.
    [7, 3, 1100, { first: 0, next: 10, last: 1095 }],
    [100, 1050, 1100, { first: 0, prev: 950, last: 1050 }],
    [7, 3, 2, { first: 0, last: 0 }],
    // From beyond the end, there is a way back.
    [100, 9000, 250, { first: 0, prev: 200, last: 200 }],
  ];
  for (const [limit, offset, total, expected] of pages) {
    const links = pageLinks(URL, { ...DAYS, limit, offset }, total)
      .matchAll(/offset=(-?\d+)>; rel="(\w+)"/g);
    const offsets = Array.from(links, ([, target, rel]) => [rel, Number(target)]);
    assertEquals(Object.fromEntries(offsets), expected, `${limit} from ${offset} of ${total}`);
  }
});

it("headers link from long filters to the next page only, because Node takes 16 KB of headers", () => {
  const query = { ...DAYS, limit: 100, user_email: "a@b.example", object: "漢".repeat(1_000) };
  for (const [offset, rel] of [[100, "next"], [200, "first"]] as const) {
    const links = pageLinks(URL, { ...query, offset }, 250);
    assertEquals(Array.from(links.matchAll(/rel="(\w+)"/g), ([, name]) => name), [rel]);
    assert(links.length < 12_000, `${links.length} characters`);
  }
});

it("headers name the caller by the address that Supabase's proxy reports, else the one that the nearest proxy adds, if it is an address", () => {
  const [supabase, proxies] = ["CF-Connecting-IP", "X-Forwarded-For"];
  const none = ["unknown", "fe80::1%eth0", "1".repeat(10_000)];
  const cases: [headers: Record<string, string>, address?: string][] = [
    [{ [supabase]: "2001:db8::1", [proxies]: "198.51.100.1" }, "2001:db8::1"],
    [{ [proxies]: "198.51.100.1, 203.0.113.7" }, "203.0.113.7"],
    [{ [proxies]: "198.51.100.1, 203.0.113.7:5678" }, "203.0.113.7"],
    [{ [supabase]: "[2001:db8::1]:5678" }, "2001:db8::1"],
    [{ [supabase]: "[::1]" }, "::1"],
    [{}],
    [{ [supabase]: "203.0.113.0/24" }],
    [{ [supabase]: "[::1]:x" }],
    ...none.map((no): [Record<string, string>] => [{ [proxies]: no }]),
  ];
  for (const [headers, address] of cases) {
    assertEquals(clientAddress(new Headers(headers)), address);
  }
});

it("headers ask for NDJSON if they prefer it to JSON, and not otherwise", () => {
  const preferred = [
    NDJSON,
    "Application/X-NDJSON",
    `${NDJSON}; charset=utf-8`,
    ...["*/*", "*/*;q=0.8", "application/*"].map((others) => `${NDJSON}, ${others}`),
    `application/json;q=0.9,${NDJSON}`,
    `application/json; q=0.1 , ${NDJSON} ; q=0.2`,
    `${NDJSON};q=0.001`,
    "application/json;q=0, */*",
  ];
  const others = [
    ...[null, "", "*/*", "text/html", "application/*"],
    `application/json, ${NDJSON}`,
    `application/json, ${NDJSON};q=0.9`,
    `*/*, ${NDJSON};q=0.5`,
    ...["0", "2", "high"].map((q) => `${NDJSON};q=${q}`),
  ];
  for (const accept of preferred) assertEquals(prefersNdjson(accept), true, accept);
  for (const accept of others) assertEquals(prefersNdjson(accept), false, `${accept}`);
});
