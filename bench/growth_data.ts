import { statfs } from "node:fs/promises";
import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../local/free_port.ts";
import { databaseUrl, startPostgres, stopPostgres } from "../local/postgres.ts";
import { insertionOf } from "./data_set.ts";
import { startBenchStack } from "./stack.ts";

/** A log of five years. */
export interface GrownLog {
  entries: number;
  organizations: number;
}

/** How many days it has, from 2021-01-01 to 2025-12-31. */
export const DAYS = 1826;

/** How many days are written at once. */
const BATCH = 30;
const TRANSACTIONS = 1_000_000;
const LEAST_FREE_BYTES = 10e9;

/** With these no log should be kept. */
const SETTINGS = [
  "fsync=off",
  "full_page_writes=off",
  "synchronous_commit=off",
  "wal_level=minimal",
  "max_wal_senders=0",
  "autovacuum=off",
  "session_replication_role=replica",
  "work_mem=512MB",
  "maintenance_work_mem=2GB",
];

/** The id of an organization by its rank: 1 is the largest. */
export function organizationId(rank: number): string {
  const first = "0123456789abcdef"[(rank * 7) % 16];
  return `${first}0000000-0000-4000-a000-${String(rank).padStart(12, "0")}`;
}

/**
 * Makes a log in the stack of a folder, unless it is there already. Its entries are written without
 * indexes and triggers, which come back afterwards.
 *
 * @throws {Error} if the disk has too little room; then the log is not there.
 */
export async function loadGrownLog(dataDir: string, log: GrownLog): Promise<void> {
  if (await isLoaded(dataDir)) return;
  const { adminPassword } = JSON.parse(await Deno.readTextFile(join(dataDir, "secrets.json")));
  const port = freePort();
  const server = { dataDir: join(dataDir, "postgres"), port, adminPassword, settings: SETTINGS };
  await startPostgres(server);
  const sql = postgres(databaseUrl(port, "supabase_admin", adminPassword), {
    max: 1,
    onnotice: () => {},
  });
  try {
    await load(sql, dataDir, log);
  } finally {
    await sql.end();
    await stopPostgres(server.dataDir);
  }
}

/** Whether a log is there; makes an empty one. */
async function isLoaded(dataDir: string): Promise<boolean> {
  await using stack = await startBenchStack(dataDir);
  const sql = postgres(stack.databaseUrl, { max: 1 });
  const entries = await sql`
    select from audit_log.audit_entries where organization_id = ${organizationId(1)} limit 1`;
  await sql.end();
  return entries.length > 0;
}

async function load(sql: postgres.Sql, dataDir: string, log: GrownLog): Promise<void> {
  const { entries, organizations } = log;
  const ids = Array.from({ length: organizations }, (_, n) => organizationId(n + 1));
  await sql`
    insert into audit_log.organizations (id, name)
    select id, 'Organization ' || rank from unnest(${ids}::uuid[]) with ordinality as o (id, rank)
    on conflict do nothing`;
  // Numbers that entries may have: of transactions that are over.
  await sql.unsafe(`do $$ begin
    for n in 1..${TRANSACTIONS + 1000} loop perform pg_current_xact_id(); commit; end loop;
  end $$`);
  // The trigger, too: one that does not fire still collects its transition table.
  const parts = await sql`
    select format('drop index %s', indexrelid::regclass) as dropping, pg_get_indexdef(indexrelid) as making
    from pg_index where indrelid = 'audit_log.audit_entries'::regclass and not indisprimary
    union all
    select format('alter table audit_log.audit_entries drop constraint %I', conname),
      format('alter table audit_log.audit_entries add constraint %I %s', conname, pg_get_constraintdef(oid))
    from pg_constraint where conrelid = 'audit_log.audit_entries'::regclass and contype = 'p'
    union all
    select 'drop trigger count_inserted on audit_log.audit_entries', pg_get_triggerdef(oid)
    from pg_trigger where tgrelid = 'audit_log.audit_entries'::regclass and tgname = 'count_inserted'`;
  await sql.begin(async (transaction) => {
    // Into tables that are new in this transaction, for which minimal wal_level writes no log of changes.
    await transaction`truncate audit_log.audit_entries, audit_log_private.entry_counts, audit_log_private.days_to_seal`;
    for (const { dropping } of parts) await transaction.unsafe(dropping);
    for (let day = 0; day < DAYS; day += BATCH) {
      await checkRoom(dataDir);
      const [from = 0, to = 0] = [day, Math.min(day + BATCH, DAYS)]
        .map((each) => Math.ceil(each * entries / DAYS));
      await step(`${to} entries`, () => transaction.unsafe(writingOf(log, ids, from, to)));
    }
  });
  // One after another: sorting takes room on the disk, too.
  for (const { making } of parts) await step(making, () => sql.unsafe(making));
  await sql`
    insert into audit_log_private.monthly_entry_counts
    select organization_id, date_trunc('month', day::timestamp), action, sum(entries)
    from audit_log_private.entry_counts group by 1, 2, 3`;
  await step(
    "statistics",
    () =>
      sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts, audit_log_private.monthly_entry_counts`,
  );
}

/**
 * Writes entries of whole days and their counts, in the order in which the upkeep of each night writes those.
 * The largest organization has a fifth of the entries. After it, a tenth of the ranks has as many as the tenth
 * before.
 */
function writingOf(
  { entries, organizations }: GrownLog,
  ids: string[],
  from: number,
  to: number,
): string {
  const rank = organizations === 1
    ? "1"
    : `case when random() < 0.2 then 1 else 1 + floor(power(${organizations}, random()))::int end`;
  const insertion = insertionOf(
    {
      entries,
      firstDay: "2021-01-01",
      days: DAYS,
      organization: `('{${ids}}'::uuid[])[${rank}]`,
      transaction: `(1000 + n::bigint * ${TRANSACTIONS} / ${entries})::text::xid8`,
    },
    from,
    to,
  );
  const hours = Array.from({ length: 24 }, (_, h) => `count(*) filter (where hour = ${h})`);
  return `
    with written as (${insertion} returning organization_id, created_at at time zone 'UTC' as time, action)
    insert into audit_log_private.entry_counts (organization_id, day, action, writer_pid, entries, hours)
    select organization_id, time::date, action, 0, count(*), array[${hours}]::integer[]
    from (select *, extract(hour from time) as hour from written) as entries
    group by 2, 1, 3 order by 2, 1, 3`;
}

/** @throws {Error} if less than 10 GB are free. */
async function checkRoom(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < LEAST_FREE_BYTES) {
    throw new Error(`Less than ${LEAST_FREE_BYTES / 1e9} GB are free: make room, or load less`);
  }
}

async function step(name: string, take: () => PromiseLike<unknown>): Promise<void> {
  const started = performance.now();
  await take();
  console.log(`  ${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${name}`);
}
