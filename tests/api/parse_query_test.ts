// Needs nothing.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { MAX_LENGTH, parseQuery } from "../../supabase/functions/public-audit-log/parse_query.ts";
import { EntriesQuery } from "../../supabase/functions/public-audit-log/query_schema.ts";
import { SealsQuery } from "../../supabase/functions/public-audit-log/query_schema.ts";

const TWO_DAYS = "start=2026-03-01&end=2026-03-02";
const DAY = "2026-03-01";
const NOON = `${DAY}T12:00:00`;
const TIMES = ["since", "until"];
const TEXTS = ["object", "user_email"];
/** As many as are allowed. */
const ACTIONS = [..."abcdefghijklmnopqrst"].join();

function badParameters(query: string): string[] {
  return (parseQuery(query).errors ?? []).map(({ parameter }) => parameter).sort();
}

const refused: [what: string, query: string, bad: string[]][] = [
  ["days that do not exist", "start=2026-02-29&end=2026-1-1", ["end", "start"]],
  ["the years 0 and 10000", "start=0000-12-31&end=10000-01-01", ["end", "start"]],
  ["a limit above 1000", `${TWO_DAYS}&limit=1001`, ["limit"]],
  ["numbers that are not whole", `${TWO_DAYS}&limit=1e2&offset=1.0`, ["limit", "offset"]],
  ["offsets that no number holds exactly", `${TWO_DAYS}&offset=9007199254740992`, ["offset"]],
  ["orders but asc and desc", `${TWO_DAYS}&order=DESC`, ["order"]],
  ["unknown parameters", `${TWO_DAYS}&acton=x&=y&__proto__=1`, ["", "__proto__", "acton"]],
  ["what identifies an entry", `${TWO_DAYS}&id=x&created_at=${NOON}Z`, ["created_at", "id"]],
  ["a question mark before a name", `?${TWO_DAYS}`, ["?start", "start"]],
  ["repeated parameters, also with one value", `${TWO_DAYS}&limit=5&limit=5`, ["limit"]],
  ["repeated actions", `${TWO_DAYS}&action=a&action=b`, ["action"]],
  ["a start after the end", "start=2026-03-02&end=2026-03-01", ["end"]],
  ["a time as a day", "start=2026-03-01T10:00:00Z&end=2026-03-02", ["start"]],
  ["a day, or a time without a zone, as a time", `since=${DAY}&until=${NOON}`, TIMES],
  ["a zone whose plus sign was not encoded", `since=${NOON}+01:00`, ["since"]],
  ["a leap second, and the hour 24", `since=${DAY}T23:59:60Z&until=${DAY}T24:00:00Z`, TIMES],
  ["times finer than a microsecond", `since=${NOON}.1234567Z`, ["since"]],
  ["an until that is since", `since=${NOON}.0001Z&until=${NOON}.0001Z`, ["until"]],
  ["times outside the days", `${TWO_DAYS}&since=2026-03-03T00:00:00Z`, ["since"]],
  ["an until before the days", `${TWO_DAYS}&until=2026-03-01T00:00:00Z`, ["until"]],
  ["a query that does not say which days", "since=&limit=1", ["since"]],
  ["more than 20 actions", `${TWO_DAYS}&action=${ACTIONS},u`, ["action"]],
  ["an action twice, or an empty one", `${TWO_DAYS}&action=a,b,a`, ["action"]],
  ["texts that are empty", `${TWO_DAYS}&user_email=&object=`, TEXTS],
  ["texts with NUL", `${TWO_DAYS}&user_email=a%00&object=a%00`, TEXTS],
  ["long texts", `${TWO_DAYS}&user_email=${"é".repeat(321)}&object=${"x".repeat(1001)}`, TEXTS],
  ["a token as an object", `${TWO_DAYS}&object=pck_${"x".repeat(38)}`, ["object"]],
  ["a token as a cursor", `after=pck_${"x".repeat(38)}`, ["after"]],
  ["a zone beyond 14 hours", "since=2026-03-01T12:00:00%2B15:00", ["since"]],
  ["an offset and an order beside after", "after=x&offset=1&order=desc", ["offset", "order"]],
  ["no days without after", "offset=0", ["end", "start"]],
  ["one day of two without after", "end=2026-03-02", ["start"]],
  ["all bad parameters at once", "start=2026-03-02&end=x&limit=0&x=x", ["end", "limit", "x"]],
];
for (const [what, query, bad] of refused) {
  it(`parseQuery() refuses ${what}, by name: ${query}`, () =>
    assertEquals(badParameters(query), bad));
}

it("parseQuery() says in words of ours what each parameter must be, also with the catalogue", () => {
  for (const [, query] of refused) {
    for (const catalogue of [{}, { actions: ["agent_added"] }]) {
      const { errors = [] } = parseQuery(query, catalogue);
      assertEquals(errors.filter(({ detail }) => !/: must /.test(detail)), []);
    }
  }
});

it("parseQuery() takes all days with after, and the defaults of offset and order", () => {
  for (const query of ["after=x", "after=x&offset=0&order=asc&limit=100"]) {
    const all = { start: "0001-01-01", end: "9999-12-31", limit: 100, offset: 0, order: "asc" };
    assertEquals(parseQuery(query), { query: { ...all, after: "x" } });
  }
  const { query } = parseQuery("after=x&end=2026-03-02");
  assertEquals([query?.start, query?.end], ["0001-01-01", "2026-03-02"]);
});

const accepted = [
  `start=2024-02-29&end=9999-12-31&user_email=${"é".repeat(320)}`,
  `${TWO_DAYS}&object=a%26b+%F0%9F%98%80%0A`,
  `${TWO_DAYS}&limit=${"0".repeat(300)}1&offset=9007199254740991`,
  "since=2026-03-01T10:00:00Z",
  "until=0001-01-01T00:00:00.001Z",
  `since=${NOON}.000123Z&until=${NOON}.000124Z`,
  `${TWO_DAYS}&since=2026-03-02T23:59:59.999999Z`,
  "start=2026-03-01&until=2026-03-01T01:00:00%2B00:30",
  `after=beginning&action=${ACTIONS}`,
  `after=${"x".repeat(100)}pck_${"x".repeat(38)}`,
];
for (const query of accepted) {
  it(`parseQuery() accepts ${query}`, () => assertEquals(badParameters(query), []));
}

it("parseQuery() refuses text that is not UTF-8, which no entry has: it would look like an empty log", () => {
  for (const wrong of ["%E9", "a%C3", "%ED%A0%80"]) {
    for (const name of TEXTS) {
      const { errors } = parseQuery(`${TWO_DAYS}&${name}=Ren${wrong}`);
      assertEquals(errors?.map(({ parameter }) => parameter), [name]);
      assertStringIncludes(errors?.[0]?.detail ?? "", "must be percent-encoded as UTF-8");
    }
  }
  // An entry may have this character.
  assertEquals(badParameters(`${TWO_DAYS}&object=Ren%ef%bf%bd`), []);
});

it("parseQuery() refuses an action that is not in the catalogue, and names up to 100 that are", () => {
  const detailsOf = (action: string, catalogue: string[]) =>
    parseQuery(`${TWO_DAYS}&action=${action}`, { actions: catalogue }).errors;
  const catalogue = ["agent_added", "sign-in"];
  for (const wrong of ["", "login", "AGENT_ADDED", "log in"]) {
    const detail = `"${wrong}": must be one of: agent_added, sign-in`;
    const errors = [{ parameter: "action", detail }];
    assertEquals(detailsOf(wrong, catalogue), errors);
    if (wrong) assertEquals(detailsOf(`agent_added,${wrong}`, catalogue), errors);
  }
  const many = Array.from({ length: 10_000 }, (_, n) => `${n}`.padStart(63, "x"));
  assert((detailsOf("login", many)?.[0]?.detail ?? "").length < 7000);
  assertEquals(detailsOf(`${many[9_999]}`, many), undefined);
});

it("parseQuery() takes only days, limit and offset for seals, and no parameter for the list of actions", () => {
  const others = Object.keys(EntriesQuery.shape).filter((name) => !(name in SealsQuery.shape));
  const query = `${TWO_DAYS}&limit=1&offset=1&${others.map((name) => `${name}=a`).join("&")}`;
  const { errors } = parseQuery(query, { resource: "seals" });
  assertEquals(errors?.map(({ parameter }) => parameter), others);
  assertEquals(parseQuery("", { resource: "actions" }).errors, undefined);
  assertEquals(parseQuery("limit=1", { resource: "actions" }).errors, [{
    parameter: "limit",
    detail: "unknown parameter: there are none here",
  }]);
});

it("parseQuery() says what was seen, shortened, and names at most twenty unknown parameters", () => {
  const names = Array.from({ length: 140 }, (_, i) => `${i}${"x".repeat(50)}=1`).join("&");
  const errors = parseQuery(`start=${"x".repeat(1000)}&${names}`).errors ?? [];
  assertEquals(errors.length, 22);
  assert(JSON.stringify(errors).length < 5000);
  const of = (name: string) => errors.find(({ parameter }) => parameter === name)?.detail ?? "";
  assertStringIncludes(of("end"), "missing: ");
  assertStringIncludes(of("start"), `"${"x".repeat(40)}…": `);
});

it("parseQuery() refuses a query string of more than 12,288 characters, and names the limit", () => {
  const query = TWO_DAYS.padEnd(MAX_LENGTH, "&");
  assertEquals(parseQuery(query).errors, undefined);
  assertEquals(parseQuery(`${query}&`).errors, [{
    parameter: "(query string)",
    detail: "12289 characters: must be at most 12288",
  }]);
});
