// Needs a stack.

import { assertEquals, assertNotEquals } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { actAs, addKeys, addOrganization, rolledBack, valueOf } from "../../dev/harness/project.ts";
import { DATABASE_URL, HAS_STREAMS, type Run, sql, writeEntries } from "../helpers/mod.ts";

// Whatever a role, a database, a client or a request sets, the same values become the same bytes.

const LOCALES = (await sql`
  select distinct collcollate as name from pg_collation where collprovider = 'c' and collcollate is not null`)
  .map(({ name }) => String(name));

const OFF = "array_nulls backslash_quote check_function_bodies enable_hashjoin enable_seqscan " +
  "escape_string_warning row_security standard_conforming_strings synchronous_commit";
const ON = "constraint_exclusion default_transaction_deferrable quote_all_identifiers " +
  "transform_null_equals";

/** What anybody may set, and what might change a text or what it means. */
const VALUES_OF: Record<string, string[]> = {
  ...Object.fromEntries(OFF.split(" ").map((name) => [name, ["off"]])),
  ...Object.fromEntries(ON.split(" ").map((name) => [name, ["on"]])),
  bytea_output: ["escape"],
  datestyle: ["German", "SQL, DMY", "Postgres, MDY"],
  default_text_search_config: ["pg_catalog.german"],
  extra_float_digits: ["0", "-15", "3"],
  intervalstyle: ["iso_8601", "sql_standard", "postgres_verbose"],
  jit_above_cost: ["0"],
  lc_monetary: LOCALES,
  lc_numeric: LOCALES,
  lc_time: LOCALES,
  plan_cache_mode: ["force_generic_plan", "force_custom_plan"],
  search_path: ["pg_temp, audit_log_private, pg_catalog", "audit_log, settings"],
  timezone: ["Asia/Tokyo", "America/St_Johns"],
  timezone_abbreviations: ["Australia", "India"],
  work_mem: ["64kB"],
  xmlbinary: ["hex"],
  xmloption: ["document"],
};

/** So many sessions have all of these at once: the first value of each, the second, and so on. */
const SESSIONS = Math.max(...Object.values(VALUES_OF).map((values) => values.length));

/** Runs statements in a new session that has the nth values, or no settings, and undoes what they did. */
async function inSession<T>(work: (run: Run) => Promise<T>, n?: number): Promise<T> {
  const session = postgres(DATABASE_URL, { max: 1, onnotice: () => {} });
  try {
    for (const [name, values] of n === undefined ? [] : Object.entries(VALUES_OF)) {
      await session`select set_config(${name}, ${values[n! % values.length]!}, false)`;
    }
    return await rolledBack(session, work);
  } finally {
    await session.end();
  }
}

/** Does work in each of these sessions, and fails unless its result is that of a session without settings. */
async function assertSame(work: (run: Run) => Promise<unknown>): Promise<void> {
  const expected = await inSession(work);
  for (let n = 0; n < SESSIONS; n++) {
    assertEquals(await inSession(work, n), expected, `the values ${n} of VALUES_OF`);
  }
}

/** Two values of each type of Postgres that differ in what a setting may hide. */
const VALUES: [types: string, one: string, other: string][] = [
  ["bigint", "9007199254740993", "9007199254740992"],
  ["bit, bit varying, boolean, character, cid, integer, oid, smallint, xid, xid8", "1", "0"],
  ["box, lseg, path, polygon", "(0.1,0),(1,1)", "(0.10000000000000002,0),(1,1)"],
  ["bytea", "\\x00ff5c", "\\x00ff5c27"],
  ["character varying, name, refcursor, text", "a\\b", "a'b"],
  ["cidr, inet", "10.0.0.0/8", "10.0.0.0/16"],
  ["circle", "<(0.1,0),1>", "<(0.10000000000000002,0),1>"],
  ["date", "2026-02-03", "2026-03-02"],
  ["datemultirange, tsmultirange, tstzmultirange", "{[2026-02-03,)}", "{[2026-03-02,)}"],
  ["daterange, tsrange, tstzrange", "[2026-02-03,2026-03-02)", "[2026-02-03,2026-03-03)"],
  ["double precision", "0.1", "0.10000000000000002"],
  ["int4multirange, int8multirange", "{[1,2)}", "{[1,3)}"],
  ["int4range, int8range", "[1,2)", "[1,3)"],
  ["interval", "-1 day +02:03:04", "1 day -02:03:04.000001"],
  ["json", '{"a":1.0}', '{"a": 1.0}'],
  ["jsonb", '{"a":1.0}', '{"a":1.00}'],
  ["jsonpath", "$.a", '$."b c"'],
  ["line", "{0.1,2,3}", "{0.10000000000000002,2,3}"],
  ["macaddr, macaddr8", "08:00:2b:01:02:03", "08:00:2b:01:02:04"],
  ["money", "1234567.89", "-1234567.89"],
  ["numeric", "1234567.0", "1234567.00"],
  ["nummultirange", "{[1.0,2)}", "{[1.00,2)}"],
  ["numrange", "[1.0,2)", "[1.00,2)"],
  ["pg_lsn", "0/1", "0/2"],
  ["pg_snapshot, txid_snapshot", "1:2:", "1:3:"],
  ["point", "(0.1,0)", "(0.10000000000000002,0)"],
  ["real", "123456.8", "123457"],
  ["regclass", "audit_log.actions", "audit_log_private.seals"],
  ["regcollation", '"C"', '"POSIX"'],
  ["regconfig", "simple", "english"],
  ["regdictionary", "simple", "english_stem"],
  ["regnamespace", "audit_log", "auth"],
  ["regoper", "||/", "|/"],
  ["regoperator", "+(integer,integer)", "+(bigint,bigint)"],
  ["regproc", "audit_log.read_entry", "audit_log_private.read_entry"],
  ["regprocedure", "audit_log.list_actions(uuid)", "audit_log_private.list_actions(uuid)"],
  ["regrole", "postgres", "anon"],
  ["regtype", "audit_log.page_query", "audit_log_private.reading"],
  ["tid", "(0,1)", "(0,2)"],
  ["time with time zone, time without time zone", "12:00:00.000001+09", "12:00+09"],
  ["timestamp with time zone", "2026-02-03 23:00:00.000001Z", "2026-02-03 23:00Z"],
  ["timestamp without time zone", "2026-02-03 23:00:00.000001", "2026-02-03 23:00"],
  ["tsquery", "'a' & 'b'", "'a' | 'b'"],
  ["tsvector", "'a':1", "'a':2"],
  ["uuid", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"],
  ["xml", "<a>0</a>", "<a>1</a>"],
];
const VALUES_OF_TYPE = new Map(
  VALUES.flatMap(([types, ...values]) => types.split(", ").map((type) => [type, values] as const)),
);
/** They have no values that a column can be given. aclitem names roles. */
const WITHOUT_VALUES = ["aclitem", "gtsvector"];

/** The types of Postgres that columns may have. */
const TYPES = (await sql`
  select format_type(t.oid, null) as name from pg_type t
  where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'r', 'm') and t.typcategory not in ('A', 'Z')
  order by 1`).map(({ name }) => String(name)).filter((name) => !WITHOUT_VALUES.includes(name));

/** Some columns at a time, because an entry has room for so many values. */
const TABLES = Object.entries(Object.groupBy(TYPES, (_, n) => `types_${Math.floor(n / 8)}`))
  .map(([table, types = []]) => ({ table, types }));

const ORGANIZATION = crypto.randomUUID();

/** What each call of log_table is given. */
const LOGGED = "on_failure => 'refuse', organization => 'team', on_update => 'agent_added'";

/** A table with a column of each type, one of its arrays, and one of a composite of it; and rows to write. */
function tableOf({ table, types }: typeof TABLES[number]): string {
  const columns = types.flatMap((type, n) => [
    `c${n} ${type}`,
    `a${n} ${type}[]`,
    `r${n} settings.${table}_${n}`,
  ]);
  const row = (which: 0 | 1) =>
    types.map((type, n) => {
      const literal = `${postgresText(VALUES_OF_TYPE.get(type)?.[which])}::${type}`;
      return `${literal}, array[${literal}], row(${literal})::settings.${table}_${n}`;
    }).join(", ");
  const names = columns.map((column) => column.split(" ")[0]).join(", ");
  return `
    ${types.map((type, n) => `create type settings.${table}_${n} as (value ${type});`).join("")}
    create table settings.${table} (id integer primary key, team uuid default '${ORGANIZATION}', ${
    columns.join(", ")
  });
    create table settings.${table}_given (like settings.${table} including defaults);
    insert into settings.${table}_given values
      (1, default, ${row(0)}), (2, default, ${row(1)});
    select audit_log_private.log_table('settings.${table}', ${LOGGED}, agent_name => 'c0', on_insert => 'agent_added',
      on_delete => 'agent_added', data => '${names}', changes => '${names}')`;
}

function postgresText(value: string | undefined): string {
  if (value === undefined) throw new Error("a type has no values: add them to VALUES");
  return `'${value.replaceAll("'", "''")}'`;
}

/** Reads what a transaction has written, as text. The settings of its session are those of the server again. */
async function written(run: Run): Promise<{ name: string; data: string }[]> {
  await run`reset all`;
  const rows = await run<{ name: string; data: string }[]>`
    select e.agent_name as name, e.data::text as data from audit_log.audit_entries e
    where e.transaction_id = audit_log_private.transaction_number() order by e.created_at, e.id`;
  return [...rows];
}

describe("a logged table", () => {
  beforeAll(async () => {
    await sql.unsafe(`
      create schema settings; ${TABLES.map(tableOf).join(";")};
      create table settings.keyed (
        a double precision, b real, c timestamptz, d bytea, e interval, f money, title text,
        team uuid default '${ORGANIZATION}', primary key (a, b, c, d, e, f)
      );
      select audit_log_private.log_table('settings.keyed', ${LOGGED}, agent_name => 'title', changes => 'title');
      insert into settings.keyed values
        (0.1, 123456.8, '2026-01-01Z', '\\x01', '1 day', 1, 'one'),
        (0.10000000000000002, 123456.8, '2026-01-01Z', '\\x01', '1 day', 1, 'two')`);
  });
  afterAll(async () => {
    for (const { table } of [...TABLES, { table: "keyed" }]) {
      await sql`select audit_log_private.unlog_table(${`settings.${table}`})`;
    }
    await sql`drop schema settings cascade`;
  });

  it("has the same entries whatever its writer has set, and one for each value that changes", async () => {
    const columns = TABLES.map(({ types }) => types.length * 3);
    const changes = async (run: Run) => {
      for (const { table } of TABLES) {
        const names = (await run`
          select attname as name from pg_attribute
          where attrelid = ${`settings.${table}`}::regclass and attnum > 2`)
          .map(({ name }) => name).join(", ");
        await run.unsafe(`
          insert into settings.${table} select * from settings.${table}_given where id = 1;
          update settings.${table} t set (${names}) = (
            select ${names} from settings.${table}_given g where g.id = 2
          ) where t.id = 1;
          delete from settings.${table} where id = 1`);
      }
      return await written(run);
    };
    await assertSame(changes);
    const updates = (await inSession(changes)).filter((_, n) => n % 3 === 1);
    for (const [n, { data }] of updates.entries()) {
      const values = await sql`
        select value ->> 0 as old, value ->> 1 as present from jsonb_each(${data}::text::jsonb -> 'changes')`;
      assertEquals(values.length, columns[n]);
      for (const { old, present } of values) assertNotEquals(old, present);
    }
  });

  it("never pairs two rows, however alike their keys look", async () => {
    await assertSame(async (run) => {
      await run`update settings.keyed set title = title || '!'`;
      // The entries of a statement have no order.
      const entries = (await written(run)).toSorted((a, b) => a.data < b.data ? -1 : 1);
      assertEquals(entries.map(({ data }) => JSON.parse(data).changes), [
        { title: ["one", "one!"] },
        { title: ["two", "two!"] },
      ]);
      return entries;
    });
  });

  it("of ids and texts has the same entries without settings, which cost its writers time; not if a value may need them", async () => {
    const settings = async (run: Run, given: string) => {
      await run.unsafe(`
        select audit_log_private.log_table('settings.plain', ${LOGGED}, on_insert => 'agent_added', ${given})`);
      return await valueOf<number>(run`
        select cardinality(p.proconfig) from pg_proc p join audit_log_private.logged_tables() l on l.trigger_function = p.oid
        where l.logged = 'settings.plain'::regclass`);
    };
    const table = `
      create function settings.facts(r jsonb) returns jsonb language sql as $$
        select r || jsonb_build_object('text', (r ->> 'at')::timestamptz::text, 'local', now()::date::text)
      $$;
      create domain settings.size as numeric;
      create table settings.plain (
        id integer primary key, team uuid default '${ORGANIZATION}', title varchar(40), size settings.size, flag boolean,
        other uuid, extra jsonb, at timestamptz, weight real, sizes numeric[]
      )`;
    await inSession(async (run) => {
      await run.unsafe(table);
      const plain = "data => 'id, size as s, flag, other, extra', changes => 'title, size'";
      assertEquals(await settings(run, plain), 2);
      const depending = [
        "agent_name => 'at'",
        "person => 'weight'",
        "data => 'id, at'",
        "changes => 'sizes'",
        "computed => 'settings.facts'",
      ];
      for (const depends of depending) assertEquals(await settings(run, depends), 11, depends);
    });
    await assertSame(async (run) => {
      await run.unsafe(table);
      const given =
        "data => 'at, text, local, weight', changes => 'text, sizes', computed => 'settings.facts'";
      await settings(run, given);
      await run.unsafe(`
        insert into settings.plain values
          (1, default, 'x', 1.50, true, null, '{}', '2026-02-03 12:00Z', 123456.8, '{1.50}');
        update settings.plain set at = '2026-03-02 12:00Z', sizes = null`);
      return await written(run);
    });
  });

  it("has the same functions whatever was set when log_table was called", async () => {
    await assertSame(async (run) => {
      await run`
        select audit_log_private.log_table('settings.keyed', on_failure => 'refuse', organization => 'title',
          agent_name => 'a', on_insert => 'agent_added', on_update => 'agent_added', data => E'b as "\\\\''", c',
          changes => 'd, title as "Ti''tle"')`;
      await run`reset all`;
      return await valueOf(run`
        select array_agg(pg_get_functiondef(p.oid) order by p.oid::regprocedure::text) from pg_proc p
        where p.oid = any (array(select l.trigger_function from audit_log_private.logged_tables() l))
          or p.proname like 'logged%' and p.pronargs = 1`);
    });
  });
});

type Parameter = Record<"name" | "type", string>;

const FUNCTIONS = await sql<{ name: string; isForPeople: boolean; parameters: Parameter[] }[]>`
  select p.proname as name, has_function_privilege('authenticated', p.oid, 'execute') as "isForPeople", (
    select coalesce(json_agg(json_build_object('name', p.proargnames[n], 'type', type::regtype::text) order by n), '[]')
    from unnest(p.proargtypes::oid[]) with ordinality as a (type, n)
  ) as parameters
  from pg_proc p where p.pronamespace = 'audit_log'::regnamespace and p.prorettype <> 'trigger'::regtype
  order by 1`;

const YEAR = new Date().getUTCFullYear();

/** Makes a stream whose batch is on its way, and one that is due. All others pause. */
async function addStreams({ organization_id, stream_id, lease }: Record<string, string>) {
  await sql`update audit_log_private.stream_home set project_url = null`;
  await sql`update audit_log_private.streams set paused_at = now() where paused_at is null`;
  await sql`
    insert into audit_log_private.streams (
      organization_id, id, name, destination, includes_seals, test_asked_at, lease, leased_until, batch_what,
      batch_entries, next_seal
    )
    select ${organization_id!}, s.id, s.id, '{"kind": "webhook"}', true, null, s.lease, s.until, 'entries', 1, 0
    from (values (${stream_id!}::uuid, ${lease!}::uuid, 'infinity'::timestamptz), (gen_random_uuid(), null, null))
      as s (id, lease, until)`;
}

/** Neither a time without a zone nor a day depends on the session. */
const QUERY = {
  ...{ start_date: "2020-03-01", end_date: "2020-03-31", page_limit: 100, page_offset: 0 },
  ...{ since: "2020-03-01 02:00", until: "2020-03-01T22:00:00", actions: ["message_created"] },
};
/** It gives all times with a zone. */
const EDGE_FUNCTION_TIMES = { since: "2020-03-01T02:00:00Z", until: "2020-03-01T22:00:00.5+01:00" };

describe("a function that people or the platform call", () => {
  const given: Record<string, unknown> = {
    query: QUERY,
    start_date: "2020-03-01",
    end_date: `${YEAR + 1}-12-31`,
    created_at: "2020-03-01 12:00",
    id: crypto.randomUUID(),
    expires_at: `${YEAR + 2}-07-01 12:00`,
    name: "a name",
    successor_id: crypto.randomUUID(),
    overlap: "1 day 02:00",
    prefix: "ada",
    person: "ada",
    revoke: true,
    resource: "entries",
    client_address: "10.0.0.1",
    stream: { name: "SIEM", destination: { kind: "webhook", url: "https://siem.example.com" } },
    change: { actions: ["agent_added"] },
    stream_id: crypto.randomUUID(),
    start: "2020-03-01 12:00",
    test: true,
    project_url: "https://project.example.com",
    lease: crypto.randomUUID(),
    outcome: { decision: "delivered", rejected: [], ms: 7 },
    limits: { seconds: 40, bytes: 900_000, entries: {} },
    with_troubled: true,
    wants_more: true,
    most: 1,
  };

  beforeAll(async () => {
    const organization = await addOrganization(sql);
    const [other] = await addKeys(sql, organization.id, 1);
    await sql`update audit_log.organizations set logs_key_events = true where id = ${organization.id}`;
    given["organization_id"] = organization.id;
    given["api_key_id"] = organization.apiKeyId;
    given["token_hash"] = await valueOf(sql`
      select encode(token_hash, 'hex') from audit_log_private.api_key_hashes where api_key_id = ${organization.apiKeyId}`);
    given["entries"] = [{
      organization: organization.id,
      id: crypto.randomUUID(),
      created_at: "2020-03-02 23:30",
      action: "agent_added",
      agent_name: "1",
    }];
    await sql`
      insert into audit_log.organization_members (organization_id, user_id, role) values (${organization.id}, 'ada', 'admin')`;
    await writeEntries(organization.id, [
      { id: String(given["id"]), created_at: "2020-03-01T12:00:00Z" },
      { id: crypto.randomUUID(), created_at: "2020-03-01T23:00:00Z" },
    ]);
    await sql`select audit_log_private.seal_day(${organization.id}, '2020-03-01')`;
    await sql`update audit_log.organizations set hold_reason = 'a reason' where id = ${organization.id}`;
    if (HAS_STREAMS) await addStreams(given as Record<string, string>);
    // A lifetime from winter to summer.
    const [created, expires] = [`${YEAR - 1}-01-01Z`, `${YEAR + 1}-07-01Z`];
    await sql`
      update audit_log_private.api_keys
      set created_at = ${created}, expires_at = ${expires}, created_by = 'ada',
        revoked_at = case id when ${other?.apiKeyId ?? ""} then ${created}::text::timestamptz end
      where organization_id = ${organization.id}`;
    await sql`
      update audit_log_private.rate_limits
      set day = '2020-07-01', requests = 1, counted_at = array['2020-07-01Z'::timestamptz], first_at = '2020-07-01Z', last_at = '2020-07-01Z'
      where organization_id = ${organization.id}`;
  });

  for (const { name, isForPeople, parameters } of FUNCTIONS) {
    it(`answers and writes the same whatever is set: ${name}`, async () => {
      const values = Object.fromEntries(parameters.map(({ name }) => {
        if (!(name in given)) throw new Error(`${name} is new: say in this test what it is given`);
        return [name, given[name]];
      }));
      if (name === "create_api_key") values["api_key_id"] = crypto.randomUUID();
      if (name === "public_audit_log") values["query"] = { ...QUERY, ...EDGE_FUNCTION_TIMES };
      // As the Data API calls it: it reads each parameter out of the request's JSON.
      const columns = parameters.map(({ name, type }) => `"${name}" ${type}`).join(", ");
      const named = parameters.map(({ name }) => `"${name}" => b."${name}"`).join(", ");
      const body = `json_to_record($1::text::json) as b (${columns})`;
      const call = `select audit_log.${name}(${named})::text${columns && ` from ${body}`}`;
      const id = String(given["organization_id"]);
      await assertSame(async (run) => {
        if (isForPeople) await actAs(run, { sub: "ada", email: "ada@example.com" });
        else {
          const headers = JSON.stringify({ "x-audit-person": "ad%C3%A1%5Cx41@example.com" });
          await run`select set_config('request.headers', ${headers}, true)`;
          await run`set local role service_role`;
        }
        const answer = await valueOf(run.unsafe(call, columns ? [JSON.stringify(values)] : []));
        await run`reset role`;
        return [
          withoutChance(String(answer)),
          withoutChance(JSON.stringify(await written(run))),
          // What was given is a whole hour. What is counted from now on is so many hours later.
          ...await run`
            select round(extract(epoch from expires_at - case
              when extract(epoch from expires_at) % 3600 = 0 then 'epoch' else now()
            end) / 3600)::text as hours
            from audit_log_private.api_keys where organization_id = ${id} order by 1`,
          ...await run`
            select extract(epoch from created_at)::text as created_at
            from audit_log.audit_entries where organization_id = ${id} and created_at < now() order by 1`,
        ];
      });
    });
  }

  it("answers the operator the same: health()", async () => {
    await assertSame(async (run) =>
      withoutChance(await valueOf<string>(run`select audit_log_private.health()::text`))
    );
  });
});

/** Leaves out tokens, new ids, and the times of now up to their zone. */
function withoutChance(text: string): string {
  return text.replaceAll(/pck_\w+(…\w+)?/g, "pck")
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?!000Z)\d+/g, "now")
    .replaceAll(/"(id|lease|stream_id)\\?" ?: ?\\?"[^"]+"/g, '"$1"');
}

/** Strings of SQL with escapes, which mean the same everywhere, and comments. */
const ESCAPES = /--.*|\bE'(?:[^'\\]|\\.|'')*'(?:\s*\n\s*'(?:[^'\\]|\\.|'')*')*/g;

it("no function has a plain string with a backslash, whose meaning depends on standard_conforming_strings", async () => {
  const functions = await sql`
    select p.oid::regprocedure::text as name, p.prosrc as source from pg_proc p
    where p.pronamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)`;
  const found = functions.filter(({ source }) => /\\|U&'/.test(source.replaceAll(ESCAPES, "")));
  assertEquals(found.map(({ name }) => name), []);
});
