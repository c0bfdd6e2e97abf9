// Needs nothing.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readSchemas, type Schema } from "../../dev/tasks/migration.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
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

it("a file that names something of a later one is found, but not comments, messages and names that it makes itself", () => {
  const text = `
create table audit_log_private.seals (day date);
create type audit_log_private.reading as (total bigint);
create function audit_log_private.check_seal() returns trigger language plpgsql as $$ begin end $$;
create function audit_log_private."left"() returns text language sql return 'x';
`;
  const later = { file: "02_later.sql", text };
  const inBody = (statement: string) => `
create function audit_log.f() returns void language plpgsql as $$
begin
  ${statement}
end $$;
comment on function audit_log.f is
  'Reads nothing.';
`;
  const cases: [text: string, ...named: string[]][] = [
    [inBody("perform from audit_log_private.seals;"), "seals"],
    ["create table audit_log.t (r audit_log_private.reading);", "reading"],
    [inBody("perform lock('audit_log_private.seals'::regclass::oid::bigint);"), "seals"],
    [inBody("perform 'audit_log.f'::regproc, 'x' from audit_log_private.seals, f('x');"), "seals"],
    [
      "create trigger t before insert execute function audit_log_private.check_seal();",
      "check_seal",
    ],
    [inBody('perform audit_log_private."left"();'), '"left"'],
    ["-- See audit_log_private.seals.\n" + inBody("perform 1;")],
    [inBody("raise exception 'run audit_log_private.check_seal()';")],
    ["comment on schema audit_log is\n  'See audit_log_private.seals.';"],
    ["create function audit_log_private.check_seal(day date) as $$ $$;"],
  ];
  for (const [text, ...names] of cases) {
    const said = names.map((name) => `01.sql names audit_log_private.${name} of 02_later.sql`);
    assertEquals(namesOfLaterFiles([{ file: "01.sql", text }, later]), said, text);
  }
});

describe("SQL that people read", () => {
  it("has no line above 120 columns, and no two blank lines", async () => {
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

  it("has no function above 80 lines", () => {
    const functions =
      /^create (?:or replace )?function ([\w.]+)[^]*?\n(?=comment on function|create )/gm;
    const long = SCHEMAS.flatMap(({ text }) => [...text.matchAll(functions)])
      .filter(([lines]) => lines.split("\n").length > 81).map(([, name]) => name);
    assertEquals(long, []);
  });
});
