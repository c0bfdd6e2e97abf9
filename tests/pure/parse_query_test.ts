import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  MAX_LENGTH,
  parseQuery as parse,
} from "../../supabase/functions/public-audit-log/parse_query.ts";

const TWO_DAYS = "start=2026-03-01&end=2026-03-02";

/** The parameters found bad, in order of their names. */
function badParameters(query: string): string[] {
  return (parse(query).errors ?? []).map(({ parameter }) => parameter).sort();
}

// attacks/hostile_input_test.ts compares many more with a second reading of the contract.
const NO_DAYS = ["", "2026-1-1", "1900-02-29", "0000-01-01", "12026-01-01", "2026-01-01\n", "\0"];

const NO_NUMBERS = ["", " ", "0x10", "1e2", "-1", "+1", "1.0", "10 ", "NaN", "٣", "9".repeat(400)];

describe("parseQuery()", () => {
  it("fills in limit 100, offset 0 and ascending order", () => {
    assertEquals(parse(TWO_DAYS).query, {
      start: "2026-03-01",
      end: "2026-03-02",
      limit: 100,
      offset: 0,
      order: "asc",
    });
  });

  it("takes every parameter at its bounds", () => {
    const query = "start=0001-01-01&end=9999-12-31&action=feedback_given&order=desc";
    for (const [limit, offset] of [[1, 0], [1000, Number.MAX_SAFE_INTEGER]] as const) {
      assertEquals(parse(`${query}&limit=${limit}&offset=${offset}`).query, {
        start: "0001-01-01",
        end: "9999-12-31",
        action: "feedback_given",
        limit,
        offset,
        order: "desc",
      });
    }
  });

  it("takes leap days, and refuses as a day what is none", () => {
    for (const day of ["2024-02-29", "2000-02-29"]) {
      assertEquals(badParameters(`start=${day}&end=${day}`), []);
    }
    for (const day of NO_DAYS.map(encodeURIComponent)) {
      assertEquals(badParameters(`start=${day}&end=9999-01-01`), ["start"], day);
      assertEquals(badParameters(`start=0001-01-01&end=${day}`), ["end"], day);
    }
  });

  it("refuses as a limit and as an offset what is no whole number", () => {
    for (const number of NO_NUMBERS.map(encodeURIComponent)) {
      assertEquals(badParameters(`${TWO_DAYS}&limit=${number}`), ["limit"], number);
      assertEquals(badParameters(`${TWO_DAYS}&offset=${number}`), ["offset"], number);
    }
  });

  for (
    const [what, query, bad] of [
      ["limits outside 1 to 1000", `${TWO_DAYS}&limit=0`, ["limit"]],
      ["limits outside 1 to 1000", `${TWO_DAYS}&limit=1001`, ["limit"]],
      ["offsets that no number holds exactly", `${TWO_DAYS}&offset=9007199254740992`, ["offset"]],
      ["other orders than asc and desc", `${TWO_DAYS}&order=DESC`, ["order"]],
      ["unknown parameters", `${TWO_DAYS}&acton=x&=y&__proto__=1`, ["", "__proto__", "acton"]],
      ["a question mark before a name", `?${TWO_DAYS}`, ["?start", "start"]],
      ["repeated parameters", "start=2026-03-01&start=2026-03-02&end=2026-03-02", ["start"]],
      ["repeated parameters, also with one value", `${TWO_DAYS}&limit=5&limit=5`, ["limit"]],
      ["a start after the end", "start=2026-03-02&end=2026-03-01", ["end"]],
      ["offset and order beside after", `${TWO_DAYS}&after=beginning&offset=0&order=asc`, [
        "offset",
        "order",
      ]],
      ["all that is bad at once", "start=2026-03-02&end=2026-03-01&limit=0&x=x", [
        "end",
        "limit",
        "x",
      ]],
    ] as const
  ) {
    it(`refuses ${what}, by name: ${query}`, () => assertEquals(badParameters(query), bad));
  }

  it("refuses an action that is not in the catalogue, naming those that are, 100 at most", () => {
    const detailOf = (action: string, catalogue: string[]) => {
      const { errors } = parse(`${TWO_DAYS}&action=${action}`, "entries", catalogue);
      assertEquals(errors?.map(({ parameter }) => parameter), ["action"]);
      return errors?.[0]?.detail;
    };
    for (const action of ["", "login", "AGENT_ADDED", "agent_added,sign-in"]) {
      assertEquals(
        detailOf(action, ["agent_added", "sign-in"]),
        `"${action}": must be one of: agent_added, sign-in`,
      );
    }
    const many = Array.from({ length: 10_000 }, (_, n) => `${n}`.padStart(63, "x"));
    assert((detailOf("login", many) ?? "").length < 7000);
    assertEquals(parse(`${TWO_DAYS}&action=${many[9_999]}`, "entries", many).errors, undefined);
  });

  it("takes any address of 1 to 320 characters as it is, and refuses others", () => {
    for (const email of ["%", "_", "A d@ä", "😀".repeat(320), "'\n\""]) {
      const { query } = parse(`${TWO_DAYS}&user_email=${encodeURIComponent(email)}`);
      assertEquals(query?.user_email, email);
    }
    for (const email of ["", "a\0@b", "x".repeat(321)]) {
      assertEquals(badParameters(`${TWO_DAYS}&user_email=${encodeURIComponent(email)}`), [
        "user_email",
      ]);
    }
  });

  it("takes no parameter for the actions, and says so", () => {
    assertEquals(parse("", "actions").errors, undefined);
    assertEquals(parse("limit=1", "actions").errors, [{
      parameter: "limit",
      detail: "unknown parameter: there are none here",
    }]);
  });

  it("names at most twenty unknown parameters, shortened", () => {
    const names = Array.from({ length: 140 }, (_, i) => `${i}${"x".repeat(50)}=1`).join("&");
    const errors = parse(`start=x&${names}`).errors ?? [];
    assertEquals(errors.length, 22);
    assert(JSON.stringify(errors).length < 5000);
  });

  it("takes a query string of 12,288 characters, and refuses a longer one, naming the limit", () => {
    const query = TWO_DAYS.padEnd(MAX_LENGTH, "&");
    assertEquals(parse(query).errors, undefined);
    assertEquals(parse(`${query}&`).errors, [{
      parameter: "(query string)",
      detail: "12289 characters: must be at most 12288",
    }]);
  });

  it("does not repeat a token that was put in the query string", () => {
    const token = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
    const { errors } = parse(`start=${token}&end=Bearer+${token}&${token}=1`);
    assertEquals(errors?.length, 3);
    assert(!JSON.stringify(errors).includes(token.slice(4, 10)));
  });

  it("says what was seen, shortened", () => {
    const [missing, long] = parse(`start=${"x".repeat(1000)}`).errors?.toReversed() ?? [];
    assertStringIncludes(missing?.detail ?? "", "missing: ");
    assertStringIncludes(long?.detail ?? "", `"${"x".repeat(40)}…": `);
  });
});
