import { assert, assertEquals, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../local/free_port.ts";
import { runProgram } from "../run_program.ts";
import { findPostgres } from "./find_postgres.ts";
import {
  databaseUrl,
  majorVersion,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../../local/postgres.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";

const [original, other] = [await startTemporaryStack(), await startTemporaryStack()];
afterAll(async () => {
  // A failed test may have left a session reserved.
  await sql.end({ timeout: 5 });
  await Promise.all([original, other].map((stack) => stack[Symbol.asyncDispose]()));
});

/** Connections to the original. Cut ones are made anew. */
const sql = connect(original.postgres);

/** A cluster under test: its connections, and what its end needs. */
interface Cluster extends AsyncDisposable {
  sql: postgres.Sql;
  options: PostgresOptions;
}

function connect({ port, adminPassword }: PostgresOptions, database = "postgres"): postgres.Sql {
  const url = databaseUrl(port, "supabase_admin", adminPassword);
  return postgres(url, { database, onnotice: () => {} });
}

/** Asks the feed; null when the cursor is refused, which the API answers with 400. */
async function read(sql: postgres.Sql, id: string, after: string) {
  const [row] = await sql`
    select page::json from audit_log_private.read_feed(
      ${id}, ('0001-01-01', '9999-12-31', null, null, 1000, null, null, ${after}::text)::audit_log.page_query
    )`;
  if (!row?.["page"]) return null;
  const { items, next, total }: Page = row["page"];
  return { names: items.map((item) => item.agent_name).toSorted(), next, total };
}

interface Page {
  items: { agent_name: string }[];
  next: string;
  total: number;
}

/** The cursor after all there is. */
async function cursorOf(sql: postgres.Sql, id: string): Promise<string> {
  return (await read(sql, id, "beginning"))?.next ?? "";
}

async function write(sql: postgres.ISql, id: string, ...names: string[]): Promise<void> {
  for (const name of names) {
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
      values (${id}, 'agent_added', 'ada@example.com', ${name})`;
  }
}

async function newOrganization(sql: postgres.Sql): Promise<string> {
  const [row] =
    await sql`insert into audit_log.organizations (name) values ('Restored') returning id`;
  return row?.["id"];
}

/** Asserts that a reader who begins anew is given all there is once, then what is new once. */
async function assertExact(sql: postgres.Sql, id: string, names: string[]): Promise<void> {
  const all = await read(sql, id, "beginning");
  assertEquals([all?.names, all?.total], [names, names.length]);
  await write(sql, id, "new 1", "new 2");
  const then = await read(sql, id, all?.next ?? "");
  assertEquals(then?.names, ["new 1", "new 2"]);
  assertEquals((await read(sql, id, then?.next ?? ""))?.names, []);
}

/** Adopts a restored log; the number of the epoch that begins. */
async function adopt(sql: postgres.ISql): Promise<number> {
  const [row] = await sql`select audit_log_private.adopt_restored_log()::int as epoch`;
  assertEquals(row?.["epoch"], await epochOf(sql));
  return row?.["epoch"];
}

async function epochOf(sql: postgres.ISql): Promise<number> {
  const [row] = await sql`select audit_log_private.log_epoch()::int as epoch`;
  return row?.["epoch"];
}

/** Copies the rows of all tables of the original, without their triggers, as pg_restore does. */
async function copyRows(to: postgres.Sql): Promise<void> {
  const tables = await sql<{ name: string; columns: string }[]>`
    select a.attrelid::regclass::text as name, string_agg(quote_ident(a.attname), ', ') as columns
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private')
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    group by a.attrelid`;
  const session = await to.reserve();
  await session`set session_replication_role = replica`;
  for (const { name, columns } of tables) {
    const rows = await sql.unsafe(`select row_to_json(t)::text as row from ${name} as t`);
    await session.unsafe(`delete from ${name}`);
    for (const { row } of rows) {
      await session.unsafe(
        `insert into ${name} (${columns}) select ${columns} from json_populate_record(null::${name}, $1::text::json)`,
        [row],
      );
    }
  }
  await session`set session_replication_role = origin`;
  session.release();
}

/** Copies the folder of a cluster. */
async function copyFolder(from: string): Promise<string> {
  const to = await Deno.makeTempDir({ prefix: "public_audit_log_restored_" });
  const { success, stderr } = await new Deno.Command("cp", { args: ["-a", `${from}/.`, to] })
    .output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  await Deno.remove(join(to, "postmaster.pid")).catch(() => {});
  return to;
}

/** Starts a cluster from a copied folder. */
async function startCopy(dataDir: string): Promise<Cluster> {
  const options = { ...original.postgres, dataDir, port: freePort() };
  await startPostgres(options);
  const sql = connect(options);
  return {
    sql,
    options,
    async [Symbol.asyncDispose]() {
      // A failed test may have left a session reserved.
      await sql.end({ timeout: 5 });
      await stopPostgres(dataDir, "immediate");
      await Deno.remove(dataDir, { recursive: true });
    },
  };
}

/** Takes a copy of the original while it is stopped. */
async function snapshot(): Promise<string> {
  await stopPostgres(original.postgres.dataDir);
  const dataDir = await copyFolder(original.postgres.dataDir);
  await startPostgres(original.postgres);
  return dataDir;
}

/** Takes a copy of the original while it runs. */
async function baseBackup(): Promise<string> {
  const session = await sql.reserve();
  await session`select pg_backup_start('test', true)`;
  const dataDir = await copyFolder(original.postgres.dataDir);
  const [stopped] = await session`select labelfile from pg_backup_stop(false)`;
  await Deno.writeTextFile(join(dataDir, "backup_label"), stopped?.["labelfile"]);
  session.release();
  return dataDir;
}

/** Starts a copy that reads on in the original's log of changes: until told, or until it is promoted. */
async function recover(dataDir: string, signal: "recovery" | "standby", settings = "") {
  const walDir = join(original.postgres.dataDir, "pg_wal");
  await Deno.writeTextFile(
    join(dataDir, "postgresql.auto.conf"),
    `\nrestore_command = 'cp "${walDir}/%f" "%p"'\n${settings}`,
    { append: true },
  );
  await Deno.writeTextFile(join(dataDir, `${signal}.signal`), "");
  return await startCopy(dataDir);
}

/** Asserts that a database refuses to be followed until it is adopted or promoted. */
async function assertNotFollowed(sql: postgres.Sql, id: string, cursor: string): Promise<void> {
  for (const after of ["beginning", cursor]) {
    const error = await assertRejects(() => read(sql, id, after), postgres.PostgresError);
    assertEquals(error.code, "55000");
  }
}

describe("after a restore, old cursors are refused and nothing is skipped or repeated:", () => {
  it("a dump into another cluster, whose transactions are fewer", async () => {
    const to = connect(other.postgres);
    await sql`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
    const id = await newOrganization(sql);
    await write(sql, id, "a", "b");
    const cursor = await cursorOf(sql, id);
    await write(sql, id, "c");

    await copyRows(to);
    await assertNotFollowed(to, id, cursor);
    assertEquals(await adopt(to), 1);
    assertEquals(await read(to, id, cursor), null);
    await assertExact(to, id, ["a", "b", "c"]);
    // The original goes on.
    assertEquals((await read(sql, id, cursor))?.names, ["c"]);
    await to.end();
  });

  it("the rows alone into a database that has its own keys of cursors", async () => {
    const sql = connect(other.postgres);
    const id = await newOrganization(sql);
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, transaction_id)
      values (${id}, 'agent_added', 'ada@example.com', 'a',
        ((audit_log_private.log_epoch() << 40) + 123456789012)::text::xid8)`;
    assertEquals((await read(sql, id, "beginning"))?.names, []);
    await adopt(sql);
    await assertExact(sql, id, ["a"]);
    await sql.end();
  });

  it("rows of a higher epoch than the database's own, of which only the seals tell", async () => {
    const sql = connect(other.postgres);
    const epoch = await epochOf(sql);
    const [withEntries, withSeals] = [await newOrganization(sql), await newOrganization(sql)];
    // As its numbers were in the epochs 7 and 12 of another database.
    const [seven, twelve] = [7n, 12n].map((n) => String(((BigInt(epoch) + n) << 40n) + 123_456n));
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, transaction_id)
      values (${withEntries}, 'agent_added', 'ada@example.com', 'a', ${seven ?? ""})`;
    await sql`
      insert into audit_log_private.seals
        (organization_id, sequence, format, day, entries, added, removed, sha256, sealed_at, previous, seal, snapshot, removed_before)
      select ${withSeals}, 1, 1, '2026-03-01', 1, 0, 0, zeros, now(), zeros, zeros, ${`${twelve}:${twelve}:`}, 0
      from repeat('0', 64) as zeros`;
    assertEquals((await read(sql, withEntries, "beginning"))?.names, []);
    assertEquals(await adopt(sql), epoch + 13);
    await assertExact(sql, withEntries, ["a"]);
    await assertExact(sql, withSeals, []);
    // Twice is once more.
    const cursor = await cursorOf(sql, withEntries);
    assertEquals(await adopt(sql), epoch + 14);
    assertEquals(await read(sql, withEntries, cursor), null);
    const { names, next } = await read(sql, withEntries, "beginning") ?? {};
    assertEquals(names, ["a", "new 1", "new 2"]);
    await write(sql, withEntries, "new 3");
    assertEquals((await read(sql, withEntries, next ?? ""))?.names, ["new 3"]);
    await sql.end();
  });

  it("a disk snapshot, once it is adopted", async () => {
    const id = await newOrganization(sql);
    await write(sql, id, "a");
    const dataDir = await snapshot();
    await write(sql, id, "lost 1", "lost 2");
    const cursor = await cursorOf(sql, id);

    await using copy = await startCopy(dataDir);
    await write(copy.sql, id, "b");
    // Nothing tells it from the original, and the numbers are used again.
    assertEquals((await read(copy.sql, id, cursor))?.names, []);
    await adopt(copy.sql);
    assertEquals(await read(copy.sql, id, cursor), null);
    await assertExact(copy.sql, id, ["a", "b"]);
  });

  it("a point in time, after which the transactions' numbers are used again", async () => {
    const id = await newOrganization(sql);
    const dataDir = await baseBackup();
    await write(sql, id, "a");
    await sql`select pg_create_restore_point(${id})`;
    await write(sql, id, "lost 1", "lost 2");
    const cursor = await cursorOf(sql, id);
    await sql`select pg_switch_wal()`;

    const target = `recovery_target_name = '${id}'\nrecovery_target_action = 'promote'\n`;
    await using copy = await recover(dataDir, "recovery", target);
    await promoted(copy.sql);
    await write(copy.sql, id, "b", "c");
    assertEquals(await read(copy.sql, id, cursor), null);
    await assertExact(copy.sql, id, ["a", "b", "c"]);
    // And as every restore ends.
    await adopt(copy.sql);
    const names = ["a", "b", "c", "new 1", "new 2"];
    assertEquals((await read(copy.sql, id, "beginning"))?.names, names);
  });

  it("a standby that is promoted; before that, it refuses to be followed", async () => {
    const id = await newOrganization(sql);
    await write(sql, id, "a");
    const cursor = await cursorOf(sql, id);
    const dataDir = await baseBackup();
    await write(sql, id, "b");
    await sql`select pg_switch_wal()`;

    await using copy = await recover(dataDir, "standby");
    await assertNotFollowed(copy.sql, id, cursor);
    await copy.sql`select pg_promote()`;
    await promoted(copy.sql);
    assertEquals(await read(copy.sql, id, cursor), null);
    await assertExact(copy.sql, id, ["a", "b"]);
  });

  it("a copy of the database within its cluster", async () => {
    const dataDir = await snapshot();
    await using copy = await startCopy(dataDir);
    const id = await newOrganization(copy.sql);
    await write(copy.sql, id, "a");
    await copy.sql.end();
    const neither = connect(copy.options, "template1");
    await neither`create database twin template postgres`;
    await neither.end();

    const [sql, twin] = [connect(copy.options), connect(copy.options, "twin")];
    await write(twin, id, "b");
    const cursor = await cursorOf(sql, id);
    assertEquals(await read(twin, id, cursor), null);
    await assertExact(twin, id, ["a", "b"]);
    await Promise.all([sql.end(), twin.end()]);
  });
});

describe("adopting a restored log", () => {
  it("lets readers read meanwhile, and writers wait, who write in the new epoch then", async () => {
    const id = await newOrganization(sql);
    const get = await asReader(sql, id);
    const writer = await sql.reserve();
    const adopter = await sql.reserve();
    const [{ pid }] = await adopter<[{ pid: number }]>`select pg_backend_pid() as pid`;
    await writer`set role service_role`;
    // So often that the session keeps the plan of its insert.
    const names = Array.from({ length: 7 }, (_, n) => `${n}`);
    await write(writer, id, ...names);
    const before = await get("after=beginning");

    await adopter`begin`;
    const epoch = await adopt(adopter);
    const written = write(writer, id, "waited");
    await somebodyWaitsFor(pid);
    for (const query of ["limit=100", "after=beginning", `after=${before.after}`]) {
      const { status } = await get(query);
      assertEquals(status, 200, query);
    }
    await adopter`commit`;
    await written;

    assertEquals((await get(`after=${before.after}`)).status, 400);
    const [row] = await sql`
      select transaction_id::text::bigint >> 40 as epoch from audit_log.audit_entries
      where organization_id = ${id} and agent_name = 'waited'`;
    assertEquals(Number(row?.["epoch"]), epoch);
    await assertExact(sql, id, [...names, "waited"]);
    await writer`reset role`;
    writer.release();
    adopter.release();
  });

  it("leaves seals as they were: late entries are declared, silent changes found, and the chain goes on", async () => {
    const to = connect(other.postgres);
    // Numbers that the other place has not reached.
    await sql`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
    const id = await newOrganization(sql);
    await writeOn(sql, id, "2026-03-01", 3);
    await writeOn(sql, id, "2026-03-02", 3);
    await runUpkeep(sql);
    // One that its day's seal has not seen.
    await writeOn(sql, id, "2026-03-01", 1);
    await sql.begin(async (transaction) => {
      await transaction`set local session_replication_role = replica`;
      await transaction`
        update audit_log.audit_entries set agent_name = 'changed'
        where organization_id = ${id} and created_at >= '2026-03-02Z'`;
    });
    await copyRows(to);

    await adopt(to);
    await writeOn(to, id, "2026-03-01", 1);
    await scrub(to, id);
    const days = ["1 2026-03-01 3 0 0", "2 2026-03-02 3 0 0", "3 2026-03-01 5 2 0"];
    assertEquals(await chainOf(to, id), { days, altered: ["2026-03-02"] });
    // Seals of one epoch are read in the next.
    await adopt(to);
    await scrub(to, id);
    assertEquals(await chainOf(to, id), { days, altered: ["2026-03-02"] });
    await writeOn(to, id, "2026-03-01", 1);
    await scrub(to, id);
    days.push("4 2026-03-01 6 1 0");
    assertEquals(await chainOf(to, id), { days, altered: ["2026-03-02"] });
    await to.end();
  });

  it("touches no entry and reads no table of entries or seals, without statistics too", async () => {
    const tables = ["audit_log.audit_entries", "audit_log_private.seals"];
    await sql`alter table audit_log.audit_entries set (autovacuum_enabled = off)`;
    const organizations = 200;
    const ids = Array.from({ length: organizations }, () => crypto.randomUUID());
    await sql`
      insert into audit_log.organizations (id, name) select id, 'Restored' from unnest(${ids}::uuid[]) as id`;
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select id, timestamptz '2026-03-01Z' + n * interval '1 minute', 'agent_added', 'ada@example.com', 'many'
      from unnest(${ids}::uuid[]) as id, generate_series(1, 500) as n`;
    await runUpkeep(sql);
    const [all] = await sql`select count(*)::int as count from audit_log.organizations`;
    const places = async () => {
      const [row] = await sql`
        select count(*)::int as entries, sum(hashtext(ctid::text || xmin::text)::bigint)::text as hash
        from audit_log.audit_entries`;
      return row;
    };
    const before = await places();
    assert(before?.["entries"] > 100_000);
    // 0: an empty table; -1: one that has not been counted yet.
    for (const known of [0, -1]) {
      await sql`update pg_class set reltuples = ${known} where oid = any (${tables}::regclass[])`;
      // A backend whose statistics have nothing of what was done before.
      const fresh = connect(original.postgres);
      await fresh.begin(async (transaction) => {
        await adopt(transaction);
        const used = await transaction`
          select seq_tup_read::int as read, idx_tup_fetch::int as fetched, (n_tup_ins + n_tup_upd + n_tup_del)::int as changed
          from pg_stat_xact_user_tables where relid = any (${tables}::regclass[]) order by relid`;
        for (const { read, fetched, changed } of used) {
          assertEquals([read, changed], [0, 0]);
          assert(fetched <= all?.["count"], `${fetched} rows were read`);
        }
      });
      await fresh.end();
    }
    assertEquals(await places(), before);
    await sql`alter table audit_log.audit_entries reset (autovacuum_enabled)`;
  });
});

describe("after a crash", () => {
  it("all that readers were shown is there, though its writers did not wait for the disk", async () => {
    const id = await newOrganization(sql);
    const get = await asReader(sql, id);
    // Not even requests wait, unless they ask to.
    await sql`alter system set synchronous_commit = off`;
    await sql`alter system set wal_writer_delay = '10s'`;
    await sql`select pg_reload_conf()`;
    const writer = await sql.reserve();

    await write(writer, id, "shown to an administrator");
    const [written] = await sql`select pg_current_wal_insert_lsn() as place`;
    await readAsAdministrator(sql, id);
    const [flushed] = await sql`
      select pg_current_wal_flush_lsn() >= ${written?.["place"]}::text::pg_lsn as "isOnDisk"`;
    assertEquals(flushed?.["isOnDisk"], true);

    const twenty = (name: string) => Array.from({ length: 20 }, (_, n) => `${name} ${n}`);
    for (let round = 0; round < 3; round++) {
      await write(writer, id, ...twenty(`shown ${round}`));
      const shown = await get("limit=1000&after=beginning");
      assertEquals(shown.names.filter((name) => name.startsWith(`shown ${round}`)).length, 20);
      await write(writer, id, ...twenty(`not shown ${round}`));
    }
    const last = await get("limit=1000&after=beginning");
    await write(writer, id, ...twenty("lost"));
    const pids = await sql<{ pid: number }[]>`select pid from pg_stat_activity`;
    const pidFile = join(original.postgres.dataDir, "postmaster.pid");
    for (const pid of [parseInt(await Deno.readTextFile(pidFile)), ...pids.map(({ pid }) => pid)]) {
      Deno.kill(pid, "SIGKILL");
    }
    await Deno.remove(pidFile);
    await startPostgres(original.postgres);

    const all = await read(sql, id, "beginning");
    assertEquals(last.names.filter((name) => !all?.names.includes(name)), []);
    const lost = 20 - (all?.names.filter((name) => name.startsWith("lost")).length ?? 0);
    assert(lost > 0, "the crash lost nothing: the test says nothing");
    // Their transactions' numbers are used again.
    await write(sql, id, "new 1", "new 2");
    // The Data API takes seconds to notice that its connections were cut, and tells nobody when it is back.
    const deadline = Date.now() + 30_000;
    let answer = await get(`limit=1000&after=${last.after}`);
    while (answer.status === 500 && Date.now() < deadline) {
      answer = await get(`limit=1000&after=${last.after}`);
    }
    const { status, names } = answer;
    assertEquals(status, 200);
    assertEquals(names.filter((name) => !name.startsWith("lost")), ["new 1", "new 2"]);
  });
});

/** Makes an API key, and a function that asks the original for all days with it. */
async function asReader(sql: postgres.Sql, id: string) {
  const [key] =
    await sql`select audit_log_private.insert_api_key(${id}, 'reader') ->> 'token' as token`;
  const headers = { Authorization: `Bearer ${key?.["token"]}` };
  const url = `${original.apiUrl}/functions/v1/public-audit-log?start=2000-01-01&end=9999-12-31`;
  return async (query: string) => {
    const response = await fetch(`${url}&${query}`, { headers });
    const { items = [] }: { items?: { agent_name: string }[] } = await response.json();
    const after = response.headers.get("Link")?.match(/after=([^>&]+)/)?.[1] ?? "";
    return { status: response.status, names: items.map((item) => item.agent_name), after };
  };
}

async function writeOn(sql: postgres.Sql, id: string, day: string, entries: number) {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, ${`${day}T12:00:00Z`}, 'agent_added', 'ada@example.com', 'sealed'
    from generate_series(1, ${entries}::int)`;
}

async function runUpkeep(sql: postgres.Sql): Promise<void> {
  while ((await sql`select audit_log_private.run_upkeep() as more`)[0]?.["more"]);
}

/** Does the upkeep of a night in which all days of an organization are compared with their seals. */
async function scrub(sql: postgres.Sql, id: string): Promise<void> {
  await sql`
    update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'
    where organization_id = ${id}`;
  await runUpkeep(sql);
}

/** The seals of an organization, each of which must include the one before, and the days that were altered. */
async function chainOf(sql: postgres.Sql, id: string) {
  const seals = await sql`
    select concat_ws(' ', sequence, day, entries, added, removed) as day,
      previous = lag(seal, 1, repeat('0', 64)) over (order by sequence) and seal = encode(sha256(convert_to(concat_ws(
        ' ', format, previous, sequence, day, entries, added, removed, sha256, audit_log_private.api_time(sealed_at)
      ), 'UTF8')), 'hex') as "isChained"
    from audit_log_private.seals where organization_id = ${id} order by sequence`;
  const altered = await sql`
    select day::text from audit_log_private.sealed_days
    where organization_id = ${id} and altered_at is not null order by day`;
  assertEquals(seals.filter(({ isChained }) => !isChained), []);
  return { days: seals.map(({ day }) => day), altered: altered.map(({ day }) => day) };
}

/** Resolves when somebody waits for a lock that a backend holds. */
async function somebodyWaitsFor(pid: number): Promise<void> {
  for (let waits = false; !waits;) {
    const [row] = await sql`
      select exists (select from pg_stat_activity where ${pid} = any (pg_blocking_pids(pid))) as waits`;
    waits = row?.["waits"];
  }
}

/** Asks the feed as a new administrator does, who is no API key. */
async function readAsAdministrator(sql: postgres.Sql, id: string): Promise<void> {
  const sub = crypto.randomUUID();
  await sql`insert into auth.users (id, email) values (${sub}, 'ada@example.com')`;
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role) values (${id}, ${sub}, 'admin')`;
  await sql.begin(async (transaction) => {
    const claims = JSON.stringify({ sub });
    await transaction`select set_config('request.jwt.claims', ${claims}, true)`;
    await transaction`
      select audit_log_private.read_audit_log(
        ${id}, ('2000-01-01', '9999-12-31', null, null, 100, 0, false, 'beginning')::audit_log.page_query
      )`;
  });
}

/** Resolves when the server takes writes. */
async function promoted(sql: postgres.Sql): Promise<void> {
  for (;;) {
    const [row] = await sql`select pg_is_in_recovery() as "isInRecovery"`;
    if (!row?.["isInRecovery"]) return;
  }
}

const version = await majorVersion(Deno.env.get("POSTGRES_PROGRAMS"));
const programs = await findPostgres(version);
if (!programs) console.log(`pg_resetwal is not tried: no whole Postgres ${version} on the PATH`);

describe("a feed gives every entry once, when", () => {
  it("writers use two-phase commit, which holds up nobody but the connection that prepared", async () => {
    const id = await newOrganization(sql);
    const cursor = await cursorOf(sql, id);
    const dataDir = await snapshot();
    const settings = "max_prepared_transactions = 5\n";
    await Deno.writeTextFile(join(dataDir, "postgresql.auto.conf"), settings, { append: true });
    await using copy = await startCopy(dataDir);
    const writer = await copy.sql.reserve();
    await writer`begin`;
    await write(writer, id, "prepared");
    await writer`prepare transaction 'test'`;

    await write(copy.sql, id, "b");
    await copy.sql`select audit_log_private.run_upkeep()`;
    const then = await read(copy.sql, id, cursor);
    assertEquals(then?.names, ["b"]);
    await writer`set lock_timeout = '100ms'`;
    const error = await assertRejects(() => write(writer, id, "c"), postgres.PostgresError);
    assertEquals(error.code, "55P03");
    await writer`commit prepared 'test'`;
    const last = await read(copy.sql, id, then?.next ?? "");
    assertEquals([last?.names, last?.total], [["prepared"], 2]);
    writer.release();
  });

  (programs ? it : it.skip)("pg_resetwal sets their numbers forward, and past 2^32", async () => {
    const id = await newOrganization(sql);
    await write(sql, id, "a");
    let cursor = await cursorOf(sql, id);
    const dataDir = await snapshot();
    // In steps of less than 2^31: Postgres tells no older from newer ones beyond that, unless they are frozen.
    for (const next of [2_000_000_000, 4_000_000_000, 2 ** 32 - 30]) {
      const options = { ...original.postgres, dataDir, port: freePort() };
      await startPostgres(options);
      await freeze(options);
      await stopPostgres(dataDir);
      await resetWal(`${programs}`, dataDir, next);
    }
    await using copy = await startCopy(dataDir);
    assertEquals((await read(copy.sql, id, cursor))?.names, []);
    const names = Array.from({ length: 60 }, (_, n) => `${n + 10}`);
    const seen: string[] = [];
    for (const name of names) {
      await write(copy.sql, id, name);
      const page = await read(copy.sql, id, cursor);
      seen.push(...page?.names ?? []);
      cursor = page?.next ?? "";
    }
    assertEquals(seen, names);
    const [row] = await copy.sql`select pg_current_xact_id()::text::bigint > 2 ^ 32 as is_past`;
    assertEquals(row?.["is_past"], true);
    await assertExact(copy.sql, id, [...names, "a"]);
  });
});

/** Freezes all rows of all databases of a cluster. */
async function freeze(options: PostgresOptions): Promise<void> {
  const databases = connect(options);
  await databases`alter database template0 allow_connections true`;
  for (const { name } of await databases`select datname as name from pg_database`) {
    const database = connect(options, name);
    await database`vacuum (freeze)`;
    await database.end();
  }
  await databases.end();
}

/** Sets the number of the next transaction of a stopped cluster. */
async function resetWal(programs: string, dataDir: string, next: number): Promise<void> {
  // The states of 2^20 transactions are in a file, which must be there.
  const name = Math.floor(next / 2 ** 20).toString(16).toUpperCase().padStart(4, "0");
  const file = join(dataDir, "pg_xact", name);
  if (!await Deno.stat(file).catch(() => null)) await Deno.writeFile(file, new Uint8Array(2 ** 18));
  const { uid, gid } = await Deno.stat(dataDir);
  await Deno.chown(file, uid, gid);
  const user = Deno.uid() === 0
    ? ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"]
    : [];
  const [program = "", ...args] = [
    ...user,
    join(programs, "pg_resetwal"),
    "-x",
    `${next}`,
    dataDir,
  ];
  const { code, stderr } = await runProgram(program, { args, cwd: dataDir });
  if (code !== 0) throw new Error(`pg_resetwal failed: ${stderr}`);
}
