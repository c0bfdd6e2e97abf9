import { Buffer } from "node:buffer";
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import postgres from "postgres";
import { databaseUrl } from "../local/postgres.ts";
import { randomFrom } from "../tests/random.ts";
import { startBenchStack } from "./stack.ts";

/** A log of five years. */
export interface GrownLog {
  entries: number;
  organizations: number;
}

/** The first day, and how many there are: until 2025-12-31. */
export const FIRST_DAY = Date.UTC(2021, 0, 1);
export const DAYS = 1826;

/** How much of the log the largest organization has, if it is not the only one. */
const LARGEST = 0.2;
/** Entries that are made once, and written again and again with other ids, times and transactions. */
const TEMPLATE_ENTRIES = 200_000;
const TRANSACTIONS = 1_000_000;
const LEAST_FREE_BYTES = 10e9;
const DAY_MICROSECONDS = 86_400e6;

/** The id of an organization by its rank: 1 is the largest. */
export function organizationId(rank: number): string {
  return `${"0123456789abcdef"[(rank * 7) % 16]}0000000-0000-4000-a000-${
    String(rank).padStart(12, "0")
  }`;
}

/**
 * Makes a log in the stack of a folder, unless it is there already. Loaded as a dump is: without triggers,
 * indexes and checks, which come back afterwards, with settings that no log should be kept with.
 *
 * @throws {Error} if the disk has too little room; then the log is not there.
 */
export async function loadGrownLog(dataDir: string, log: GrownLog): Promise<void> {
  if (await isLoaded(dataDir, log)) return;
  await restartWith(dataDir, [
    "alter system set fsync = off",
    "alter system set full_page_writes = off",
    "alter system set wal_level = minimal",
    "alter system set max_wal_senders = 0",
    "alter system set max_wal_size = '512MB'",
    "alter system set autovacuum = off",
    "alter system set synchronous_commit = off",
  ]);
  {
    await using stack = await startBenchStack(dataDir);
    const sql = await connectAsAdmin(dataDir, stack.databaseUrl);
    await step("organizations and transaction numbers", () => prepare(sql, log));
    await load(sql, dataDir, log);
    await sql.end();
  }
  await restartWith(dataDir, ["alter system reset all"]);
}

async function isLoaded(dataDir: string, log: GrownLog): Promise<boolean> {
  await using stack = await startBenchStack(dataDir);
  const sql = postgres(stack.databaseUrl, { max: 1 });
  const [row] = await sql`
    select coalesce(sum(entries), 0)::int as entries from private.entry_counts
    where organization_id = ${organizationId(1)}`;
  await sql.end();
  return row?.["entries"] >= log.entries / log.organizations * 0.9;
}

/** Changes settings, and starts Postgres again with them. */
async function restartWith(dataDir: string, settings: string[]): Promise<void> {
  await using stack = await startBenchStack(dataDir);
  const sql = await connectAsAdmin(dataDir, stack.databaseUrl);
  for (const setting of settings) await sql.unsafe(setting);
  await sql.end();
}

async function connectAsAdmin(dataDir: string, url: string): Promise<postgres.Sql> {
  const { adminPassword } = JSON.parse(await Deno.readTextFile(join(dataDir, "secrets.json")));
  const port = Number(new URL(url).port);
  const sql = postgres(databaseUrl(port, "supabase_admin", adminPassword), {
    max: 4,
    onnotice: () => {},
    connection: { session_replication_role: "replica", maintenance_work_mem: "2GB" },
  });
  return sql;
}

async function prepare(sql: postgres.Sql, { organizations }: GrownLog): Promise<void> {
  const ids = Array.from({ length: organizations }, (_, n) => organizationId(n + 1));
  await sql`
    insert into public.organizations (id, name)
    select id, 'Organization ' || rank from unnest(${ids}::uuid[]) with ordinality as o (id, rank)
    on conflict do nothing`;
  // Numbers that entries may have: of transactions that are over.
  const [row] = await sql`select pg_current_xact_id()::text::bigint::int as number`;
  await sql.unsafe(`do $$ begin
    for n in ${row?.["number"]}..${
    TRANSACTIONS + 1000
  } loop perform pg_current_xact_id(); commit; end loop;
  end $$`);
}

async function load(sql: postgres.Sql, dataDir: string, log: GrownLog): Promise<void> {
  const table = "'public.audit_entries'::regclass";
  const indexes = await sql.unsafe(`
    select pg_get_indexdef(indexrelid) as statement, indexrelid::regclass as name
    from pg_index where indrelid = ${table} and not indisprimary`);
  const constraints = await sql.unsafe(`
    select format('alter table public.audit_entries add constraint %I %s', conname, pg_get_constraintdef(oid))
      || case when contype = 'p' then '' else ' not valid' end as statement, conname as name
    from pg_constraint where conrelid = ${table} and contype in ('c', 'f', 'p')`);
  // Dropped, because a trigger that does not fire still collects its transition table.
  const triggers = await sql.unsafe(`
    select pg_get_triggerdef(oid) as statement, tgname as name
    from pg_trigger where tgrelid = ${table} and not tgisinternal`);
  await step("entries", async () => {
    await sql.begin(async (transaction) => {
      await transaction`truncate public.audit_entries`;
      for (const { name } of indexes) await transaction.unsafe(`drop index ${name}`);
      for (const { name } of constraints) {
        await transaction`alter table public.audit_entries drop constraint ${sql(name)}`;
      }
      for (const { name } of triggers) {
        await transaction`drop trigger ${sql(name)} on public.audit_entries`;
      }
      // Into a table that is new in this transaction: written once, as if vacuumed.
      const copy = await transaction`
        copy public.audit_entries (id, organization_id, created_at, transaction_id, action, user_email, agent_name, data)
        from stdin with (format binary, freeze)`.writable();
      for await (const bytes of copyOf(dataDir, log)) {
        if (!copy.write(bytes)) await once(copy, "drain");
      }
      copy.end();
      await once(copy, "finish");
    });
  });
  // One after another: sorting takes room on the disk, too.
  for (const { statement, name } of [...indexes, ...constraints, ...triggers]) {
    await step(name, () => sql.unsafe(statement));
  }
  await step("statistics", () => sql`vacuum (analyze) public.audit_entries`);
  await step("counts", () => countEntries(sql, log));
  await step(
    "their statistics",
    () => sql`vacuum (analyze) private.entry_counts, private.monthly_entry_counts`,
  );
}

/**
 * As repair_entry_counts does, two organizations at a time; then in the order in which the upkeep of each
 * night writes: the days of one organization lie far apart.
 */
async function countEntries(sql: postgres.Sql, { organizations }: GrownLog): Promise<void> {
  await sql`
    truncate private.entry_counts, private.monthly_entry_counts, private.sealed_days, private.days_to_seal,
      private.seals`;
  await sql`create unlogged table private.unsorted_counts (like private.entry_counts)`;
  const hours = Array.from({ length: 24 }, (_, h) => `count(*) filter (where hour = ${h})`);
  let rank = 0;
  const work = async () => {
    while (rank < organizations) {
      const id = organizationId(++rank);
      await sql`
        insert into private.unsorted_counts (organization_id, day, action, writer_pid, entries, hours, removed)
        select ${id}, day, action, 0, count(*), array[${sql.unsafe(hours.join())}]::integer[], 0
        from (
          select e.action, (e.created_at at time zone 'UTC')::date as day,
            extract(hour from e.created_at at time zone 'UTC')::integer as hour
          from public.audit_entries e
          where e.organization_id = ${id}
        ) as e
        group by action, day`;
    }
  };
  await Promise.all([work(), work()]);
  await sql`
    insert into private.entry_counts
    select * from private.unsorted_counts order by day, organization_id, action`;
  await sql`drop table private.unsorted_counts`;
  await sql`
    insert into private.monthly_entry_counts
    select organization_id, date_trunc('month', day::timestamp), action, sum(entries)
    from private.entry_counts group by 1, 2, 3`;
}

/** The entries in the order of their times, as Postgres takes them in binary. */
async function* copyOf(dataDir: string, { entries, organizations }: GrownLog) {
  const header = Buffer.alloc(19);
  header.write("PGCOPY\n\xff\r\n\0", "latin1");
  yield header;
  const { rows, bytes } = makeTemplate(organizations);
  const started = performance.now();
  const ids = Buffer.alloc(TEMPLATE_ENTRIES * 16);
  for (let first = 0; first < entries; first += TEMPLATE_ENTRIES) {
    await checkRoom(dataDir);
    randomFillSync(ids);
    // Copied: what was written before may still be on its way.
    const block = Buffer.from(bytes);
    const last = Math.min(first + TEMPLATE_ENTRIES, entries);
    for (let n = first; n < last; n++) {
      const row = rows[n - first] ?? 0;
      const position = n * DAYS / entries;
      const day = Math.floor(position);
      const hour = n % 10 === 0 ? (position - day) * 24 : 8 + (position - day) * 10;
      const time = FIRST_DAY * 1000 + Math.floor((day + hour / 24) * DAY_MICROSECONDS);
      // A version 7 UUID.
      ids.copy(block, row + ID, (n - first) * 16, (n - first + 1) * 16);
      block.writeUIntBE(Math.floor(time / 1000), row + ID, 6);
      block[row + ID + 6] = 0x70 | (block[row + ID + 6] ?? 0) & 0x0f;
      block[row + ID + 8] = 0x80 | (block[row + ID + 8] ?? 0) & 0x3f;
      const sinceEpoch = time - POSTGRES_EPOCH * 1000;
      block.writeInt32BE(Math.floor(sinceEpoch / 2 ** 32), row + TIME);
      block.writeUInt32BE(sinceEpoch % 2 ** 32, row + TIME + 4);
      block.writeUInt32BE(1000 + Math.floor(n / entries * TRANSACTIONS), row + TRANSACTION + 4);
    }
    yield block.subarray(0, rows[last - first]);
    progress(last, entries, (performance.now() - started) / 1000);
  }
  yield Buffer.from([0xff, 0xff]);
}

/** Postgres counts from 2000 on, in microseconds. */
const POSTGRES_EPOCH = Date.UTC(2000, 0, 1);
// Where fields of a fixed length begin in a row: after how many fields there are, and each one's length.
const ID = 2 + 4;
const ORGANIZATION = ID + 16 + 4;
const TIME = ORGANIZATION + 16 + 4;
const TRANSACTION = TIME + 8 + 4;

interface Template {
  bytes: Buffer;
  /** Where each row begins, and where the last one ends. */
  rows: number[];
}

/** Entries of organizations of very different sizes, the largest with a fifth, in a random order. */
function makeTemplate(organizations: number): Template {
  const random = randomFrom(18);
  const text = (value: string) => [int32(Buffer.byteLength(value)), Buffer.from(value)];
  const uuid = () =>
    Array.from({ length: 4 }, () => random(2 ** 32).toString(16).padStart(8, "0")).join("")
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  const rows: number[] = [];
  const parts: Buffer[] = [];
  let length = 0;
  for (let n = 0; n < TEMPLATE_ENTRIES; n++) {
    rows.push(length);
    const data = JSON.stringify({
      message_id: uuid(),
      conversation_id: uuid(),
      agent_id: uuid(),
      platform_agent_sid: `AG${uuid().replaceAll("-", "")}`,
    });
    const row = Buffer.concat([
      Buffer.from([0, 8]),
      int32(16),
      Buffer.alloc(16),
      int32(16),
      Buffer.from(organizationId(randomRank(random, organizations)).replaceAll("-", ""), "hex"),
      int32(8),
      Buffer.alloc(8),
      int32(8),
      Buffer.alloc(8),
      ...text(randomAction(random)),
      ...text(`user${random(50)}@example.com`),
      ...text(`Assistant ${random(7)}`),
      // jsonb: a version, then text.
      ...text(`\x01${data}`),
    ]);
    parts.push(row);
    length += row.length;
  }
  rows.push(length);
  return { bytes: Buffer.concat(parts), rows };
}

/** After the largest, ranks by their logarithm: a tenth of the ranks has as much as the tenth before. */
function randomRank(random: (below: number) => number, organizations: number): number {
  if (organizations === 1 || random(1e6) < LARGEST * 1e6) return 1;
  return 1 + Math.floor(organizations ** (random(2 ** 32) / 2 ** 32));
}

/** As often as in the other data sets of the benchmark. */
function randomAction(random: (below: number) => number): string {
  const percent = random(1000) / 10;
  if (percent < 0.1) return "agent_added";
  if (percent < 20) return "conversation_created";
  return percent < 28 ? "feedback_given" : "message_created";
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** @throws {Error} if less than 10 GB are free. */
async function checkRoom(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < LEAST_FREE_BYTES) {
    throw new Error(`Less than ${LEAST_FREE_BYTES / 1e9} GB are free: make room, or load less`);
  }
}

async function step<T>(name: string, take: () => PromiseLike<T>): Promise<T> {
  const started = performance.now();
  const result = await take();
  console.log(`  ${name}: ${((performance.now() - started) / 1000).toFixed(0)} s`);
  return result;
}

let shown = 0;
function progress(done: number, entries: number, seconds: number): void {
  const percent = Math.floor(100 * done / entries);
  if (percent === shown) return;
  shown = percent;
  const left = seconds / done * (entries - done) / 60;
  console.log(
    `  ${percent} %, ${(done / seconds / 1000).toFixed(0)},000 entries a second, ` +
      `${left.toFixed(0)} minutes left`,
  );
}
