// Needs nothing.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readSchemas, type Schema } from "../../dev/tasks/migration.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Says which files name something that only a later file makes: `10_scan.sql names count_before of 11_counts.sql`. */
function namesOfLaterFiles(schemas: Schema[]): string[] {
  const made = schemas.map(({ text }) =>
    Array.from(
      text.matchAll(
        /^create (?:table|type|domain|function) (audit_log(?:_private)?\.(?:\w+|"[^"]+"))/gm,
      ),
      ([, name = ""]) => name,
    )
  );
  return schemas.flatMap(({ file, text }, n) => {
    const named = new Set(code(text).match(/\baudit_log(?:_private)?\.(?:\w+|"[^"]+")/g));
    const earlier = new Set(made.slice(0, n + 1).flat());
    return schemas.slice(n + 1).flatMap((later, m) =>
      (made[n + 1 + m] ?? []).filter((name) => named.has(name) && !earlier.has(name))
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

/** What the check says of a first file with this text. A second one makes a table, a type and functions. */
function saidOf(text: string): string[] {
  const later = `
create table audit_log_private.seals (day date);
create type audit_log_private.reading as (total bigint);
create function audit_log_private.check_seal() returns trigger language plpgsql as $$ begin end $$;
create function audit_log_private."left"() returns text language sql return 'x';
`;
  return namesOfLaterFiles([
    { file: "01_first.sql", text },
    { file: "02_later.sql", text: later },
  ]);
}

/** A function of the first file whose body is this statement. */
function body(statement: string): string {
  return `
create function audit_log.f() returns void language plpgsql as $$
begin
  ${statement}
end $$;
comment on function audit_log.f is
  'Reads nothing.';
`;
}

it("the files of supabase/schemas name nothing of a later file, so that a newcomer reads them in their order", async () => {
  assertEquals(namesOfLaterFiles(await readSchemas()), []);
});

describe("a file that names something of a later one is found", () => {
  const names: [string, string, string][] = [
    ["a table in a function's body", body("perform from audit_log_private.seals;"), "seals"],
    ["a type of a column", "create table audit_log.t (r audit_log_private.reading);", "reading"],
    [
      "a table as ::regclass",
      body("perform pg_advisory_xact_lock('audit_log_private.seals'::regclass::oid::bigint);"),
      "seals",
    ],
    [
      "a table after a ::regclass of its own",
      body(
        "perform 'audit_log.f'::regproc, count(*) from audit_log_private.seals, (select 'x') as x;",
      ),
      "seals",
    ],
    [
      "a trigger's function",
      `create trigger t before insert on audit_log.t
  for each row execute function audit_log_private.check_seal();`,
      "check_seal",
    ],
    ["a quoted name", body('perform audit_log_private."left"();'), '"left"'],
  ];
  for (const [what, text, name] of names) {
    it(what, () => {
      const said = `01_first.sql names audit_log_private.${name} of 02_later.sql`;
      assertEquals(saidOf(text), [said]);
    });
  }

  it("but not comments, messages and names that it makes itself", () => {
    assertEquals(saidOf("-- See audit_log_private.seals.\n" + body("perform 1;")), []);
    assertEquals(saidOf(body("raise exception 'run audit_log_private.check_seal()';")), []);
    assertEquals(saidOf(`comment on schema audit_log is\n  'See audit_log_private.seals.';`), []);
    assertEquals(saidOf("create function audit_log_private.check_seal(day date) as $$ $$;"), []);
  });
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

  it("has no function above 80 lines", async () => {
    const long = (await readSchemas()).flatMap(({ text }) =>
      Array.from(
        text.matchAll(
          /^create (?:or replace )?function ([\w.]+)[^]*?\n(?=comment on function|create )/gm,
        ),
      )
        .filter(([lines]) => lines.split("\n").length > 81).map(([, name]) => name)
    );
    assertEquals(long, []);
  });
});
