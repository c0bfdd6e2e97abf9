// Needs nothing.

import { assert, assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { parse as parseCsv } from "npm:csv-parse@7.0.3/sync";
import { csvRecord } from "../../supabase/functions/_shared/csv.ts";
import { randomFrom } from "../helpers/random.ts";

const SEED = Number(Deno.env.get("CSV_SEED") ?? Math.floor(Math.random() * 1e9));

function lineOf(user_email: string, agent_name: string): string {
  const data = `{"name": ${JSON.stringify(agent_name)}, "n": 12345678901234567890}`;
  const fields = JSON.stringify({ id: "a", created_at: "b", action: "c", user_email, agent_name });
  return `${fields.slice(0, -1)},"data":${data}}`;
}

function cellsOf(record: string): string[] {
  const [cells = []] = parseCsv(record) as string[][];
  return cells;
}

it("a record of CSV has no cell that begins a formula, wherever a spreadsheet splits it", () => {
  const random = randomFrom(SEED);
  const text = () =>
    Array.from({ length: random(6) }, () => "=+-@＝＋－＠ \t\r\n;,\"'a"[random(17)]).join("");
  for (let n = 0; n < 20_000; n++) {
    const record = csvRecord(lineOf(text(), text()));
    const seen = `CSV_SEED=${SEED}: ${JSON.stringify(record)}`;
    for (const cell of cellsOf(record)) {
      assert(!/^([\t\r\n]|\s*[=+\-@＝＋－＠])/.test(cell), seen);
    }
    // Where lists have semicolons, a comma ends no cell, and the quotes after the first cell quote nothing.
    const [, ...others] = record.split(/[;\t\r\n]/);
    for (const cell of others) assert(!/^[ "]*[=+\-@＝＋－＠]/.test(cell), seen);
  }
});

it("a record of CSV has the text as it is where it is harmless, or everywhere if it is to be raw", () => {
  const harmless = ["", "Clerk", "a=1", "'quoted'", "a+x@example.com", "two\r\nlines", "日本語"];
  const formulas = ['=HYPERLINK("https://evil.example")', "+1", "-1", "@A1", "\tx", "\r=1"];
  formulas.push(" =1", "＝1");
  for (const name of [...harmless, ...formulas]) {
    const [raw, safe] = [true, false].map((isRaw) => cellsOf(csvRecord(lineOf("a", name), isRaw)));
    assertEquals(raw?.[4], name);
    assertEquals(safe?.[4] === name, harmless.includes(name), JSON.stringify(name));
    assertEquals(JSON.parse(raw?.[5] ?? "").name, name);
  }
});
