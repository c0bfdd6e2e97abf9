import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  clientAddress,
  networkOf,
  pageLinks,
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

/** Reads the offset of each linked page. */
function offsets(limit: number, offset: number, total: number): Record<string, number> {
  const links = pageLinks(URL, { ...QUERY, limit, offset }, total);
  const found = links.matchAll(/offset=(-?\d+)>; rel="(\w+)"/g);
  return Object.fromEntries(Array.from(found, ([, target, rel]) => [rel, Number(target)]));
}

describe("pageLinks()", () => {
  it("keeps every parameter of the query, and is absolute", () => {
    const page = `${URL}?start=2026-03-01&end=2026-03-02&action=agent_added&order=desc&limit=100`;
    assertEquals(
      pageLinks(URL, { ...QUERY, action: ["agent_added"], order: "desc" }, 0),
      `<${page}&offset=0>; rel="first", <${page}&offset=0>; rel="last"`,
    );
  });

  const pages: [string, number, number, number, Record<string, number>][] = [
    ["no previous page at the start", 100, 0, 250, { first: 0, next: 100, last: 200 }],
    ["both neighbours in between", 100, 100, 250, { first: 0, prev: 0, next: 200, last: 200 }],
    ["no next page at the end", 100, 200, 250, { first: 0, prev: 100, last: 200 }],
    ["no next page at exactly the end", 100, 0, 100, { first: 0, last: 0 }],
    ["a next page for one entry", 100, 0, 101, { first: 0, next: 100, last: 100 }],
    ["one empty page", 100, 0, 0, { first: 0, last: 0 }],
    ["a last page that next leads to", 7, 3, 1100, { first: 0, next: 10, last: 1095 }],
    ["the last page as itself", 100, 1050, 1100, { first: 0, prev: 950, last: 1050 }],
    ["no previous page that overlaps this one", 7, 3, 2, { first: 0, last: 0 }],
    ["a way back from beyond the end", 100, 9000, 250, { first: 0, prev: 200, last: 200 }],
  ];
  for (const [what, limit, offset, total, expected] of pages) {
    it(`has ${what}: ${limit} from ${offset} of ${total}`, () => {
      assertEquals(offsets(limit, offset, total), expected);
    });
  }
});

describe("clientAddress()", () => {
  it("is the address that Supabase's proxy reports, else the one that the nearest proxy adds, if it is an address", () => {
    const [supabase, proxies] = ["CF-Connecting-IP", "X-Forwarded-For"];
    const cases: [headers: Record<string, string>, address?: string][] = [
      [{ [supabase]: "2001:db8::1", [proxies]: "198.51.100.1" }, "2001:db8::1"],
      [{ [proxies]: "198.51.100.1, 203.0.113.7" }, "203.0.113.7"],
      [{}],
      [{ [supabase]: "203.0.113.0/24" }],
      ...["unknown", "fe80::1%eth0", "1".repeat(10_000)].map((no): [Record<string, string>] => [
        { [proxies]: no },
      ]),
    ];
    for (const [headers, address] of cases) {
      assertEquals(clientAddress(new Headers(headers)), address);
    }
  });
});

describe("networkOf()", () => {
  it("is the same for all addresses that one machine can have", () => {
    const cases: [address: string | undefined, network: string][] = [
      ["2001:db8::1", "2001:db8:0:0"],
      ["2001:DB8:0:0:ffff::", "2001:db8:0:0"],
      ["2001:db8:0:1::", "2001:db8:0:1"],
      ["203.0.113.7", "203.0.113.7"],
      ["::ffff:203.0.113.7", "::ffff:203.0.113.7"],
      [undefined, ""],
    ];
    for (const [address, network] of cases) assertEquals(networkOf(address), network);
  });
});
