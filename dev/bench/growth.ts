import { exportDays } from "../../cli/export_days.ts";
import { verify } from "../../cli/verify.ts";
import { addKeys, runUpkeep, type Sql, valueOf } from "../harness/project.ts";
import type { EdgeFunction } from "../local/edge_function.ts";
import { insertion, YEAR } from "./plain.ts";
import { peakOf } from "./processes.ts";
import { type Bound, compare, printHead } from "./report.ts";
import { type Bench, medianOf, startBench, startFunction } from "./stack.ts";
import { insertOf, measureTransaction, timeOf } from "./writes.ts";

/** Three years. */
const [FIRST, DAYS] = ["2023-01-01", 1096] as const;
/** Of a statement. */
const PIECE = 50_000;
/** Of a new day, in a log of any size. */
const NIGHT = 20_000;
const LARGE = "00000000-0000-4000-8000-000000000000";
/** So many entries a search looks through. */
const SEARCHED = 19_000;

type Query = (log: Log) => string;
/** What is read of the large organization. It may take 1.3 times as long in the largest log as in the smallest. */
const READS: Record<string, Query> = {
  "a page of a day": () => "start=2025-07-01&end=2025-07-01",
  "of a year": () => YEAR,
  "of a year, 90 % deep": ({ entries }) => `${YEAR}&offset=${Math.floor(entries * 0.03)}`,
  "of a year, one action": () => `${YEAR}&action=feedback_given`,
  "of a year, one person": () => `${YEAR}&user_email=user7@example.com`,
  // The first requests catch up.
  "the feed, caught up": () => "start=2025-07-01&end=2025-07-01&limit=1000&after=beginning",
  "the feed, from the beginning, by 1,000": () => `${YEAR}&limit=1000&after=beginning`,
};
/** What takes longer the more it looks through. */
const SEARCHES: Record<string, Query> = {
  "of a year, a person with a tenth of it": () => `${YEAR}&user_email=user0@example.com`,
  [`an object among ${SEARCHED} entries`]: ({ entries }) => {
    const start = Date.parse("2026-01-01") - SEARCHED * DAYS / (entries / 10) * 86_400_000;
    return `start=${new Date(start).toJSON().slice(0, 10)}&end=2025-12-31&object=nothing`;
  },
};

interface Log extends Bench {
  edgeFunction: EdgeFunction;
  keys: { token: string }[];
  /** Where its days are exported to. */
  folder: string;
}

/** Compares logs of a thirtieth, a third and all of the entries, each in a database of its own. */
export async function measureGrowth(bench: Bench): Promise<void> {
  const { rounds } = bench;
  await using started = new AsyncDisposableStack();
  const logs: Log[] = [];
  for (const part of [30, 3, 1]) {
    const entries = Math.floor(bench.entries / part);
    const own = part === 1 ? bench : started.use(await startBench({ rounds, entries }));
    await fill(own);
    const keys = await addKeys(own.sql, LARGE, 10);
    const folder = await Deno.makeTempDir();
    started.defer(() => Deno.remove(folder, { recursive: true }));
    const log = { ...own, keys, folder, edgeFunction: started.use(await startFunction(own)) };
    await exportDays(folder, monthOf(log));
    logs.push(log);
  }
  const sizes = logs.map(({ entries }) => entries.toLocaleString("en"));
  printHead(`Milliseconds, ${rounds} rounds`, "what", ...sizes, "last / first", "bound");
  const print = (what: string, measure: (log: Log) => Promise<number>, bound?: Bound) =>
    compare(rounds, what, logs, measure, bound);
  for (const [what, queryOf] of Object.entries({ ...READS, ...SEARCHES })) {
    const read = (log: Log) => medianOf(log, log.edgeFunction, log.keys, queryOf(log));
    await print(what, read, what in READS ? { most: 1.3 } : undefined);
  }
  await print("`verify` of a month", verifyMonth);
  for (const clients of [1, 16]) {
    const insert = (log: Log) =>
      measureTransaction(log.databaseUrl, insertOf("ours", LARGE), clients);
    await print(`an insert, ${clients} at once`, insert);
  }
  await print(`a night of ${NIGHT.toLocaleString("en")} new entries`, measureNight);
  await compare(1, "a night's older days compared with their seals", logs, compareNight);
  await print("`health()`", ({ sql }) => timeOf(sql, "select audit_log_private.health()"));
  const memory = ({ edgeFunction: { pid } }: Log) => peakOf(pid);
  await compare(1, "MiB of memory of the function", logs, memory);
  const relations = await bench.sql`
    select c.oid::regclass::text as name from pg_class c left join pg_index i on i.indexrelid = c.oid
    where coalesce(i.indrelid, c.oid) in ('audit_log.audit_entries'::regclass, 'audit_log_private.entry_counts'::regclass)
    order by i.indrelid is not null, 1`;
  for (const { name } of relations) {
    const size = async ({ sql, entries }: Log) =>
      await valueOf<number>(sql`select pg_table_size(${name}::regclass)::float`) / entries;
    await compare(1, `bytes an entry: \`${name.replace(/^.*\./, "")}\``, logs, size);
  }
}

/** Writes a log by large statements, does the upkeep, and prints how long both took. */
async function fill({ sql, entries }: Bench): Promise<void> {
  const start = performance.now();
  for (let n = 0; n < entries; n += PIECE) {
    await sql.unsafe(growing(n, Math.min(PIECE, entries - n), entries / DAYS));
  }
  const seconds = [performance.now() - start, await timeUpkeep(sql)]
    .map((ms) => (ms / 1000).toFixed());
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
  console.log(`${entries} entries: written in ${seconds[0]} s, upkeep in ${seconds[1]} s`);
}

/**
 * SQL for these entries. A tenth is the large organization's, whose persons have some 3,000 each in three years, but for
 * the first, who has a tenth. The other 999 have 20 persons each, and write every ninth day.
 */
function growing(first: number, count: number, perDay: number): string {
  const organization = `('00000000-0000-4000-8000-' || lpad((
    case when n % 10 = 0 then 0 else n * 7919 % 111 * 9 + floor(days)::bigint % 9 + 1 end
  )::text, 12, '0'))::uuid`;
  const person = `'user' || case when k % 10 = 1 then 0
    when n % 10 = 0 then k % ${1 + Math.floor(perDay * DAYS / 30_000)}
    else k % 20 end || '@example.com'`;
  return insertion(first, count, { organization, person, from: FIRST, perDay, each: 10 });
}

/** How the command reads a month of the large organization, without waiting for its key's quota. */
function monthOf({ sql, edgeFunction: { port }, keys }: Log) {
  const wait = async () => await sql`update audit_log_private.rate_limits set counted_at = '{}'`;
  const api = { url: `http://127.0.0.1:${port}/public-audit-log`, key: keys[0]?.token ?? "", wait };
  return { ...api, start: "2025-07-01", end: "2025-07-31" };
}

/** Lets the command check an exported month against the chain of its seals. */
async function verifyMonth(log: Log): Promise<number> {
  const { start, end, ...seals } = monthOf(log);
  await seals.wait();
  const began = performance.now();
  const { right } = await verify({ files: [log.folder], seals, start, end });
  if (!right) throw new Error("verify found a problem");
  return performance.now() - began;
}

async function measureNight({ sql }: Log): Promise<number> {
  const day: number = await valueOf(sql`
    select max(day) - ${FIRST}::date + 1 from audit_log_private.sealed_days where organization_id = ${LARGE}`);
  await sql.unsafe(growing(day * NIGHT, NIGHT, NIGHT));
  return await timeUpkeep(sql);
}

/** Lets the upkeep compare the days of tonight, as if they were last checked a month ago. */
async function compareNight({ sql }: Log): Promise<number> {
  await sql`
    update audit_log_private.sealed_days set check_at = now()
    where ((now() at time zone 'UTC')::date - day) % 30 = 0`;
  return await timeUpkeep(sql);
}

async function timeUpkeep(sql: Sql): Promise<number> {
  const start = performance.now();
  await runUpkeep(sql);
  return performance.now() - start;
}
