import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { everythingElse } from "../everything_else.ts";
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
