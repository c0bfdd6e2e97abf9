// Needs a stack.

import { assertEquals, assertMatch } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { errorOf, type Run, valueOf } from "../../dev/harness/project.ts";
import { it, logTable, makeThings, shown, shownBy, written } from "./starter_kit.ts";

// Tests what becomes of a logged table when the platform changes it.

/** Makes a function of the platform, and logs `kit.things`, or another table, with it. */
async function logWithFacts(
  run: Run,
  table = "kit.things",
  given: Record<string, string> = { data: "extra" },
) {
  await run.unsafe(`create function kit.facts(r jsonb) returns jsonb language sql as $$
    select jsonb_build_object('extra', upper(r ->> 'title')) $$`);
  await logTable(run, table, { ...given, computed: "kit.facts" });
}

async function runUpkeep(run: Run): Promise<void> {
  while (await valueOf(run`select audit_log_private.run_upkeep()`));
}

async function problems(run: Run): Promise<string[]> {
  return (await run`select logged, problem from audit_log_private.logging_problems()`)
    .map(({ logged, problem }) => `${logged}: ${problem}`);
}

describe("a change of a logged table", () => {
  it("is followed if it renames the table, its schema or its columns, or adds and drops other columns", async (run) => {
    const columns = "id integer primary key, other text, gone text";
    await makeThings(run, { columns, data: "id as thing_id" });
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
    await run.unsafe(`
      insert into other.objects (thing, owner, "Sub Title") values (2, 'b', 'Two');
      update other.objects set "Sub Title" = 'Three';
      update other.objects set more = 8;
      delete from other.objects where thing = 1`);
    // The entries of one statement have no order.
    const logged = (await written(run))
      .map(({ data }) => `${data["thing_id"]} ${JSON.stringify(data["changes"])}`).toSorted();
    const updates = ["One", "Two"].map((title, n) => `${n + 1} {"title":["${title}","Three"]}`);
    assertEquals(logged, ["1 undefined", "1 undefined", updates[0], "2 undefined", updates[1]]);
    assertEquals(await problems(run), []);
    // Again, under its new name.
    const given = { organization: "owner", agent_name: "thing", changes: "thing" };
    await logTable(run, "other.objects", { ...given, on_delete: null });
    await run`delete from other.objects`;
    assertEquals((await written(run)).length, 5);
  });

  // Postgres 17.12 and 15.20 refuse these where a parsed function takes a row of the table.
  const passing = [
    "add more integer default 7",
    "add at timestamptz not null default clock_timestamp()",
    "add number bigserial",
    "alter other type varchar(20)",
    "alter other type integer using 1",
  ];
  for (const change of passing) {
    it(`passes if it concerns a column that is not used: ${change}`, async (run) => {
      const columns = "other varchar(10), id integer primary key";
      await makeThings(run, { columns, data: "id as thing_id" });
      await run.unsafe(`
        insert into kit.things (id, team, title) values (1, 'a', 'One');
        alter table kit.things ${change};
        update kit.things set title = 'Uno';
        delete from kit.things`);
      assertEquals(await shown(run), ["a: One", 'a: Uno {"title":["One","Uno"]}', "a: Uno"]);
    });
  }

  for (const columns of ["id integer primary key", "id integer"]) {
    it(`leads no value astray if another column gets the name of a used one, which is as fast as before after the upkeep: ${columns}`, async (run) => {
      const given = { data: "id as thing_id", changes: "title, level" };
      await makeThings(run, { ...given, columns: `${columns}, level integer default 1` });
      const names = () =>
        valueOf<string[]>(run`
          select regexp_match(prosrc, 't\.(title|heading)') from pg_proc
          where oid = 'audit_log_private.logged_things()'::regprocedure`);
      const write = async (id: number, title: string) => {
        const logged = await shownBy(
          run,
          `
            insert into kit.things (id, team, ${title}) values (${id}, 'a', 'One');
            update kit.things set ${title} = 'Uno', level = 2 where id = ${id};
            delete from kit.things where id = ${id}`,
        );
        const update = 'a: Uno {"level":[1,2],"title":["One","Uno"]}';
        assertEquals(logged, ["a: One", "a: Uno", update]);
      };
      await write(1, "title");
      await run.unsafe(`
        alter table kit.things rename title to heading;
        alter table kit.things add title text default 'wrong'`);
      await write(2, "heading");
      await run.unsafe(`
        alter table kit.things rename heading to caption;
        alter table kit.things add heading text default 'wrong'`);
      await write(3, "caption");
      assertEquals(await names(), ["title"]);
      await run`alter table kit.things drop heading`;
      await run`alter table kit.things rename caption to heading`;
      await runUpkeep(run);
      await write(4, "heading");
      // So a write makes no statements anew.
      assertEquals(await names(), ["heading"]);
      // Back again, in the same session.
      await run.unsafe(`
        alter table kit.things rename title to other;
        alter table kit.things rename heading to title`);
      await write(5, "title");
      await run`update kit.things set other = 'x'`;
      assertEquals(await problems(run), []);
    });
  }

  const refused = ["drop title", "alter title type integer using 1", "drop id", "drop team"]
    .map((change) => `alter table kit.things ${change}`);
  for (const change of [...refused, "drop function kit.facts(jsonb)"]) {
    it(`is refused if it concerns what is used: ${change}`, async (run) => {
      await makeThings(run);
      await logWithFacts(run);
      const { detail = "" } = await errorOf(run.unsafe(change));
      assertMatch(detail, /function audit_log_private.logged_things\(jsonb\) depends on /);
    });
  }

  for (const what of ["alter table kit.things drop title", "drop function kit.facts(jsonb)"]) {
    it(`breaks no write if it drops a used column or the function with cascade, and is a problem then: ${what}`, async (run) => {
      await makeThings(run);
      await logWithFacts(run);
      await run.unsafe(`
        insert into kit.things values (1, 'a', 'One');
        ${what} cascade;
        insert into kit.things (id, team) values (2, 'a');
        update kit.things set team = 'b';
        delete from kit.things`);
      const gone = (event: string) =>
        `kit.things: the trigger of on_${event} is gone: call log_table again`;
      assertEquals((await problems(run)).toSorted(), ["delete", "insert", "update"].map(gone));
      await runUpkeep(run);
      assertEquals((await written(run)).length, 1);
      await run`select audit_log_private.unlog_table('kit.things')`;
      assertEquals(await problems(run), []);
    });
  }

  it("is followed if it renames the function or what it reads, without a call of log_table", async (run) => {
    await makeThings(run);
    await logWithFacts(run);
    await run`insert into kit.things values (1, 'a', 'One')`;
    const wrong = `(jsonb) returns jsonb language sql as $$ select '{"extra":"wrong"}'::jsonb $$`;
    await run.unsafe(`
      alter function kit.facts(jsonb) rename to "Facts";
      create function kit.facts${wrong}`);
    await run`insert into kit.things values (2, 'a', 'Two')`;
    await run.unsafe(`
      create schema other;
      alter function kit."Facts"(jsonb) set schema other;
      create function kit."Facts"${wrong}`);
    await run`insert into kit.things values (3, 'a', 'Three')`;
    await runUpkeep(run);
    await run`insert into kit.things values (4, 'a', 'Four')`;
    const extras = (await written(run)).map(({ data }) => data["extra"]);
    assertEquals(extras, ["ONE", "TWO", "THREE", "FOUR"]);
  });

  it("is a problem if it disables a trigger, makes a partition or a required field, or drops the table", async (run) => {
    await makeThings(run, { suffix: "partition by list (id)" });
    await run.unsafe(`
      create table kit.one partition of kit.things for values in (1);
      alter table kit.things disable trigger audit_log_on_insert;
      update audit_log.actions set required = '{thing_id}' where code = 'thing_done'`);
    assertEquals((await problems(run)).toSorted(), [
      "kit.things: the action 'thing_done' requires thing_id in data",
      "kit.things: the trigger of on_insert is disabled",
      "kit.things: writes that name its child kit.one are not logged",
    ]);
    await run`drop table kit.things cascade`;
    const [gone = "", ...others] = (await problems(run)).toSorted().toReversed();
    assertMatch(gone, /^kit.things: the table is gone. Drop audit_log_private.logged_things\(\)/);
    await run.unsafe(`drop function ${gone.match(/audit_log_private\.\w+\(\)/)?.[0]}`);
    assertEquals([others.length > 0, await problems(run)], [true, []]);
  });
});

it("logging_problems() counts, for each table and action, the entries of a day that the secret key wrote without saying for whom", async (run) => {
  await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
  const write = async (role: string, headers: object, statement: string) => {
    await run.unsafe(`set local role ${role}`);
    await run`select set_config('request.headers', ${JSON.stringify(headers)}, true)`;
    await run.unsafe(statement);
    await run`reset role`;
  };
  const insert = (id: number, mail: string | null) =>
    `insert into kit.things values (${id}, ${mail && `'${mail}'`}, 'a', 'One')`;
  await write("anon", { "user-agent": "x" }, insert(1, null));
  await write("service_role", { "user-agent": "x" }, insert(2, "row@example.com"));
  await write("service_role", { "x-audit-person": "ada@example.com" }, insert(3, null));
  await write("service_role", { "x-audit-person-id": "user_2b" }, insert(4, null));
  assertEquals(await problems(run), []);
  await write("service_role", { "x-audit-person-address": "::1" }, insert(5, null));
  await write("service_role", { "user-agent": "x" }, "update kit.things set title = 'Two'");
  const named = "kit.things: the secret key wrote 5 entries with thing_done in the last 24 hours";
  assertEquals(await problems(run), [`${named} and named nobody: send the header X-Audit-Person`]);
});

/** Lists all functions, triggers, relations and types of a database. */
async function catalogue(run: Run): Promise<string[]> {
  const rows = await run`
    select concat_ws(' ', 'function', p.oid::regprocedure, p.proacl) as made from pg_proc p
    union all select concat_ws(' ', 'trigger', t.tgname, t.tgrelid::regclass) from pg_trigger t where not t.tgisinternal
    union all select concat_ws(' ', 'relation', c.oid::regclass, c.relacl) from pg_class c where c.relkind <> 't' and c.relname !~ 'toast'
    union all select concat_ws(' ', 'type', t.oid::regtype) from pg_type t where t.typname !~ 'toast'
    order by 1`;
  return rows.map((row) => row["made"]);
}

it("what log_table() makes stays the same when it is made again as Postgres prints it, which declarative schemas do", async (run) => {
  await makeThings(run);
  await run`create table kit.keyless (team text, title varchar(20))`;
  await logWithFacts(run, "kit.keyless", { data: "extra, title", changes: "" });
  const printed = () =>
    run<{ text: string }[]>`
      select pg_get_functiondef(oid) as text from pg_proc
      where pronamespace = 'audit_log_private'::regnamespace and proname like 'logged\_%' order by 1`;
  const before = await printed();
  for (const { text } of before) await run.unsafe(text);
  assertEquals(await printed(), before);
});

it("unlog_table() leaves a table as it was. log_table() adds triggers, and functions that only the owner may use", async (run) => {
  await run`create table kit.things (id integer primary key, team text, title text)`;
  const before = await catalogue(run);
  await logTable(run, "kit.things");
  await logTable(run, "kit.things", { changes: "id" });
  const added = (await catalogue(run)).filter((made) => !before.includes(made));
  assertEquals(added, [
    "function audit_log_private.logged_things() {postgres=X/postgres}",
    "function audit_log_private.logged_things(jsonb) {postgres=X/postgres}",
    "trigger audit_log_on_delete kit.things",
    "trigger audit_log_on_insert kit.things",
    "trigger audit_log_on_update kit.things",
  ]);
  // The second call changes nothing.
  for (let n = 0; n < 2; n++) {
    await run`select audit_log_private.unlog_table('kit.things')`;
    assertEquals(await catalogue(run), before);
  }
});
