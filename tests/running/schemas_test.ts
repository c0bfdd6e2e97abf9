// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { readSchemas, type Schema } from "../../dev/tasks/migration.ts";
import { ROOT } from "../helpers/run_program.ts";

const SCHEMAS = await readSchemas();

/** Says which files name something that only a later file makes: `10_scan.sql names count_before of 11_totals.sql`. */
function namesOfLaterFiles(schemas: Schema[]): string[] {
  const name = `audit_log(?:_private)?\\.(?:\\w+|"[^"]+")`;
  const making = new RegExp(`(?<=^create (?:table|type|domain|function) )${name}`, "gm");
  const made = schemas.map(({ text }) => new Set<string>(text.match(making)));
  return schemas.flatMap(({ file, text }, n) => {
    const earlier = made.slice(0, n + 1);
    const named = [...new Set(code(text).match(new RegExp(`\\b${name}`, "g")))]
      .filter((name) => !earlier.some((names) => names.has(name)));
    return schemas.slice(n + 1).flatMap((later, m) =>
      named.filter((name) => made[n + 1 + m]?.has(name))
        .map((name) => `${file} names ${name} of ${later.file}`)
    );
  });
}

/** What Postgres runs of a file: without its comments, and without messages, which may name what comes later. */
function code(text: string): string {
  return text
    .replace(/--.*$/gm, "")
    .replace(/^comment on (?:.|\n)*?';$/gm, "")
    .replace(/'(?:[^']|'')*'(::reg)?/g, (literal, isName) => isName ? literal : "");
}

it("the files of supabase/schemas name nothing of a later file, so that a newcomer reads them in their order", () => {
  assertEquals(namesOfLaterFiles(SCHEMAS), []);
});

it("a file that names something of a later one is found, but not in its comments and messages", () => {
  const made = ['table audit_log."left" (', "type audit_log.t as (", "function audit_log.f() "];
  const later = { file: "2.sql", text: made.map((each) => `create ${each}`).join("\n") };
  const names = (text: string) => namesOfLaterFiles([{ file: "1.sql", text }, later]).length;
  const named = ['perform from audit_log."left";', `lock('audit_log."left"'::regclass);`];
  named.push("create table audit_log.a (b audit_log.t);", "perform audit_log.f();");
  const said = [`-- See audit_log."left".`, `raise exception 'See audit_log."left"';`];
  assertEquals([...named, ...said].map(names), [1, 1, 1, 1, 0, 0]);
});

it("SQL that people read has no line above 120 columns, and no two blank lines", async () => {
  const wrong: string[] = [];
  // Not the migrations, which are written from the schemas.
  const files = ["{dev,docs,tests}/**/*.sql", "supabase/{schemas/*/*,seed}.sql"];
  for await (const file of glob(files, { cwd: ROOT })) {
    const lines = (await Deno.readTextFile(join(ROOT, file))).split("\n");
    for (const [n, line] of lines.entries()) {
      if ([...line].length > 120 || line + lines[n + 1] === "") wrong.push(`${file}:${n + 1}`);
    }
  }
  assertEquals(wrong, []);
});

it("SQL that people read has no function above 80 lines", () => {
  const functions =
    /^create (?:or replace )?function ([\w.]+)[^]*?\n(?=comment on function|create )/gm;
  const long = SCHEMAS.flatMap(({ text }) => [...text.matchAll(functions)])
    .filter(([lines]) => lines.split("\n").length > 81).map(([, name]) => name);
  assertEquals(long, []);
});
