// Needs a stack.

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { supabase } from "../../dev/local/supabase_cli.ts";
import { readSchemas } from "../../dev/tasks/migration.ts";
import { DEMO_EMAILS } from "../../dev/tasks/demo.ts";
import { MIGRATIONS } from "../helpers/scratch_database.ts";
import { DATABASE_URL, HAS_STREAMS, refusalOf, rolledBack, type Run, sql } from "../helpers/mod.ts";

const OF_STREAMS = /stream|(take|settle)_batch/;
const DROP = "drop schema audit_log, audit_log_private cascade";

/** Installs the service anew. The migration of streams is the last one. */
async function reinstall(run: Run, hasStreams = HAS_STREAMS): Promise<void> {
  const migrations = Object.values(MIGRATIONS).slice(0, hasStreams ? undefined : -1);
  for (const text of [DROP, ...migrations]) await run.unsafe(text);
}

const MONITOR = await Deno.readTextFile(
  new URL("../../docs/examples/adopting/monitoring_role.sql", import.meta.url),
);

async function lines(query: Promise<postgres.Row[]>): Promise<string[]> {
  return (await query).map((row) => Object.values(row).join(" "));
}

/** Lists what the client roles and everybody (`-`) may do with each object of our two schemas. */
function privileges(connection: Run): Promise<string[]> {
  return lines(connection`
    with objects as (
      select oid as schema, 'schema ' || nspname as object, nspacl as acl, 0 as position, null as column
      from pg_namespace
      union all
      select relnamespace, concat(relnamespace::regnamespace, '.', relname), relacl, 0, null from pg_class
      union all
      select relnamespace, concat(relnamespace::regnamespace, '.', relname), attacl, attnum, attname
      from pg_attribute join pg_class c on c.oid = attrelid
      union all
      select pronamespace, concat(pronamespace::regnamespace, '.', proname),
        coalesce(proacl, acldefault('f', proowner)), 0, null
      from pg_proc
    ), privileges as (
      select grantee::regrole as role, object, lower(privilege_type)
        || coalesce(' (' || string_agg("column", ', ' order by position) || ')', '') as may
      from objects, aclexplode(acl)
      where schema in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
        and grantee::regrole::text in ('-', 'anon', 'audit_log_monitor', 'authenticated', 'service_role')
      group by role, object, privilege_type, "column" is null
    )
    select concat_ws(' | ', role, '\`' || object || '\`', string_agg(may, ', ' order by may))
    from privileges group by role, object`);
}

const SECURITY = await Deno.readTextFile(new URL("../../SECURITY.md", import.meta.url));

function documentedPrivileges(hasStreams: boolean): string[] {
  const [, table = ""] = SECURITY.match(/\| Role +\| On +\| May +\|\n\|[-| ]+\|\n((?:\|.*\n)+)/) ??
    [];
  return table.trimEnd().split("\n").flatMap((row) => {
    const [roles = "", objects = "", may] = row.split("|").slice(1, -1)
      .map((cell) => cell.trim());
    return objects.split(", ").flatMap((object) => {
      const [, name] = object.match(/^`(\w+)`$/) ?? [];
      const both = ["audit_log", "audit_log_private"].map((schema) => `\`${schema}.${name}\``);
      return (name ? both : [object]).flatMap((each) =>
        roles.split(", ").map((role) => [role, each, may].join(" | "))
      );
    });
  }).filter((line) => hasStreams || !OF_STREAMS.test(line)).sort();
}

async function assertAsDocumented(run: Run, hasStreams = HAS_STREAMS): Promise<void> {
  await run.unsafe(MONITOR);
  assertEquals((await privileges(run)).sort(), documentedPrivileges(hasStreams));
}

// A new table, function or privilege fails here: think about who may use it, then add it to the table.
describe("the client roles", () => {
  it("may do exactly what the table in SECURITY.md says", async () => {
    await rolledBack(sql, async (transaction) => {
      // The recipe can be run again.
      for (let n = 0; n < 2; n++) await assertAsDocumented(transaction);
    });
  });

  it("may do no more in older projects, which grant everybody everything on new objects", async () => {
    await rolledBack(sql, async (transaction) => {
      for (const objects of ["tables", "functions", "sequences", "types", "schemas"]) {
        await transaction.unsafe(
          `alter default privileges grant all on ${objects} to anon, authenticated, service_role`,
        );
      }
      await reinstall(transaction);
      await assertAsDocumented(transaction);
    });
  });

  it("may do the same without streams, but for what is about them", async () => {
    await rolledBack(sql, async (transaction) => {
      await reinstall(transaction, false);
      await assertAsDocumented(transaction, false);
    });
  });
});

/** The functions with their owner's rights that only the database's owner may call, as 1_log/01_schemas.sql says. */
const [, NAMED = ""] = (await readSchemas())[0]!.text.match(/\(security definer\)(.*?)\n\n/s)!;

/** The functions that the linter warns of, in SECURITY.md. */
const [, WITHOUT_SEARCH_PATH = ""] =
  SECURITY.match(/0011\s+function_search_path_mutable` on ([^.]*)\./) ?? [];

const OURS = "('audit_log'::regnamespace, 'audit_log_private'::regnamespace)";

/**
 * Finds what must not be in our schemas. The numbered rules are stricter than those of Supabase's Security and
 * Performance Advisor (github.com/supabase/splinter). Its other rules are about policies and about objects that
 * the schemas do not have.
 */
const FORBIDDEN: Record<string, string> = {
  "0001 unindexed_foreign_keys": `
    select c.conrelid::regclass, c.conname from pg_constraint c
    where c.contype = 'f' and c.connamespace in ${OURS} and not exists (
      select from pg_index i
      where i.indrelid = c.conrelid and i.indpred is null
        and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] operator(pg_catalog.@>) c.conkey
    )`,
  "0002 auth_users_exposed, 0010 security_definer_view, 0016 materialized_view_in_api": `
    select oid::regclass from pg_class where relnamespace in ${OURS} and relkind in ('v', 'm', 'f')`,
  "0004 no_primary_key": `
    select c.oid::regclass from pg_class c
    where c.relnamespace in ${OURS} and c.relkind in ('r', 'p')
      and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
  // pg_temp must be last. If it is not named, it comes first, and a caller's temporary type "date" would run the
  // caller's code with the rights of the function's owner. A body in SQL (prosqlbody) resolves no name later.
  // The three functions named here are called for each entry, where a setting costs more than the function.
  "0011 function_search_path_mutable that SECURITY.md does not list": `
    select oid::regprocedure from pg_proc
    where pronamespace in ${OURS} and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)
      and (
        proname <> all ('{${WITHOUT_SEARCH_PATH.match(/\w+/g)}}')
        or prosqlbody is null and proname not in ('log_epoch', 'new_entry_id', 'transaction_number')
      )`,
  "0013 rls_disabled_in_public": `
    select oid::regclass from pg_class
    where relnamespace in ${OURS} and relkind in ('r', 'p') and not relrowsecurity`,
  "policies: people reach functions only": `
    select schemaname, tablename, policyname from pg_policies
    where schemaname in ('audit_log', 'audit_log_private')`,
  "0028 and 0029 (anon, authenticated)_security_definer_function_executable": `
    select p.oid::regprocedure from pg_proc p, unnest('{anon,authenticated}'::text[]) as role
    where p.pronamespace = 'audit_log'::regnamespace and p.prosecdef
      and has_function_privilege(role, p.oid, 'execute')`,
  "functions with their owner's rights that nobody else may call, and 1_log/01_schemas.sql does not name":
    `
    select oid::regprocedure from pg_proc
    where pronamespace in ${OURS} and prosecdef and proname <> all ('{${NAMED.match(/\w+/g)}}')
      and not has_function_privilege('service_role', oid, 'execute')
      and not has_function_privilege('authenticated', oid, 'execute')`,
  "generic plans that may be compiled (jit), however high their estimates are": `
    select oid::regprocedure from pg_proc
    where 'plan_cache_mode=force_generic_plan' = any (proconfig) and not 'jit=off' = any (proconfig)`,
  "tables and functions without a comment": `
    select oid::regclass::text from pg_class
    where relnamespace in ${OURS} and relkind in ('r', 'p') and obj_description(oid, 'pg_class') is null
    union all
    select oid::regproc::text from pg_proc
    where pronamespace in ${OURS} and obj_description(oid, 'pg_proc') is null`,
};

describe("the schemas have no", () => {
  for (const [name, query] of Object.entries(FORBIDDEN)) {
    it(name, async () => assertEquals(await lines(sql.unsafe(query)), []));
  }
});

it("Supabase's linter warns of what SECURITY.md lists, and of nothing else", async () => {
  const text = await supabase("db", "advisors", "--level=warn", `--remote=${DATABASE_URL}`);
  const advice: { name: string; metadata: { schema: string; name: string } }[] = JSON.parse(text);
  const documented = WITHOUT_SEARCH_PATH.split(";")[0]?.match(/\w+/g) ?? [];
  const ofOurs = advice.filter(({ metadata: { schema, name } }) =>
    ["audit_log", "audit_log_private"].includes(schema) && !name.startsWith("logged_")
  );
  const warnings = ofOurs.map(({ name, metadata }) => `${name} ${metadata.name}`).sort();
  const expected = documented.map((name) => `function_search_path_mutable ${name}`).sort();
  assertEquals(warnings, expected);
});

it("installing is refused if one of our two schemas exists already", async () => {
  for (const name of ["audit_log", "audit_log_private"]) {
    await rolledBack(sql, async (run) => {
      await run.unsafe(`${DROP}; create schema ${name}`);
      const refusal = await refusalOf(run.unsafe(Object.values(MIGRATIONS)[0] ?? ""));
      assertMatch(refusal, new RegExp(`^42P06 .* schema ${name} already. Nothing was changed`));
    });
  }
});

const SEED = await Deno.readTextFile(new URL("../../supabase/seed.sql", import.meta.url));

/** Counts what the seed would have written. */
async function seeded(): Promise<string[]> {
  return await lines(sql`
    select count(*) from auth.users where email = any(${[...DEMO_EMAILS]})
    union all
    select count(*) from audit_log.actions where code = 'agent_added' and target_name = 'name'
    union all
    select count(*) from audit_log.organization_members where organization_name in ('Analytical Engines', 'Compiler Works')`);
}

it("seed.sql writes nothing outside a local stack, even if the client goes on after errors", async () => {
  const before = await seeded();
  // An older hosted project has its own secret in this setting.
  for (const jwtSecret of ["", crypto.randomUUID().repeat(2)]) {
    const session = await sql.reserve();
    await session`select set_config('app.settings.jwt_secret', ${jwtSecret}, false)`;
    await session`select set_config('app.settings.local_stack', '', false)`;
    await assertRejects(() => session.unsafe(SEED), Error, "seed.sql is for a local stack only");
    for (const statement of SEED.split(/(?<=;)\n\n/)) {
      await session.unsafe(statement).catch(() => {});
    }
    await session`discard all`;
    session.release();
  }
  assertEquals(await seeded(), before);
});
