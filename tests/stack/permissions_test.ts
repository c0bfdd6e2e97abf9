import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { rolledBack, sql } from "../helpers.ts";

// What each client role may do, whole: the table in SECURITY.md. A new table, function or grant trips
// the test here: think about who may reach it, then write it down there. What no schema should have is
// in database_hygiene_test.ts.

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
  return table.trimEnd().split("\n").flatMap((row) => {
    const [role, objects = "", may] = row.split("|").slice(1, -1).map((cell) => cell.trim());
    return objects.split(", ").map((object) => [role, object, may].join(" | "));
  }).sort();
}

describe("the client roles", () => {
  it("may do exactly what the table in SECURITY.md says", async () => {
    const found = await rolledBack(sql, async (transaction) => {
      await transaction.unsafe(MONITOR);
      return await privileges(transaction);
    });
    assertEquals(found.sort(), await documentedPrivileges());
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
    assertEquals(found.sort(), await documentedPrivileges());
  });

  it("have no policies: row level security is on, and lets nothing through", async () => {
    assertEquals(
      await lines(
        sql`select tablename from pg_policies where schemaname in ('audit_log', 'audit_log_private')`,
      ),
      [],
    );
  });
});

describe("functions", () => {
  it("that run with their owner's rights are exactly these, and none is served", async () => {
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

  it("that people reach ask first who is asking, but for the list of their own organizations", async () => {
    assertEquals(
      await lines(sql`
        select p.oid::regproc from pg_proc p
        where p.pronamespace = 'audit_log_private'::regnamespace and has_function_privilege('authenticated', p.oid, 'EXECUTE')
          and prosrc !~ '^\\s*(declare.*?)?begin\\s+perform audit_log_private\\.require_admin\\(organization_id\\);'`),
      ["audit_log_private.list_organizations"],
    );
  });

  it("that read a page are stable, so that total and items are of one snapshot", async () => {
    assertEquals(
      await lines(sql`
        select provolatile from pg_proc where oid = 'audit_log_private.read_page'::regproc`),
      ["s"],
    );
  });

  it("that make tokens draw from the cryptographic source", async () => {
    assertEquals(
      await lines(sql`
        select concat_ws(' ', prosrc ~ 'extensions.gen_random_bytes', prosrc ~ '[^_]random\\(')
        from pg_proc where oid = 'audit_log_private.new_token'::regproc`),
      ["t f"],
    );
  });
});

describe("every table and every function", () => {
  it("has a comment", async () => {
    assertEquals(
      await lines(sql`
        select oid::regclass::text from pg_class
        where relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
          and relkind in ('r', 'p', 'v') and obj_description(oid, 'pg_class') is null
        union all
        select oid::regproc::text from pg_proc
        where pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)
          and obj_description(oid, 'pg_proc') is null`),
      [],
    );
  });
});
