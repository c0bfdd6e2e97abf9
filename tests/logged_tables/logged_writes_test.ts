// Needs a stack.

import { assert, assertEquals, assertObjectMatch } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { actAs } from "../../dev/harness/project.ts";
import { it, logTable, makeThings, shown, shownBy, written } from "./starter_kit.ts";

// Tests what the triggers of log_table write, whichever way a table is written.

/** Statements on `kit.things`, which has the things 1 (One) and 2 (Two) of `a`, and what they log. */
const STATEMENTS: Record<string, [statement: string, logged: string[]]> = {
  "MERGE": [
    `merge into kit.things t using (values (1, 'Uno'), (2, null), (3, 'Three')) v (id, title) on t.id = v.id
     when matched and v.title is null then delete
     when matched then update set title = v.title
     when not matched then insert (id, team, title) values (v.id, 'a', v.title)`,
    ["a: Three", 'a: Uno {"title":["One","Uno"]}', "a: Two"],
  ],
  "INSERT … ON CONFLICT DO UPDATE": [
    `insert into kit.things values (1, 'a', 'Uno'), (3, 'a', 'Three')
     on conflict (id) do update set title = excluded.title`,
    ["a: Three", 'a: Uno {"title":["One","Uno"]}'],
  ],
  "INSERT … ON CONFLICT DO NOTHING": [
    "insert into kit.things values (1, 'a', 'x') on conflict do nothing",
    [],
  ],
  "an UPDATE that changes nothing of interest": ["update kit.things set note = 'x'", []],
  "an UPDATE of no row": ["update kit.things set title = 'x' where false", []],
  "an UPDATE to null": ["update kit.things set title = null where id = 1", [
    'a: unnamed {"title":["One",null]}',
  ]],
  "an UPDATE that moves a row: each organization gets its own values only": [
    "update kit.things set team = 'b', title = 'Moved' where id = 1",
    ['a: One {"title":["One",null]}', 'b: Moved {"title":[null,"Moved"]}'],
  ],
  "an UPDATE that changes primary keys": [
    "update kit.things set id = id + 10, title = 'New' where id = 2",
    ['a: New {"id":[2,12],"title":["Two","New"]}'],
  ],
  "an UPDATE of the key alone: the key and nothing else": [
    "update kit.things set id = id + 10",
    ['a: One {"id":[1,11]}', 'a: Two {"id":[2,12]}'],
  ],
  "a WITH that writes twice": [
    `with u as (update kit.things set title = 'Uno' where id = 1)
     insert into kit.things values (3, 'b', 'Three')`,
    ['a: Uno {"title":["One","Uno"]}', "b: Three"],
  ],
  "a BEFORE trigger that swallows a row and changes another": [
    `create function kit.censor() returns trigger language plpgsql as $$ begin
       if new.id = 1 then return null; end if;
       new.title := upper(new.title);
       return new;
     end $$;
     create trigger censor before update on kit.things for each row execute function kit.censor();
     update kit.things set title = 'new'`,
    ['a: NEW {"title":["Two","NEW"]}'],
  ],
  "an UPDATE under forced row level security, with a column named like our own": [
    `alter table kit.things force row level security;
     alter table kit.things enable row level security;
     alter table kit.things rename note to t;
     update kit.things set t = 'x', title = 'Uno' where id = 1`,
    ['a: Uno {"title":["One","Uno"]}'],
  ],
};

describe("on a table with a primary key, log_table logs", () => {
  for (const [name, [statement, logged]] of Object.entries(STATEMENTS)) {
    it(name, async (run) => {
      await makeThings(run, { columns: "id integer primary key" });
      await run`alter table kit.things add note text`;
      await run`insert into kit.things values (1, 'a', 'One'), (2, 'a', 'Two')`;
      assertEquals(await shownBy(run, statement), logged.toSorted());
    });
  }

  it("what the platform's function computes. A row for which it returns null no longer counts, or begins to", async (run) => {
    await makeThings(run);
    await run.unsafe(`
      create function kit.facts(r jsonb) returns jsonb language sql immutable as $$
        select jsonb_build_object('owner', r ->> 'team', 'shout', upper(r ->> 'title'), 'size', length(r ->> 'title'),
          'open', r ->> 'id' = '1', 'list', json_build_array(r -> 'id', 'x'), 'none', null,
          'action', case when r ->> 'title' like 'T%' then 'team_changed' end)
        where r ->> 'title' <> 'Draft'
      $$`);
    await logTable(run, "kit.things", {
      organization: "owner",
      agent_name: "shout",
      data: "size, none as nothing, list, id",
      changes: "shout, size as length, open, list, none",
      computed: "kit.facts",
    });
    /** The changes of a row that begins to count, or no longer does. */
    const all = (id: number, shout: string, isNew: boolean) => {
      const values = { list: `[${id}, "x"]`, open: id === 1, shout, length: shout.length };
      const changes = Object.entries(values)
        .map(([name, value]) => [name, isNew ? [null, value] : [value, null]]);
      return JSON.stringify(Object.fromEntries(changes));
    };
    const renamed = JSON.stringify({ shout: ["ONE", "FOUR"], length: [3, 4] });
    const writes: [statement: string, ...logged: string[]][] = [
      ["insert into kit.things values (1, 'a', 'Draft'), (2, 'a', 'Two')", "a: team_changed: TWO"],
      [
        "update kit.things set title = case id when 1 then 'One' else 'Draft' end",
        `a: ONE ${all(1, "ONE", true)}`,
        `a: team_changed: TWO ${all(2, "TWO", false)}`,
      ],
      ["update kit.things set title = 'Draft' where id = 2"],
      ["update kit.things set title = 'Four' where id = 1", `a: FOUR ${renamed}`],
      [
        "update kit.things set team = 'b' where id = 1",
        `a: FOUR ${all(1, "FOUR", false)}`,
        `b: FOUR ${all(1, "FOUR", true)}`,
      ],
      ["delete from kit.things", "b: FOUR"],
    ];
    for (const [statement, ...due] of writes) assertEquals(await shownBy(run, statement), due);
    for (const { agent_name, data: { changes: _, ...data } } of await written(run)) {
      const [id, size] = [agent_name === "TWO" ? "2" : "1", `${agent_name.length}`];
      assertEquals(data, { id, size, nothing: "", list: `[${id}, "x"]` });
    }
  });
});

/** Tables of other shapes. Each has a thing `Old`, of which the title is changed and which is then deleted. */
const SHAPES: Record<string, Record<string, string>> = {
  "without a primary key": { columns: "id integer" },
  "with a primary key of several columns": {
    columns: `"Id" integer, id uuid default gen_random_uuid(), primary key (id, "Id")`,
  },
  "with a generated column": {
    columns: "id integer primary key, twice integer generated always as (id * 2) stored",
    data: "twice",
  },
  "with an enum, an array, a domain and a composite": {
    columns:
      "id integer primary key, kind kit.kind default 'x', list text[] default '{a,b}', account kit.accounts",
    data: "kind, list, account",
  },
  "with a deferrable key": { columns: "id integer primary key deferrable initially deferred" },
  "of partitions": { columns: "id integer primary key", suffix: "partition by range (id)" },
};

describe("log_table logs a table", () => {
  for (const [shape, given] of Object.entries(SHAPES)) {
    it(shape, async (run) => {
      await run`create type kit.kind as enum ('x', 'y')`;
      await makeThings(run, given);
      if (given["suffix"]) {
        await run.unsafe(`
          create table kit.low partition of kit.things for values from (0) to (10);
          create table kit.high (title text, team text, id integer not null);
          alter table kit.things attach partition kit.high for values from (10) to (20)`);
      }
      const [first = "id"] = (given["columns"] ?? "").split(" ");
      await run.unsafe(`
        insert into kit.things (${first}, team, title) values (1, 'a', 'Old'), (2, 'b', 'Other');
        update kit.things set title = 'New' where ${first} = 1;
        delete from kit.things where ${first} = 1`);
      const logged = ["a: Old", "b: Other", 'a: New {"title":["Old","New"]}', "a: New"];
      assertEquals(await shown(run), logged);
      if (!given["suffix"]) return;
      const moved = await shownBy(run, "update kit.things set id = 12 where id = 2");
      assertEquals(moved, ['b: Other {"id":[2,12]}']);
      // Nothing is a pair where a row is swallowed on its way.
      await run.unsafe(`
        insert into kit.things (id, team, title) values (1, 'a', 'One'), (2, 'a', 'Two'), (3, 'a', 'Three');
        create function kit.swallow() returns trigger language plpgsql as $$ begin
          return case when new.id <> 12 then new end;
        end $$;
        create trigger swallow before insert on kit.high for each row execute function kit.swallow()`);
      const update = "update kit.things set id = id + 10, title = title || '!' where id < 4";
      assertEquals(await shownBy(run, update), [
        'a: One {"title":["One",null]}',
        'a: One! {"title":[null,"One!"]}',
        'a: Three {"title":["Three",null]}',
        'a: Three! {"title":[null,"Three!"]}',
        'a: Two {"title":["Two",null]}',
      ]);
    });
  }

  it("without a primary key and without changes: each update", async (run) => {
    await makeThings(run, { columns: "id integer", changes: "" });
    await run`insert into kit.things values (1, 'a', 'One')`;
    const updates = ["update kit.things set id = 2", "update kit.things set team = 'b'"];
    assertEquals(await shownBy(run, updates.join(";")), ["a: One", "a: One", "b: One"]);
  });

  it("with each value of changes as JSON has it: booleans, numbers, null, and text for all else", async (run) => {
    const types: [type: string, old: string, present: string, shown: string][] = [
      ["boolean", "true", "false", "[true, false]"],
      ["bigint", "9007199254740993", "null", "[9007199254740993, null]"],
      ["numeric", "1.50", "'NaN'", '[1.50, "NaN"]'],
      ["real", "123456.8", "'-0'", '[123456.8, "-0"]'],
      ["double precision", "1e-7", "1e300", '[0.0000001, "1e+300"]'],
      ["numeric", "1e99", "1e100", `[1${"0".repeat(99)}, "1${"0".repeat(98)}…"]`],
      ["kit.level", "1", "2", "[1, 2]"],
      ["date", "'2026-03-01'", "'2026-03-02'", '["2026-03-01", "2026-03-02"]'],
      ["text", "'1'", "'true'", '["1", "true"]'],
      ["integer[]", "'{1}'", "'{}'", '["{1}", "{}"]'],
      ["jsonb", "'1'", "'null'", '["1", "null"]'],
    ];
    const names = [..."abcdefghijk"];
    const columns = types.map(([type], n) => `${names[n]} ${type}`);
    await run`create domain kit.small as smallint`;
    await run`create domain kit.level as kit.small`;
    await makeThings(run, { columns: `id integer primary key, ${columns}`, changes: `${names}` });
    await run`insert into kit.things (id, team) values (1, 'a')`;
    for (const which of [1, 2, 1]) {
      await run.unsafe(
        `update kit.things set ${types.map((type, n) => `${names[n]} = ${type[which]}`)}`,
      );
    }
    const [, , there, back] = await run`
      select array(select value::text from jsonb_each(data -> 'changes') order by key) as shown
      from audit_log.audit_entries
      where transaction_id = audit_log_private.transaction_number() order by id`;
    assertEquals(there?.["shown"], types.map(([, , , due]) => due));
    assertEquals(back?.["shown"].length, types.length);
  });

  it("with columns of any collation: an organization in capitals is another one, and a change of capitals is a change", async (run) => {
    await run.unsafe(`
      create collation kit.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      create table kit.words
        (id text collate "C" primary key, team text collate kit.any_case, title text collate kit.any_case)`);
    await logTable(run, "kit.words", { data: "team, title", person: "title" });
    await run.unsafe(`
      insert into kit.words values ('1', 'a', 'one');
      insert into kit.words values ('2', 'A', 'two');
      update kit.words set title = 'ONE' where id = '1';
      update kit.words set title = upper(title);
      update kit.words set team = 'B' where id = '1';
      update kit.words set team = 'b' where id = '1'`);
    assertEquals(await shown(run), [
      "a: one",
      "A: two",
      'a: ONE {"title":["one","ONE"]}',
      'A: TWO {"title":["two","TWO"]}',
      ...['a: ONE {"title":["ONE",null]}', 'B: ONE {"title":[null,"ONE"]}'],
      ...['B: ONE {"title":["ONE",null]}', 'b: ONE {"title":[null,"ONE"]}'],
    ]);
  });

  it("with odd names, in a schema with odd names", async (run) => {
    await run.unsafe(`
      create schema "My Kit";
      create table "My Kit"."The ""Things"" – Ünïcödé" ("Id %s" integer primary key, "order" text, "a b" text, t text, changed_rows text, "Net ($1), gross" integer)`);
    const table = `"My Kit"."The ""Things"" – Ünïcödé"`;
    const given = { organization: `"order"`, agent_name: `"a b"`, changes: `"a b"` };
    const data = `"Id %s" as "my id", t, changed_rows, "Net ($1), gross" as net`;
    for (let n = 0; n < 2; n++) await logTable(run, table, { ...given, data });
    await run.unsafe(
      `insert into ${table} values (1, 'a', 'x', 'y', 'z', 5); update ${table} set "a b" = 'new'`,
    );
    const [inserted] = await written(run);
    assertEquals(inserted?.data, { "my id": "1", t: "y", changed_rows: "z", net: "5" });
    assertEquals((await shown(run))[1], 'a: new {"a b":["x","new"]}');
  });

  it("whose names are those that our functions use", async (run) => {
    const list = "logged, value1, field1, change1, key, data, person";
    await makeThings(run, {
      columns: `id integer primary key, ${list.replaceAll(",", " text,")} text`,
    });
    for (const name of ["logged", "value", "field", "change", "n", "o", "r", "request"]) {
      await run.unsafe(`create table kit.${name} (like kit.things including all)`);
      await logTable(run, `kit.${name}`, { data: list, changes: list, person: "person" });
      await run.unsafe(`
        insert into kit.${name} (id, team, title, ${list}) values (1, 'a', 'One', 1, 2, 3, 4, 5, 6, 7);
        update kit.${name} set logged = 'x'`);
      const [inserted, updated] = (await written(run)).slice(-2);
      assertEquals(Object.values(inserted?.data ?? {}).toSorted(), [..."1234567"], name);
      assertEquals(updated?.data["changes"], { logged: ["1", "x"] }, name);
    }
  });

  it("beside another table of the same name, and one whose name is as long as can be", async (run) => {
    await makeThings(run);
    const long = "n".repeat(63);
    for (const table of ["public.things", `kit.${long}`, `public.${long}`]) {
      await run.unsafe(`create table ${table} (like kit.things including all)`);
      await logTable(run, table);
      await run.unsafe(`insert into ${table} values (1, 'a', 'x')`);
    }
    assertEquals((await written(run)).length, 3);
    const logged = await run`select logged::text from audit_log_private.logged_tables()`;
    assertEquals(logged.length, 6);
    await run`select audit_log_private.unlog_table('public.things')`;
    await run`insert into kit.things values (1, 'a', 'x')`;
    assertEquals((await written(run)).length, 4);
  });
});

describe("no value makes a write fail, or hides its caller", () => {
  const ADDRESS = "2001:db8:1111:2222:3333:4444:5555:6666";
  const WIDE = Array.from({ length: 10 }, (_, n) => `wide${n}`);
  const VALUES = {
    "a long text": "x".repeat(5_000),
    "control characters": "\u0001".repeat(5_000),
    "emoji": "\u{1f600}".repeat(5_000),
    "quotes": `"\\`.repeat(5_000),
    "a blank": " \n ",
    "nothing": null,
  };
  for (const [name, value] of Object.entries(VALUES)) {
    it(`in ten columns of data and changes: ${name}`, async (run) => {
      const headers = JSON.stringify({ "x-forwarded-for": ADDRESS, "user-agent": value });
      await run`select set_config('request.headers', ${headers}, true)`;
      const list = WIDE.join(", ");
      const columns = `id integer primary key, ${WIDE.join(" text, ")} text`;
      const names = { agent_name: "wide0", person: "wide1" };
      await makeThings(run, { columns, data: list, changes: list, ...names });
      await run`insert into kit.things (id, team) values (1, 'a')`;
      await run.unsafe(`update kit.things set ${WIDE.join(" = $1, ")} = $1`, [value]);
      await run`delete from kit.things`;
      const entries = await written(run);
      assertEquals(entries.length, value === null ? 2 : 3);
      for (const { data } of entries) assertObjectMatch(data, { caller: { address: ADDRESS } });
      const wide9 = String(entries.at(-1)?.data["wide9"]);
      // What was cut says so.
      if (value && value.length > 100) assert(/.{5}…$/s.test(wide9), wide9);
      else assertEquals(wide9, value ?? "");
    });
  }

  it("in sixty columns of long numbers", async (run) => {
    const names = Array.from({ length: 60 }, (_, n) => `n${n}`);
    const columns = `id integer primary key, ${names.join(" numeric, ")} numeric`;
    await makeThings(run, { columns, changes: names.join(", ") });
    await run`insert into kit.things (id, team) values (1, 'a')`;
    await run.unsafe(`update kit.things set ${names.join(" = 1e80, ")} = 1e80`);
    const [, update] = await written(run);
    assertObjectMatch(update?.data ?? {}, { changes: { n59: [null, `1${"0".repeat(23)}…`] } });
  });

  it("in the headers and claims of a request", async (run) => {
    await makeThings(run);
    const odd = ['{"user-agent":"\\u0000"}', '{"x-forwarded-for":[1]}', '{"user-agent":{}}'];
    const headers = [...["{", "[]", "1", "null", "[".repeat(100_000)], ...odd];
    for (const [id, header] of headers.entries()) {
      await run`select set_config('request.headers', ${header}, true)`;
      await run`insert into kit.things values (${id}, 'a', 'x')`;
    }
    await actAs(run, { sub: "x".repeat(5_000), email: "no address" });
    await run`insert into kit.things values (100, 'a', 'x')`;
    await run`reset role`;
    const emails = (await written(run)).map(({ user_email }) => user_email);
    assertEquals(emails, Array(headers.length + 1).fill("unknown@invalid"));
  });
});

it("rows of a table that inherits from a logged one are not taken for the logged ones", async (run) => {
  await makeThings(run, { columns: "id integer primary key" });
  await run`create table kit.others () inherits (kit.things)`;
  await run`insert into kit.things values (1, 'a', 'One')`;
  await run`insert into kit.others values (1, 'a', 'Other'), (2, 'a', 'Another')`;
  await run`update kit.things set title = title || '!'`;
  await run`update kit.others set title = title || '?'`;
  assertEquals((await shown(run)).toSorted(), [
    'a: Another! {"title":["Another","Another!"]}',
    "a: One",
    'a: One! {"title":["One","One!"]}',
    'a: Other! {"title":["Other","Other!"]}',
  ]);
});

const PARTITIONS = `
  create table kit.part1 partition of kit.things for values from (minvalue) to (5000);
  create table kit.part2 partition of kit.things for values from (5000) to (9000);
  create table kit.part3 partition of kit.things for values from (9000) to (20000);
  create table kit.part4 partition of kit.things for values from (20000) to (maxvalue);`;

// That Postgres puts old and new rows in one order is nowhere written.
for (const suffix of ["", "partition by range (id)"]) {
  const set = "set former = t.title, title = md5(random()::text)";
  const updates = [
    `update kit.things t ${set}`,
    `update kit.things t ${set}, id = t.id + 20000 where t.id % 3 = 0`,
    `update kit.things t ${set} from (select id from kit.things order by random()) r where r.id = t.id`,
    `update kit.things t ${set} where t.title < '8'`,
    `merge into kit.things t using (select id from kit.things order by title) r on r.id = t.id
     when matched and t.id % 7 = 0 then delete when matched then update ${set}`,
    `insert into kit.things as t (id, team, title) select n, 'a', 'new' from generate_series(1, 40000, 13) n
     on conflict (id) do update ${set}`,
    `update kit.kinds set name = 'y'`,
  ];
  it(`each row is paired with what it was, whichever way and in whichever order many are updated: ${suffix || "one table"}`, async (run) => {
    await run`create table kit.kinds (name text primary key)`;
    await run`insert into kit.kinds values ('x')`;
    const columns = "id integer primary key, former text, kind text default 'x'";
    await makeThings(run, { columns, suffix, data: "former", on_update: "team_changed" });
    await run.unsafe(`
      ${suffix && PARTITIONS}
      alter table kit.things add foreign key (kind) references kit.kinds on update cascade;
      create function kit.keep() returns trigger language plpgsql as $$ begin
        new.former := old.title; new.title := md5(random()::text); return new;
      end $$;
      insert into kit.things select n, null, 'x', 'a', 'old ' || n from generate_series(1, 10000, 4) n;
      create trigger keep before update on kit.things for each row
        when (new.kind <> old.kind) execute function kit.keep();
      set local work_mem = '64kB'`);
    for (const update of updates) await run.unsafe(update);
    const [row] = await run`
      select count(*)::int as entries,
        count(*) filter (where e.data ->> 'former' <> coalesce(e.data #>> '{changes,title,0}', ''))::int as wrong
      from audit_log.audit_entries e
      where e.action = 'team_changed' and e.transaction_id = audit_log_private.transaction_number()`;
    assertEquals([row?.["wrong"], (row?.["entries"] ?? 0) > 10_000], [0, true]);
  });
}

for (const columns of ["id integer primary key", "id integer"]) {
  it(`a logged update is not quadratic after one of one row in the same session: ${columns}`, async (run) => {
    await makeThings(run, { columns });
    await run`alter table kit.things disable trigger audit_log_on_insert`;
    await run`insert into kit.things select n, 'a', 'One' from generate_series(1, 10000) n`;
    const update = async (where: string) => {
      const start = performance.now();
      await run.unsafe(`update kit.things set title = title || 'x' where ${where}`);
      return performance.now() - start;
    };
    for (let n = 0; n < 8; n++) await update("id = 1");
    const [small, large] = [await update("id <= 1000"), await update("true")];
    // Ten times, if it is linear; a hundred times, if it is quadratic.
    assert(large < 40 * small, `${large} ms for 10,000 rows, ${small} ms for 1,000`);
    assertEquals((await written(run)).length, 8 + 1_000 + 10_000);
  });
}
