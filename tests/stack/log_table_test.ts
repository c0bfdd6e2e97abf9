import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { connect, sql } from "../helpers.ts";
import { actAs, codeOf, errorOf, rolledBack, type Run, valueOf } from "../project.ts";
import { actionsOf, inKit, installKit, logTable, makeThings, written } from "./starter_kit.ts";

// Tests the migration `log_table` as an adopter meets it. logged_writes_test.ts has the odd writes.

const LEAVE = await Deno.readTextFile(
  new URL("../../examples/adopting/leave.sql", import.meta.url),
);

/** Signs somebody up in the kit, and returns the id. */
async function signUp(run: Run): Promise<string> {
  return await valueOf(run`insert into kit.users (email) values ('ada@example.com') returning id`);
}

/** Makes a team, and returns its id. */
async function newTeam(run: Run, owner: string, name = "Engines"): Promise<string> {
  return await valueOf(run`
    insert into kit.accounts (name, slug, owner_id) values (${name}, ${name}, ${owner}) returning id`);
}

/** Lists logging_problems(). */
async function problems(run: Run): Promise<string[]> {
  return (await run`select logged, problem from audit_log_private.logging_problems()`)
    .map(({ logged, problem }) => `${logged}: ${problem}`);
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
      await run`select set_config('request.headers', '', true), set_config('request.jwt.claims', '', true)`;
      await run`set local role service_role`;
      await run`insert into kit.things values (2, 'a', 'Two')`;
      await run`reset role`;
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
      }]);
      assertEquals([job?.user_email, job?.data["caller"]], ["unknown@invalid", {
        kind: "database",
      }]);
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
      await run`insert into kit.things values (1, null, 'mail@example.com', 'a'), (2, null, 'user_2b', 'a')`;
      await run`insert into kit.more values (1, ${account}, null, 'a'), (2, gen_random_uuid(), null, 'a')`;
      const emails = (await written(run)).map(({ user_email }) => user_email);
      assertEquals(emails, [
        "mail@example.com",
        "jobs@example.com",
        "grace@example.com",
        "jobs@example.com",
      ]);
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

describe("a change of a logged table", () => {
  it("is followed if it renames the table, its schema or its columns, or adds and drops other columns", async () => {
    await inKit(async (run) => {
      await makeThings(run, {
        columns: "id integer primary key, other text, gone text",
        data: "id as thing_id",
      });
      await run`insert into kit.things values (1, '', '', 'a', 'One')`;
      await run.unsafe(`
        alter table kit.things rename title to "Sub Title";
        alter table kit.things rename id to thing;
        alter table kit.things rename team to owner;
        alter table kit.things drop other;
        alter table kit.things drop gone;
        alter table kit.things add more integer default 7;
        alter table kit.things rename to objects;
        create schema other;
        alter table kit.objects set schema other`);
      await run`insert into other.objects (thing, owner, "Sub Title") values (2, 'b', 'Two')`;
      await run`update other.objects set "Sub Title" = 'Three'`;
      await run`update other.objects set more = 8`;
      await run`delete from other.objects where thing = 1`;
      const entries = await written(run);
      assertEquals(entries.map(({ data }) => data["thing_id"]), ["1", "2", "1", "2", "1"]);
      assertEquals(entries[2]?.data["changes"], { title: ["One", "Three"] });
      assertEquals(await problems(run), []);
      // Again, under its new name.
      await logTable(run, "other.objects", {
        organization: "owner",
        agent_name: "thing",
        changes: "thing",
        on_delete: null,
      });
      await run`delete from other.objects`;
      assertEquals((await written(run)).length, 5);
    });
  });

  it("is refused if it drops a column that is used, or changes its type", async () => {
    for (const change of ["drop title", "alter title type integer using 1", "drop id"]) {
      await inKit(async (run) => {
        await makeThings(run);
        const { code, detail = "" } = await errorOf(run.unsafe(`alter table kit.things ${change}`));
        assertMatch(code, /2BP01|0A000/);
        assertStringIncludes(
          detail,
          "function audit_log_private.logged_things(kit.things) depends on column",
        );
      });
    }
  });

  it("breaks no write if it drops a used column or another table with cascade, and is a problem then", async () => {
    for (
      const drop of ["alter table kit.things drop title cascade", "drop table kit.names cascade"]
    ) {
      await inKit(async (run) => {
        await run`create table kit.names (team text primary key, name text)`;
        await makeThings(run, {
          agent_name: "(select n.name from kit.names n where n.team = things.team)",
        });
        await run`insert into kit.things values (1, 'a', 'One')`;
        await run.unsafe(drop);
        await run`insert into kit.things (id, team) values (2, 'a')`;
        await run`update kit.things set team = 'b'`;
        await run`delete from kit.things`;
        const gone = (event: string) =>
          `kit.things: the trigger of on_${event} is gone: call log_table again`;
        assertEquals((await problems(run)).toSorted(), ["delete", "insert", "update"].map(gone));
      });
    }
  });

  it("is a problem if it disables a trigger, makes a partition or a required field, or drops the key or the table", async () => {
    await inKit(async (run) => {
      await makeThings(run, {
        columns: "id integer primary key",
        suffix: "partition by list (id)",
      });
      await run.unsafe(`
        create table kit.one partition of kit.things for values in (1);
        alter table kit.things disable trigger audit_log_on_insert;
        update audit_log.actions set required = '{thing_id}' where code = 'thing_done';
        alter table kit.things drop constraint things_pkey cascade`);
      const requires =
        "kit.things: the action 'thing_done' requires thing_id, which data does not name";
      assertEquals((await problems(run)).toSorted(), [
        ...Array(3).fill(requires),
        "kit.things: the primary key that pairs old and new rows is gone: call log_table again",
        "kit.things: the trigger of on_insert is disabled",
        "kit.things: writes that name the partition kit.one are not logged",
      ]);
      await run`drop table kit.things cascade`;
      const [gone = "", ...others] = await problems(run);
      assertMatch(gone, /^kit.things: the table is gone. Drop audit_log_private.logged_things\(\)/);
      await run.unsafe(`drop function ${gone.match(/audit_log_private\.\w+\(\)/)?.[0]}`);
      assertEquals([others.length > 0, await problems(run)], [true, []]);
    });
  });

  it("is a problem if organization_of cannot run after it, and health() and metrics() say so", async () => {
    await inKit(async (run) => {
      await run`alter table kit.accounts rename is_personal to personal`;
      const [problem = ""] = await problems(run);
      assertMatch(problem, /^audit_log_private.organization_of: 42703: .*is_personal/);
      const health = await valueOf<Record<string, unknown[]>>(
        run`select audit_log_private.health()`,
      );
      assertEquals(health["logging_problems"]?.length, 1);
      const count =
        run`select value from audit_log_private.metrics() where name = 'audit_log_logging_problems'`;
      assertEquals(await valueOf(count), 1);
    });
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

/** Lists everything in a database that is not a table's data. */
async function catalogue(run: Run): Promise<string[]> {
  const rows = await run`
    select concat_ws(' ', 'function', p.oid::regprocedure, p.proacl) as made from pg_proc p
    union all select concat_ws(' ', 'trigger', t.tgname, t.tgrelid::regclass) from pg_trigger t where not t.tgisinternal
    union all select concat_ws(' ', 'relation', c.oid::regclass, c.relacl) from pg_class c where c.relkind <> 't' and c.relname !~ 'toast'
    union all select concat_ws(' ', 'type', t.oid::regtype) from pg_type t where t.typname !~ 'toast'
    order by 1`;
  return rows.map((row) => row["made"]);
}

describe("a table that is logged no more", () => {
  it("is as it was before, after unlog_table() and after leaving. log_table() adds triggers only", async () => {
    await inKit(async (run) => {
      await run`create table kit.things (id integer primary key, team text, title text)`;
      const before = await catalogue(run);
      await logTable(run, "kit.things");
      await logTable(run, "kit.things", { changes: "id" });
      const added = (await catalogue(run)).filter((made) => !before.includes(made));
      assertEquals(added.map((made) => made.replace(/\{.*\}/, "")), [
        "function audit_log_private.logged_things() ",
        "function audit_log_private.logged_things(kit.things) ",
        "trigger audit_log_on_delete kit.things",
        "trigger audit_log_on_insert kit.things",
        "trigger audit_log_on_update kit.things",
      ]);
      // Nobody but the owner may call them.
      const callers = await run`
        select distinct grantee::regrole::text as role from pg_proc, aclexplode(proacl)
        where pronamespace = 'audit_log_private'::regnamespace and proname = 'logged_things'`;
      assertEquals(callers.map(({ role }) => role), ["postgres"]);
      await run`select audit_log_private.unlog_table('kit.things')`;
      assertEquals(await catalogue(run), before);
      await run`select audit_log_private.unlog_table('kit.things')`;
      await logTable(run, "kit.things");
      await run.unsafe(LEAVE);
      const left = await catalogue(run);
      assertEquals(
        left.filter((made) => made.includes("kit.things")),
        before.filter((made) => made.includes("kit.things")),
      );
      assertEquals(left.filter((made) => made.includes("audit_log_private")), []);
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
