// Needs a stack.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { loadModule, parsePlPgSQLSync, parseSync } from "npm:libpg-query@18.1.5";
import { sql, valueOf } from "../helpers/mod.ts";

// Against a project of Supabase's, these tests say whether dev/local/ is still set up as it is.

const CONFIG = await Deno.readTextFile(new URL("../../dev/local/postgresql.conf", import.meta.url));

/** The settings of one paragraph of dev/local/postgresql.conf, whose comment has this text. */
function settings(comment: string): Map<string, string> {
  const paragraph = CONFIG.split("\n\n").find((text) => text.includes(comment)) ?? "";
  const lines = [...paragraph.matchAll(/^(\w+) = '?(.*?)'?$/gm)];
  return new Map(lines.map(([, name = "", value = ""]) => [name, value]));
}

describe("the database", () => {
  it("has the settings of supabase/postgres; a local one those of hosted projects, too. It sorts texts as a language does", async () => {
    const isLocal = await valueOf<boolean>(
      sql`select current_setting('app.settings.local_stack', true) is not null`,
    );
    const hosted = isLocal ? settings("platform-defaults.conf") : [];
    const expected = [...settings("postgresql.conf.j2\n"), ...hosted];
    assertEquals(expected.length, isLocal ? 7 : 5);
    for (const [name, value] of expected) {
      assertEquals([name, await valueOf(sql`select current_setting(${name})`)], [name, value]);
    }
    assertEquals(await valueOf(sql`select 'a' < 'B' and 'B' < 'c'`), true);
  });

  it("has the roles of supabase/postgres, with their rights and time-outs", async () => {
    const roles = await sql`
      select concat_ws(' ', rolname, case when rolsuper then 'superuser' end, case when rolinherit then 'inherit' end,
        case when rolcanlogin then 'login' end, case when rolcreaterole then 'createrole' end,
        case when rolbypassrls then 'bypassrls' end, (
          select string_agg(setting, ' ' order by setting) from unnest(rolconfig) as setting where setting like '%timeout%'
        )) as role
      from pg_roles
      where rolname in ('anon', 'authenticated', 'authenticator', 'postgres', 'service_role', 'supabase_admin')
      order by rolname`;
    assertEquals(roles.map(({ role }) => role), [
      "anon inherit statement_timeout=3s",
      "authenticated inherit statement_timeout=8s",
      "authenticator login lock_timeout=8s statement_timeout=8s",
      "postgres inherit login createrole bypassrls",
      "service_role inherit bypassrls",
      "supabase_admin superuser inherit login createrole bypassrls",
    ]);
  });
});

/** Whether a parsed statement has an UPDATE or DELETE without WHERE, as safeupdate sees it. */
function isUnconditional(tree: unknown): boolean {
  if (typeof tree !== "object" || tree === null) return false;
  return Object.entries(tree).some(([key, value]) =>
    /^(Update|Delete)Stmt$/.test(key) && !value.whereClause || isUnconditional(value)
  );
}

/** Lists the statements of a parsed function in PL/pgSQL. Those that it makes as text are expressions here. */
function statements(tree: unknown): string[] {
  if (typeof tree !== "object" || tree === null) return [];
  return Object.entries(tree).flatMap(([key, value]) => {
    const { query, parseMode } = key === "PLpgSQL_expr" ? value : {};
    return [...parseMode === 0 ? [query] : [], ...statements(value)];
  });
}

// Supabase loads safeupdate into the sessions of the Data API: it would refuse such a statement.
it("a function of ours updates and deletes nothing without WHERE", async () => {
  await loadModule();
  const functions = await sql`
    select p.proname as name, pg_get_functiondef(p.oid) as definition, l.lanname as language
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)`;
  const found = functions.filter(({ definition, language }) => {
    const texts = language === "plpgsql" ? statements(parsePlPgSQLSync(definition)) : [definition];
    return texts.some((text) => isUnconditional(parseSync(text)));
  });
  assertEquals(found.map(({ name }) => name), []);
});
