import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { errorOf, rolledBack, sql } from "../helpers.ts";

// Installing into a project that has everything already: our names in its schemas, grants, policies, triggers.

const FOLDER = new URL("../../supabase/migrations/", import.meta.url);
const MIGRATIONS = await Promise.all(
  (await Array.fromAsync(Deno.readDir(FOLDER), ({ name }) => name)).sort()
    .map((name) => Deno.readTextFile(new URL(name, FOLDER))),
);

/** What a project may have of its own, with each name that the service uses. */
const PROJECT = `
  create schema private;
  grant usage on schema private to anon, authenticated;
  create table public.organizations (id text primary key, title text);
  create table public.organization_members (organization_id text references public.organizations, user_id uuid, level int);
  create table public.audit_entries (id bigint primary key, happened text);
  create table private.api_keys (id int primary key);
  create table private.seals (id int primary key);
  alter table public.organizations enable row level security;
  create policy read on public.organizations to anon using (true);
  grant select on public.organizations, public.organization_members, public.audit_entries to anon, authenticated;
  create type public.audit_action as enum ('mine');
  create type public.organization_role as enum ('owner');
  create type public.page_query as (x int);
  create function public.create_api_key(name text) returns text language sql as 'select $1';
  create function public.public_audit_log() returns int language sql as 'select 1';
  create function private.require_admin(id int) returns int language sql as 'select $1';
  create function public.touch() returns trigger language plpgsql as 'begin return new; end';
  create trigger touch before insert on public.organizations for each row execute function public.touch();
  grant execute on function public.create_api_key to anon;
  insert into public.organizations values ('acme', 'Acme');`;

/** Everything in the database but our two schemas, one line of text for each thing. */
async function everythingElse(run: postgres.ISql): Promise<string[]> {
  const rows = await run<{ thing: string }[]>`
    with others as (
      select oid, nspname, nspacl from pg_namespace
      where nspname not in ('audit_log', 'audit_log_private') and nspname !~ '^pg_(toast|temp)'
    )
    select thing from (
      select concat('schema ', nspname, nspacl) as thing from others
      union all
      select concat('relation ', c.oid::regclass, c.relkind, c.relacl, c.relowner, c.relrowsecurity, c.reloptions)
      from pg_class c join others o on o.oid = c.relnamespace
      union all
      select concat('column ', a.attrelid::regclass, '.', a.attname, a.attacl, a.atttypid, a.attnotnull)
      from pg_attribute a join pg_class c on c.oid = a.attrelid join others o on o.oid = c.relnamespace
      union all
      select concat('function ', p.oid::regprocedure, p.proacl, p.prosecdef, p.proconfig, md5(p.prosrc))
      from pg_proc p join others o on o.oid = p.pronamespace
      union all
      select concat('type ', t.oid::regtype, t.typacl) from pg_type t join others o on o.oid = t.typnamespace
      union all
      select concat('trigger ', t.tgrelid::regclass, t.tgname, t.tgenabled)
      from pg_trigger t join pg_class c on c.oid = t.tgrelid join others o on o.oid = c.relnamespace
      union all
      select concat('constraint ', c.conname, c.conrelid::regclass)
      from pg_constraint c join others o on o.oid = c.connamespace
      union all
      select concat('policy ', p.polname, p.polrelid::regclass)
      from pg_policy p join pg_class c on c.oid = p.polrelid join others o on o.oid = c.relnamespace
      union all
      select concat('event trigger ', evtname, evtenabled) from pg_event_trigger
      union all
      select concat('default privileges ', defaclrole, defaclnamespace, defaclobjtype, defaclacl) from pg_default_acl
      union all
      select concat('role ', rolname, rolconfig, rolsuper, rolinherit, rolbypassrls) from pg_roles
      union all
      select concat('membership ', roleid, member, admin_option) from pg_auth_members
      union all
      select concat('extension ', extname, extnamespace, extversion) from pg_extension
      union all
      select concat('setting ', setdatabase, setrole, setconfig) from pg_db_role_setting
      union all
      select concat('database ', datname, datacl) from pg_database
    ) as things
    order by thing`;
  return rows.map(({ thing }) => thing);
}

async function install(run: postgres.ISql): Promise<void> {
  for (const migration of MIGRATIONS) await run.unsafe(migration);
}

const DROP = "drop schema audit_log, audit_log_private cascade";

describe("installing into a project that has all our names", () => {
  it("changes nothing outside our two schemas, and dropping them leaves nothing behind", async () => {
    await rolledBack(sql, async (run) => {
      await run.unsafe(`${DROP}; ${PROJECT}`);
      const before = await everythingElse(run);
      await install(run);
      assertEquals(await everythingElse(run), before);
      await run.unsafe(DROP);
      assertEquals(await everythingElse(run), before);
      await install(run);
    });
  });

  it("says so and changes nothing where one of our two schemas is somebody else's", async () => {
    for (const name of ["audit_log", "audit_log_private"]) {
      await rolledBack(sql, async (run) => {
        await run.unsafe(`${DROP}; create schema ${name}`);
        const before = await everythingElse(run);
        await run`savepoint before`;
        const error = await errorOf(run.unsafe(MIGRATIONS[0] ?? ""));
        assertEquals(error.code, "42P06");
        assertMatch(error.message, new RegExp(`schema ${name} already. Nothing was changed`));
        await run`rollback to before`;
        assertEquals(await everythingElse(run), before);
      });
    }
  });

  it("is refused to every role that is not the owner of the project, and leaves nothing", async () => {
    for (const role of ["anon", "authenticated", "service_role"]) {
      await rolledBack(sql, async (run) => {
        await run.unsafe(`${DROP}; set local role ${role}`);
        assertEquals((await errorOf(run.unsafe(MIGRATIONS[0] ?? ""))).code, "42501");
      });
    }
  });

  it("each migration is complete in itself: pushing goes on after any of them", async () => {
    await rolledBack(sql, async (run) => {
      await run.unsafe(DROP);
      for (const migration of MIGRATIONS) {
        await run`savepoint before`;
        // A push that fails at the end of the file.
        await errorOf(run.unsafe(`${migration}; select 1 / 0`));
        await run`rollback to before`;
        await run.unsafe(migration);
      }
    });
  });
});
