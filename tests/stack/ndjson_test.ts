import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { prefersNdjson } from "../../supabase/functions/public-audit-log/ndjson.ts";
import { newOrganization, send, signUp, TWO_DAYS, writeEntries } from "../helpers.ts";

const NDJSON = "application/x-ndjson";
const admin = await signUp();

/** An organization with entries of every kind of text. */
async function newLog(count = 3) {
  const organization = await newOrganization(admin);
  await writeEntries(
    organization.id,
    Array.from({ length: count }, (_, n) => ({
      action: "agent_added" as const,
      created_at: `2026-03-01T12:00:00.${String(n).padStart(3, "0")}Z`,
      agent_name: `a,\n"[{}]," ${n}`,
      data: { text: 'x,\n{"a":1},\u2028\r\n', list: [1, [2], { a: [] }] },
    })),
  );
  return organization;
}

/** An answer as JSON or as another `Accept` says. */
async function ask(token: string, query: string, Accept = "application/json") {
  const headers = { Authorization: `Bearer ${token}`, Accept };
  const response = await send(query, { headers });
  return { response, text: await response.text() };
}

function itemsOf(page: string): string {
  return page.match(/"items":\[(.*)\]\}$/s)?.[1] ?? "none";
}

describe("application/x-ndjson", () => {
  for (const query of [`?${TWO_DAYS}`, `?${TWO_DAYS}&after=beginning`]) {
    it(`has each entry on a line, byte for byte as JSON has it: ${query}`, async () => {
      const { token } = await newLog();
      const json = await ask(token, query);
      const { response, text } = await ask(token, query, NDJSON);
      assertEquals(response.headers.get("Content-Type"), NDJSON);
      const lines = text.split("\n");
      assertEquals([lines.length, lines.at(-1)], [4, ""]);
      assertEquals(lines.slice(0, -1).join(",\n"), itemsOf(json.text));
      assertEquals(lines.slice(0, -1).map((line) => JSON.parse(line)), JSON.parse(json.text).items);
    });
  }

  it("has total, links and all other headers as JSON has them", async () => {
    const { token } = await newLog();
    const headersOf = async (accept: string) => {
      const { response } = await ask(token, `?${TWO_DAYS}&limit=1&offset=1`, accept);
      const headers = new Headers(response.headers);
      for (const each of ["Content-Type", "Content-Length", "Date", "RateLimit", "X-Request-Id"]) {
        headers.delete(each);
      }
      return Object.fromEntries(headers);
    };
    const headers = await headersOf(NDJSON);
    assertEquals(headers, await headersOf("application/json"));
    assertEquals([headers["x-total-count"], headers["vary"]], ["3", "Authorization, Accept"]);
    assert(headers["link"]?.includes('rel="next"'));
  });

  it("of no entries is empty", async () => {
    const { token } = await newLog(0);
    const { response, text } = await ask(token, `?${TWO_DAYS}`, NDJSON);
    assertEquals([text, response.headers.get("X-Total-Count")], ["", "0"]);
  });

  it("leaves errors and seals as they are", async () => {
    const { token } = await newLog(0);
    const typeOf = async (query: string) =>
      (await ask(token, query, NDJSON)).response.headers.get("Content-Type");
    assertEquals(await typeOf("?start=x"), "application/problem+json");
    assertEquals(await typeOf(`/seals?${TWO_DAYS}`), "application/json");
  });
});

describe("prefersNdjson()", () => {
  const cases: [string | null, boolean][] = [
    [null, false],
    ["", false],
    ["*/*", false],
    ["text/html", false],
    ["application/json", false],
    ["application/*", false],
    [NDJSON, true],
    ["Application/X-NDJSON", true],
    [`${NDJSON}; charset=utf-8`, true],
    [`${NDJSON}, */*;q=0.8`, true],
    [`application/json;q=0.9,${NDJSON}`, true],
    [`application/json; q=0.1 , ${NDJSON} ; q=0.2`, true],
    [`application/json, ${NDJSON}`, false],
    [`application/json, ${NDJSON};q=0.9`, false],
    [`${NDJSON};q=0`, false],
    [`${NDJSON};q=0.001`, true],
    [`application/json;q=0, */*`, true],
    [`*/*, ${NDJSON};q=0.5`, false],
    [`${NDJSON};q=2`, false],
    [`${NDJSON};q=high`, false],
  ];
  for (const [accept, expected] of cases) {
    it(`is ${expected} of ${accept}`, () => assertEquals(prefersNdjson(accept), expected));
  }
});
