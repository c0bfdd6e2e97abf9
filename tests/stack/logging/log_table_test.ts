import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { connect, sql } from "../../helpers.ts";
import { actAs, codeOf, errorOf, rolledBack, type Run, valueOf } from "../../project.ts";
import { actionsOf, inKit, installKit, logTable, makeThings, written } from "./starter_kit.ts";

// Tests the migration `log_table` as an adopter meets it. logged_writes_test.ts has the odd writes.

async function signUp(run: Run): Promise<string> {
  return await valueOf(run`insert into kit.users (email) values ('ada@example.com') returning id`);
}

async function newTeam(run: Run, owner: string, name = "Engines"): Promise<string> {
  return await valueOf(run`
    insert into kit.accounts (name, slug, owner_id) values (${name}, ${name}, ${owner}) returning id`);
}

describe("a starter kit's actions are logged", () => {
  it("from the first team on, although its owner is inserted before our trigger runs", async () => {
    await inKit(async (run) => {
      const owner = await signUp(run);
      const id = await newTeam(run, owner);
      await run`update kit.members set role = 'admin' where account_id = ${id}`;
      await run`update kit.accounts set name = 'Analytical', slug = 'Not shown here' where id = ${id}`;
      await run`delete from kit.members where account_id = ${id}`;
      const [added, created, changed, team, removed] = await written(run);
      assertEquals([added?.action, added?.agent_name, added?.data["member_id"]], [
        "member_added",
        "owner",
        owner,
      ]);
      // As the BEFORE trigger left it.
      assertEquals([created?.action, created?.agent_name, created?.data["slug"]], [
        "team_created",
        "Engines",
        "engines",
      ]);
      assertEquals(changed?.data["changes"], { role: ["owner", "admin"] });
      assertEquals(team?.data["changes"], {
        name: ["Engines", "Analytical"],
        slug: ["engines", "not-shown-here"],
      });
      assertEquals([removed?.action, removed?.external_id], ["member_removed", id]);
    });
  });

  it("whatever the names of other triggers are, and in whichever order they run", async () => {
    await inKit(async (run) => {
      for (const name of ["AAA", "audit_log_a", "audit_log_z", "zzz"]) {
        await run.unsafe(`
          insert into kit.users (email) values ('${name}');
          create function kit."${name}"() returns trigger language plpgsql as $$ begin
            insert into kit.members select u.id, n.id, '${name}' from n, kit.users u where u.email = '${name}';
            return null;
          end $$;
          create trigger "${name}" after insert on kit.accounts referencing new table as n
          for each statement execute function kit."${name}"()`);
      }
      await newTeam(run, await signUp(run));
      const actions = await actionsOf(run);
      assertEquals(actions.toSorted(), [...Array(5).fill("member_added"), "team_created"]);
    });
  });

  it("not for accounts without a log: a sign-up passes unlogged", async () => {
    await inKit(async (run) => {
      await signUp(run);
      await run`update kit.accounts set name = 'x'`;
      await run`delete from kit.users`;
      assertEquals(await actionsOf(run), []);
    });
  });

  it("when a cascade removes them, with the organization whose row is already gone", async () => {
    await inKit(async (run) => {
      const id = await newTeam(run, await signUp(run));
      await run`delete from kit.accounts where id = ${id}`;
      assertEquals((await actionsOf(run)).slice(2).toSorted(), ["member_removed", "team_deleted"]);
    });
  });

  it("no more once the organization has left the log: a late write does not add it again", async () => {
    await inKit(async (run) => {
      const owner = await signUp(run);
      const id = await newTeam(run, owner);
      await run`alter table kit.members drop constraint members_account_id_fkey`;
      await run`delete from kit.accounts where id = ${id}`;
      const organization = await valueOf(
        run`select id from audit_log.organizations where external_id = ${id}`,
      );
      while (
        await valueOf(run`select audit_log_private.delete_organization(${organization as string})`)
      );
      await run`update kit.members set role = 'late' where account_id = ${id}`;
      await run`delete from kit.members where account_id = ${id}`;
      assertEquals(
        (await run`select from audit_log.organizations where external_id = ${id}`).length,
        0,
      );
    });
  });

  it("with the person, the address and the user agent of the request, for writers without rights on the log", async () => {
    await inKit(async (run) => {
      await makeThings(run, { data: "id as thing_id" });
      await run.unsafe(`
        grant usage on schema kit to authenticated, service_role;
        grant insert on kit.things to authenticated, service_role`);
      const headers = { "x-forwarded-for": "forged, 203.0.113.7", "user-agent": "x".repeat(300) };
      await run`select set_config('request.headers', ${JSON.stringify(headers)}, true)`;
      await actAs(run, { sub: "user_2b", email: "ada@example.com" });
      await run`insert into kit.things values (1, 'a', 'One')`;
      await run`select
        set_config('request.headers', '{"x-forwarded-for":"203.0.113.7"}', true),
        set_config('request.jwt.claims', '', true)`;
      await run`set local role service_role`;
      await run`insert into kit.things values (2, 'a', 'Two')`;
      await run`reset role`;
      await run`select set_config('request.headers', '', true)`;
      await run`insert into kit.things values (3, 'a', 'Three')`;
      const [person, key, job] = await written(run);
      assertEquals(person?.user_email, "ada@example.com");
      assertEquals(person?.data, {
        thing_id: "1",
        caller: {
          id: "user_2b",
          kind: "person",
          address: "203.0.113.7",
          user_agent: `${"x".repeat(199)}…`,
        },
      });
      assertEquals([key?.user_email, key?.data["caller"]], ["unknown@invalid", {
        kind: "secret_key",
        address: "203.0.113.7",
      }]);
      assertEquals([job?.user_email, job?.data["caller"]], ["unknown@invalid", undefined]);
    });
  });

  it("with the person of the row where nobody is signed in, or the address that caller() gives", async () => {
    await inKit(async (run) => {
      await run.unsafe(`
        create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin
          id := auth.jwt() ->> 'sub';
          email := coalesce(auth.jwt() ->> 'email', 'jobs@example.com');
        end $$`);
      await makeThings(run, {
        columns: "id integer primary key, made_by uuid, mail text",
        person: "mail",
      });
      await run.unsafe(`create table kit.more (like kit.things including all)`);
      await logTable(run, "kit.more", { person: "made_by" });
      const account: string = await valueOf(run`
        insert into auth.users (id, email) values (gen_random_uuid(), 'grace@example.com') returning id`);
      await run`insert into kit.things values (1, null, 'mail@example.com', 'a')`;
      await run`insert into kit.things values (2, null, 'user_2b', 'a')`;
      await run`insert into kit.more values (1, ${account}, null, 'a')`;
      await run`insert into kit.more values (2, gen_random_uuid(), null, 'a')`;
      await run`delete from kit.more where id = 1`;
      const emails = (await written(run)).map(({ user_email }) => user_email);
      assertEquals(emails, [
        "mail@example.com",
        "jobs@example.com",
        "grace@example.com",
        "jobs@example.com",
        // Whoever wrote the row need not be who deletes it.
        "jobs@example.com",
      ]);
    });
  });

  it("with nobody else's address for a signed-in person who has none, such as an anonymous user", async () => {
    await inKit(async (run) => {
      await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
      await run`insert into kit.things values (1, 'ada@example.com', 'a', 'One')`;
      for (const claims of [{ sub: "anonymous" }, { sub: "phone", email: "" }]) {
        await run`select set_config('request.jwt.claims', ${JSON.stringify(claims)}, true)`;
        await run`update kit.things set title = ${claims.sub}`;
      }
      const emails = (await written(run)).map(({ user_email }) => user_email);
      assertEquals(emails, ["ada@example.com", "unknown@invalid", "unknown@invalid"]);
    });
  });

  it("with the UUIDs of audit_log.organizations, if organization_of returns what it gets", async () => {
    await inKit(async (run) => {
      await makeThings(run, { organization: "id", columns: "id uuid primary key" });
      await run.unsafe(`
        create or replace function audit_log_private.organization_of(external_id text) returns uuid
        language plpgsql as 'begin return external_id::uuid; end';
        insert into kit.things select id, null, 'x' from audit_log.organizations where external_id = 'a'`);
      assertEquals((await written(run)).map(({ external_id }) => external_id), ["a"]);
    });
  });
});

describe("log_table() says at the push", () => {
  const BAD: Record<string, [table: string, args: Record<string, string | null>]> = {
    '42703 "titel" does not exist': ["kit.things", { agent_name: "titel" }],
    '42P01 relation "kit.nothing" does not exist': ["kit.nothing", {}],
    "22023 the action 'thing_don' is not in the table": ["kit.things", { on_insert: "thing_don" }],
    "22023 the action 'member_added' requires member_id, which data does not name": [
      "kit.things",
      { on_insert: "member_added", data: "id" },
    ],
    "22023 on_failure is refuse or carry_on": ["kit.things", { on_failure: "ignore" }],
    "22023 give on_insert, on_update or on_delete": [
      "kit.things",
      { on_insert: null, on_update: null, on_delete: null },
    ],
    "22023 the names caller and changes in data are reserved": ["kit.things", {
      data: "id as caller",
    }],
    "22023 name each value": ["kit.things", { data: "id + 1" }],
    "42804 must be type boolean": ["kit.things", { log_if: "id" }],
    "42601 syntax error": ["kit.things", { data: "id as" }],
    "22023 too many columns": [
      "kit.things",
      { data: Array.from({ length: 70 }, (_, n) => `id as ${"name".repeat(4)}${n}`).join(", ") },
    ],
    "22023 not a table of the platform": ["audit_log.organizations", {
      agent_name: "name",
      changes: "name",
    }],
    "22023 give it a primary key": ["kit.parts", {}],
  };
  for (const [error, [table, args]] of Object.entries(BAD)) {
    it(error.slice(6), async () => {
      await inKit(async (run) => {
        await makeThings(run);
        await run`create table kit.parts (id integer, team text, title text) partition by list (id)`;
        const { code, message } = await errorOf(logTable(run, table, args));
        assertEquals(code, error.slice(0, 5), message);
        assertStringIncludes(message, error.slice(6));
      });
    });
  }

  it("that on_failure must be chosen", async () => {
    const call =
      sql`select audit_log_private.log_table('audit_log.actions', organization => 'x', agent_name => 'x')`;
    assertEquals(await codeOf(call), "42883");
  });
});

describe("a failure", () => {
  // The organization is not in the log: organization_of raises, as it does until it is replaced.
  const failing = "insert into kit.things values (2, 'nobody', 'secret title')";

  it("refuses the statement, naming the organization, with on_failure => refuse", async () => {
    await rolledBack(sql, async (run) => {
      await run`create schema kit`;
      await run`insert into audit_log.actions (code, description) values ('thing_done', '')`;
      await makeThings(run);
      const { message, detail } = await errorOf(run.unsafe(failing));
      assertEquals(
        message,
        "the organization 'nobody' is not in the table audit_log.organizations",
      );
      assert(!detail?.includes("secret"));
    });
  });

  it("lets the statement go on with on_failure => carry_on, and is counted with its last message", async () => {
    await rolledBack(sql, async (run) => {
      await run`create schema kit`;
      await run`insert into audit_log.actions (code, description) values ('thing_done', '')`;
      await makeThings(run, { on_failure: "carry_on" });
      await run.unsafe(failing);
      await run`update kit.things set title = 'x'`;
      await run`insert into kit.things values (1, 'a', 'logged')`;
      assertEquals((await run`select from kit.things`).length, 2);
      assertEquals((await written(run)).map(({ agent_name }) => agent_name), ["logged"]);
      // Also what caller() raises.
      await run`create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin raise exception 'down'; end $$`;
      await run`delete from kit.things`;
      const health = await valueOf<Record<string, Record<string, unknown>[]>>(
        run`select audit_log_private.health()`,
      );
      const [failure, ...others] = health["logging_failures"] ?? [];
      assertEquals([failure?.["logged"], failure?.["failures"], others], ["kit.things", 3, []]);
      assertEquals(failure?.["last_error"], "P0001: down");
      const metric =
        run`select value from audit_log_private.metrics() where name = 'audit_log_logging_failures'`;
      assertEquals(await valueOf(metric), 3);
    });
  });
});

describe("the first writes of an organization at once", () => {
  // They commit, so they are in tables that are dropped at the end.
  const others = [connect(), connect(), connect()];
  afterAll(async () => {
    await Promise.all(others.map((other) => other.end()));
  });

  it("add it once", async () => {
    assertEquals((await sql`select to_regnamespace('kit')`)[0]?.["to_regnamespace"], null);
    const definition = await valueOf<string>(sql`
      select pg_get_functiondef('audit_log_private.organization_of'::regproc)`);
    let id = "";
    try {
      await sql.begin((run) => installKit(run));
      const owner = await signUp(sql);
      await sql`alter table kit.accounts disable trigger user`;
      id = await newTeam(sql, owner);
      await sql`alter table kit.accounts enable trigger user`;
      const users = await Promise.all(others.map((other) => signUp(other)));
      await Promise.all(
        others.map((other, n) =>
          other`insert into kit.members values (${users[n] ?? ""}, ${id}, 'member')`
        ),
      );
      const [{ organizations, entries } = {}] = await sql`
        select count(distinct o.id)::int as organizations, count(*)::int as entries
        from audit_log.organizations o join audit_log.audit_entries e on e.organization_id = o.id
        where o.external_id = ${id}`;
      assertEquals([organizations, entries], [1, 3]);
    } finally {
      await sql.unsafe(`drop schema kit cascade; ${definition};
        do $$ declare made record; begin
          for made in select trigger_function as name from audit_log_private.logged_tables() where logged is null loop
            execute 'drop function ' || made.name;
          end loop;
        end $$`);
      const organization = sql`select id from audit_log.organizations where external_id = ${id}`;
      const [{ id: found } = {}] = await organization;
      while (found && await valueOf(sql`select audit_log_private.delete_organization(${found})`));
      await sql`delete from audit_log.actions where code ~ '^(team|member|thing)_'`.catch(() => {});
    }
  });
});
