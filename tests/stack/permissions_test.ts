import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { rolledBack, sql } from "../helpers.ts";

// What each client role may do, whole: the table in SECURITY.md. A new table, function or grant trips
// the test here: think about who may reach it, then write it down there.

const MONITOR = await Deno.readTextFile(
  new URL("../../examples/adopting/monitor.sql", import.meta.url),
);

/** What a query finds, one line of text for each row. */
async function lines(query: Promise<postgres.Row[]>): Promise<string[]> {
  return (await query).map((row) => Object.values(row).join(" "));
}

/** What each client role may do with what is in our two schemas. */
function privileges(connection: postgres.ISql): Promise<string[]> {
  return lines(connection`
    with roles as (
      select unnest(array['anon', 'audit_log_monitor', 'authenticated', 'service_role']) as role
    ), schemas as (
      select oid, nspname as name from pg_namespace where nspname in ('audit_log', 'audit_log_private')
    ), privileges as (
      select role, 'schema ' || s.name as object, lower(privilege) as may
      from roles, schemas s, unnest(array['USAGE', 'CREATE']) as privilege
      where has_schema_privilege(role, s.oid, privilege)
      union all
      select role, concat(s.name, '.', c.relname), lower(privilege)
      from roles, schemas s join pg_class c on c.relnamespace = s.oid and c.relkind in ('r', 'p', 'v', 'm', 'f'),
        unnest(
          array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']
          || case when current_setting('server_version_num')::int >= 170000 then array['MAINTAIN'] end
        ) as privilege
      where has_table_privilege(role, c.oid, privilege)
      union all
      select role, concat(s.name, '.', c.relname), concat(
        lower(privilege), ' (', string_agg(a.attname, ', ' order by a.attnum), ')'
      )
      from roles, schemas s join pg_class c on c.relnamespace = s.oid and c.relkind in ('r', 'p', 'v', 'm', 'f')
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped,
        unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) as privilege
      where has_column_privilege(role, c.oid, a.attnum, privilege)
        and not has_table_privilege(role, c.oid, privilege)
      group by role, s.name, c.relname, privilege
      union all
      select role, concat(s.name, '.', c.relname), lower(privilege)
      from roles, schemas s join pg_class c on c.relnamespace = s.oid and c.relkind = 'S',
        unnest(array['USAGE', 'SELECT', 'UPDATE']) as privilege
      where has_sequence_privilege(role, c.oid, privilege)
      union all
      select role, concat(s.name, '.', p.proname), 'execute'
      from roles, schemas s join pg_proc p on p.pronamespace = s.oid
      where has_function_privilege(role, p.oid, 'EXECUTE')
    )
    select concat_ws(' | ', role, '\`' || object || '\`', string_agg(may, ', ' order by may))
    from privileges group by role, object order by role, object collate "C"`);
}

/** The rows of the table of privileges in SECURITY.md. */
async function documentedPrivileges(): Promise<string[]> {
  const text = await Deno.readTextFile(new URL("../../SECURITY.md", import.meta.url));
  const [, table = ""] = text.match(/\| Role +\| On +\| May +\|\n\|[-| ]+\|\n((?:\|.*\n)+)/) ?? [];
  return table.trimEnd().split("\n").map((row) =>
    row.split("|").slice(1, -1).map((cell) => cell.trim()).join(" | ")
  );
}

describe("the client roles", () => {
  it("may do exactly what the table in SECURITY.md says", async () => {
    const found = await rolledBack(sql, async (transaction) => {
      await transaction.unsafe(MONITOR);
      return await privileges(transaction);
    });
    assertEquals(found, await documentedPrivileges());
  });

  it("may do the same where everything new was granted to everybody, as in older projects", async () => {
    const migrations = new URL("../../supabase/migrations/", import.meta.url);
    const names = await Array.fromAsync(Deno.readDir(migrations), ({ name }) => name);
    const found = await rolledBack(sql, async (transaction) => {
      await transaction`drop schema audit_log, audit_log_private cascade`;
      for (const objects of ["tables", "functions", "sequences", "types", "schemas"]) {
        await transaction.unsafe(
          `alter default privileges grant all on ${objects} to anon, authenticated, service_role`,
        );
      }
      for (const name of names.sort()) {
        await transaction.unsafe(await Deno.readTextFile(new URL(name, migrations)));
      }
      await transaction.unsafe(MONITOR);
      return await privileges(transaction);
    });
    assertEquals(found, await documentedPrivileges());
  });

  it("reach these functions with their owner's rights, and no other; none of them is served", async () => {
    assertEquals(
      await lines(sql`
        select p.oid::regproc from pg_proc p
        where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) and p.prosecdef
        order by p.oid::regproc::text`),
      [
        "audit_log_private.add_key_actions",
        "audit_log_private.api_key_usage",
        "audit_log_private.count_entries",
        "audit_log_private.create_api_key",
        "audit_log_private.daily_entry_counts",
        "audit_log_private.latest_seal_json",
        "audit_log_private.list_actions",
        "audit_log_private.list_api_keys",
        "audit_log_private.list_organizations",
        "audit_log_private.list_seals",
        "audit_log_private.metrics",
        "audit_log_private.public_audit_log",
        "audit_log_private.read_audit_log",
        "audit_log_private.read_entry",
        "audit_log_private.revoke_api_key",
        "audit_log_private.rotate_api_key",
      ],
    );
  });
});

const OURS = "('audit_log'::regnamespace, 'audit_log_private'::regnamespace)";

/**
 * What must not be in our schemas. The numbered rules are those of Supabase's Security and Performance Advisor
 * (github.com/supabase/splinter), as stricter queries of our own. The others there are about policies, which are
 * not allowed at all, about privileges, and about what the schemas do not have.
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
  "0009 duplicate_index": `
    select tablename, string_agg(indexname, ' ') from pg_indexes
    where schemaname in ('audit_log', 'audit_log_private')
    group by schemaname, tablename, regexp_replace(indexdef, '^.*? USING ', '') having count(*) > 1`,
  // pg_temp at the end: where it is not named, it comes first, and a caller's temporary type "date" would
  // run the caller's code with the rights of the function's owner.
  // A body that was parsed when the function was created (prosqlbody) resolves no name later, and can be inlined.
  // These two are called for each entry, where a setting costs more than the function. All their names are qualified.
  "0011 function_search_path_mutable": `
    select oid::regprocedure from pg_proc
    where pronamespace in ${OURS} and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)
      and prosqlbody is null
      and oid not in ('audit_log_private.log_epoch'::regproc, 'audit_log_private.entry_number'::regproc)`,
  "0013 rls_disabled_in_public": `
    select oid::regclass from pg_class
    where relnamespace in ${OURS} and relkind in ('r', 'p') and not relrowsecurity`,
  "policies: people reach functions only": `
    select schemaname, tablename, policyname from pg_policies
    where schemaname in ('audit_log', 'audit_log_private')`,
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
