import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  MAX_LENGTH,
  parseQuery as parse,
} from "../../supabase/functions/public-audit-log/parse_query.ts";

/** The parameters found bad, in order of their names. */
function badParameters(query: string): string[] {
  return (parse(query).errors ?? []).map(({ parameter }) => parameter).sort();
}

describe("parseQuery()", () => {
  it("fills in limit 100, offset 0 and ascending order", () => {
    assertEquals(parse("start=2026-03-01&end=2026-03-02").query, {
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

  for (
    const day of [
      "",
      "2026-1-1",
      "2026-02-30",
      "2023-02-29",
      "1900-02-29",
      "0000-01-01",
      "2026-13-01",
      "2026-00-10",
      "2026-01-00",
      "20260101",
      "2026-01-01T00:00:00Z",
      " 2026-01-01",
      "2026-01-01 ",
      "2026-01-01\n",
      "+2026-01-01",
      "-2026-01-01",
      "12026-01-01",
      "２０２６-01-01",
      "tomorrow",
      "\0",
    ]
  ) {
    it(`refuses ${JSON.stringify(day)} as a day`, () => {
      const encoded = encodeURIComponent(day);
      assertEquals(badParameters(`start=${encoded}&end=9999-01-01`), ["start"]);
      assertEquals(badParameters(`start=0001-01-01&end=${encoded}`), ["end"]);
    });
  }

  for (const day of ["2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"]) {
    it(`accepts ${day} as a day`, () => {
      assertEquals(badParameters(`start=${day}&end=${day}`), []);
    });
  }

  for (
    const value of [
      "",
      " ",
      "0x10",
      "1e2",
      "-1",
      "+1",
      "1.0",
      "1,000",
      "10 ",
      "NaN",
      "Infinity",
      "٣",
      "9".repeat(400),
    ]
  ) {
    it(`refuses ${JSON.stringify(value.slice(0, 20))} as a limit and as an offset`, () => {
      const query = `start=2026-03-01&end=2026-03-02&limit=${encodeURIComponent(value)}`;
      assertEquals(badParameters(query), ["limit"]);
      assertEquals(badParameters(query.replace("limit", "offset")), ["offset"]);
    });
  }

  it("refuses limits outside 1 to 1000 and offsets that a number cannot hold exactly", () => {
    const query = "start=2026-03-01&end=2026-03-02";
    for (const limit of ["0", "1001"]) {
      assertEquals(badParameters(`${query}&limit=${limit}`), ["limit"]);
    }
    assertEquals(badParameters(`${query}&offset=9007199254740992`), ["offset"]);
  });

  it("refuses an unknown or empty action, naming the four codes", () => {
    for (const action of ["", "login", "AGENT_ADDED", "agent_added,feedback_given"]) {
      const { errors } = parse(`start=2026-03-01&end=2026-03-02&action=${action}`);
      assertEquals(errors?.length, 1);
      for (
        const code of ["agent_added", "conversation_created", "message_created", "feedback_given"]
      ) {
        assertStringIncludes(errors?.[0]?.detail ?? "", code);
      }
    }
  });

  it("refuses an order other than asc and desc", () => {
    assertEquals(badParameters("start=2026-03-01&end=2026-03-02&order=DESC"), ["order"]);
  });

  it("refuses unknown parameters, naming them", () => {
    const query = "start=2026-03-01&end=2026-03-02";
    assertEquals(badParameters(`${query}&acton=x&=y&__proto__=1`), ["", "__proto__", "acton"]);
  });

  it("names at most twenty unknown parameters, shortened", () => {
    const names = Array.from({ length: 140 }, (_, i) => `${"x".repeat(50)}${i}=1`).join("&");
    const errors = parse(`start=x&${names}`).errors ?? [];
    assertEquals(errors.length <= 22, true);
    assertEquals(JSON.stringify(errors).length < 5000, true);
  });

  it("takes a query string of 8192 characters, and refuses a longer one unparsed, naming the limit", () => {
    const query = "start=2026-03-01&end=2026-03-02".padEnd(MAX_LENGTH, "&");
    assertEquals(parse(query).errors, undefined);
    assertEquals(parse(`${query}&`).errors, [{
      parameter: "(query string)",
      detail: "8193 characters: must be at most 8192",
    }]);
  });

  it("refuses a parameter with a question mark before its name", () => {
    assertEquals(badParameters("?start=2026-03-01&end=2026-03-02"), ["?start", "start"]);
  });

  it("refuses a repeated parameter, also with the same value", () => {
    const query = "start=2026-03-01&end=2026-03-02&limit=5&limit=5";
    assertEquals(parse(query).errors, [{
      parameter: "limit",
      detail: "given 2 times: must be a whole number from 1 to 1000",
    }]);
    assertEquals(badParameters("start=2026-03-01&start=2026-03-02&end=2026-03-02"), ["start"]);
  });

  it("refuses start after end, and takes them equal", () => {
    assertEquals(parse("start=2026-03-02&end=2026-03-01").errors, [{
      parameter: "end",
      detail: '"2026-03-01": must not be before start',
    }]);
    assertEquals(badParameters("start=2026-03-01&end=2026-03-01"), []);
  });

  it("reports every bad parameter at once", () => {
    assertEquals(
      badParameters("start=x&action=x&limit=x&offset=x&order=x&x=x"),
      ["action", "end", "limit", "offset", "order", "start", "x"],
    );
    assertEquals(
      badParameters("start=2026-03-02&end=2026-03-01&limit=0&x=x"),
      ["end", "limit", "x"],
    );
  });

  it("does not repeat a token that was put in the query string", () => {
    const token = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
    const { errors } = parse(`start=${token}&end=Bearer+${token}&${token}=1`);
    assertEquals(errors?.length, 3);
    assertEquals(JSON.stringify(errors).includes(token.slice(4, 10)), false);
  });

  it("says what was seen, shortened", () => {
    const [missing, long] = parse(`start=${"x".repeat(1000)}`).errors?.toReversed() ?? [];
    assertStringIncludes(missing?.detail ?? "", "missing: ");
    assertStringIncludes(long?.detail ?? "", `"${"x".repeat(40)}…": `);
  });
});
