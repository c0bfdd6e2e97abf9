import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { everythingElse } from "../everything_else.ts";
import { DEMO_EMAILS } from "../../tasks/demo.ts";
import { codeOf, errorOf, rolledBack, sql } from "../helpers.ts";

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
        assertEquals(await codeOf(run.unsafe(MIGRATIONS[0] ?? "")), "42501");
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

const SEED = await Deno.readTextFile(new URL("../../supabase/seed.sql", import.meta.url));
const STATEMENTS = SEED.split(/(?<=;)\n\n/);
/** What `supabase start` gives its database, unless told otherwise. */
const SUPABASE_START_SECRET = "super-secret-jwt-token-with-at-least-32-characters-long";

/** A connection on which the database looks as if it had these settings, and no others. */
async function looksLike(settings: { jwt_secret?: string; local_stack?: string }) {
  const connection = await sql.reserve();
  for (const name of ["jwt_secret", "local_stack"] as const) {
    await connection`select set_config(${`app.settings.${name}`}, ${settings[name] ?? ""}, false)`;
  }
  return {
    connection,
    [Symbol.asyncDispose]: async () => {
      await connection`reset all`;
      await connection`discard temp`;
      connection.release();
    },
  };
}

/** What the seed would have written. */
async function seeded(): Promise<unknown> {
  const [counts] = await sql`
    select
      (select count(*)::int from auth.users where email = any(${[...DEMO_EMAILS]})) as people,
      (select count(*)::int from audit_log.organizations
        where name in ('Analytical Engines', 'Compiler Works')) as organizations`;
  return { ...counts };
}

describe("seed.sql", () => {
  it("writes nothing to a hosted project, by way of a client that goes on after errors either", async () => {
    const before = await seeded();
    // An older project keeps its own secret there.
    for (const hosted of [{}, { jwt_secret: crypto.randomUUID().repeat(2) }]) {
      await using project = await looksLike(hosted);
      const refusal = await assertRejects(() => project.connection.unsafe(SEED), Error);
      assertMatch(refusal.message, /^seed.sql is for a local stack only.* Nothing was written.$/);
      for (const statement of STATEMENTS) {
        await project.connection.unsafe(statement).catch(() => {});
      }
    }
    assertEquals(await seeded(), before);
  });

  it("begins in the stack of deno task start and in that of supabase start", async () => {
    for (
      const local of [{ local_stack: "deno task start" }, { jwt_secret: SUPABASE_START_SECRET }]
    ) {
      await using stack = await looksLike(local);
      await stack.connection.unsafe(STATEMENTS[0] ?? "");
      assertEquals((await stack.connection`select * from people`).length, 0);
    }
  });
});
