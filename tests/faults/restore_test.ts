import { assert, assertEquals, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../local/free_port.ts";
import {
  databaseUrl,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../../local/postgres.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";

const [original, other] = [await startTemporaryStack(), await startTemporaryStack()];
afterAll(async () => {
  await sql.end();
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
    select page from audit_log_private.read_feed(${id}, '0001-01-01', '9999-12-31', null, 1000, ${after})`;
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
      await sql.end();
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

    // As pg_restore does: the rows of all tables, without their triggers.
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

    await assertNotFollowed(to, id, cursor);
    const [row] = await to`select audit_log_private.adopt_restored_log()::int as renumbered`;
    assertEquals(row?.["renumbered"], 3);
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
      values (${id}, 'agent_added', 'ada@example.com', 'a', '123456789012')`;
    assertEquals((await read(sql, id, "beginning"))?.names, []);
    await sql`select audit_log_private.adopt_restored_log()`;
    await assertExact(sql, id, ["a"]);
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
    await copy.sql`select audit_log_private.adopt_restored_log()`;
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
    await copy.sql`select audit_log_private.adopt_restored_log()`;
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

describe("after a crash", () => {
  it("all that readers were shown is there, though its writers did not wait for the disk", async () => {
    const id = await newOrganization(sql);
    const [key] =
      await sql`select audit_log_private.insert_api_key(${id}, 'reader') ->> 'token' as token`;
    const url = `${original.apiUrl}/functions/v1/public-audit-log`;
    const get = async (address: string) => {
      const response = await fetch(address, {
        headers: { Authorization: `Bearer ${key?.["token"]}` },
      });
      const { items }: { items: { agent_name: string }[] } = await response.json();
      const next = response.headers.get("Link")?.match(/<(.*)>/)?.[1] ?? "";
      return { names: items.map((item) => item.agent_name), next };
    };
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
    const address = `${url}?start=2000-01-01&end=9999-12-31&limit=1000&after=beginning`;
    for (let round = 0; round < 3; round++) {
      await write(writer, id, ...twenty(`shown ${round}`));
      const shown = await get(address);
      assertEquals(shown.names.filter((name) => name.startsWith(`shown ${round}`)).length, 20);
      await write(writer, id, ...twenty(`not shown ${round}`));
    }
    const last = await get(address);
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
    const { names } = await get(last.next);
    assertEquals(names.filter((name) => !name.startsWith("lost")), ["new 1", "new 2"]);
  });
});

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
      select audit_log_private.read_audit_log(${id}, '2000-01-01', '9999-12-31', null, 100, 0, false, 'beginning')`;
  });
}

/** Resolves when the server takes writes. */
async function promoted(sql: postgres.Sql): Promise<void> {
  for (;;) {
    const [row] = await sql`select pg_is_in_recovery() as "isInRecovery"`;
    if (!row?.["isInRecovery"]) return;
  }
}
