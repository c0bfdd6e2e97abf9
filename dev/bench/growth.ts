import { addKeys, runUpkeep, type Sql, valueOf } from "../harness/project.ts";
import type { EdgeFunction } from "../local/edge_function.ts";
import { peakOf } from "./processes.ts";
import { YEAR } from "./reads.ts";
import { byTurns, median, printHead, printRow, spread } from "./report.ts";
import { type Bench, medianOf, startBench, startFunction } from "./stack.ts";
import { measureTransaction, timeOf, VALUES } from "./writes.ts";

/** Three years. */
const [FIRST, DAYS] = ["2023-01-01", 1096] as const;
/** Of a statement. */
const PIECE = 50_000;
/** Of a new day, in a log of any size. */
const NIGHT = 20_000;
const LARGE = "00000000-0000-4000-8000-000000000000";
const REQUESTS = 10;
/** A read may take so many times as long in the largest log as in the smallest. */
const BOUND = 1.3;
/** So many entries a search looks through. */
const SEARCHED = 19_000;
const INSERT = `insert into audit_log.audit_entries
  (organization_id, created_at, action, user_email, agent_name, data)
  values ('${LARGE}', clock_timestamp(), ${VALUES})`;

type Query = (log: Log) => string;
/** What is read of the large organization. */
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

/** A table's size includes its indexes. */
const RELATIONS = [
  "audit_log.audit_entries",
  "audit_log.audit_entries_pkey",
  "audit_log.audit_entries_action_idx",
  "audit_log.audit_entries_person_idx",
  "audit_log.audit_entries_transaction_idx",
  "audit_log_private.entry_counts",
];

/** A filled log, its function, and keys of its large organization. */
interface Log extends Bench {
  edgeFunction: EdgeFunction;
  keys: { token: string }[];
}

/** Compares logs of a thirtieth, a third and all of the entries, each in a database of its own. */
export async function measureGrowth(bench: Bench): Promise<void> {
  await using started = new AsyncDisposableStack();
  const benches = [bench];
  for (const part of [3, 30]) {
    const entries = Math.floor(bench.entries / part);
    benches.unshift(started.use(await startBench({ ...bench, entries })));
  }
  for (const each of benches) console.log(`${each.entries} entries: ${await fill(each)}`);
  await measureLogs(benches);
}

/** Writes a log by large statements, and does the upkeep. Returns in how many seconds. */
export async function fill({ sql, entries }: Bench): Promise<string> {
  const start = performance.now();
  for (let n = 0; n < entries; n += PIECE) {
    await sql.unsafe(insertion(n, Math.min(PIECE, entries - n), entries / DAYS));
  }
  const written = performance.now();
  await runUpkeep(sql);
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
  const [writing, upkeep] = [written - start, performance.now() - written];
  return `written in ${(writing / 1000).toFixed()} s, upkeep in ${(upkeep / 1000).toFixed()} s`;
}

/**
 * SQL that writes entries number `first` and so many more, in the order of time. A tenth is the large organization's,
 * whose persons have some 3,000 each in three years, but for the first, who has a tenth. The other 999 have 20 persons
 * each, and write every ninth day.
 */
function insertion(first: number, count: number, perDay: number): string {
  return `insert into audit_log.audit_entries
    (organization_id, created_at, action, user_email, agent_name, data)
    select
      ('00000000-0000-4000-8000-' || lpad((
        case when n % 10 = 0 then 0 else n * 7919 % 111 * 9 + floor(days)::bigint % 9 + 1 end
      )::text, 12, '0'))::uuid,
      '${FIRST}Z'::timestamptz + floor(days) * interval '1 day'
        + case when n / 10 % 10 = 0 then (days - floor(days)) * interval '1 day'
          else interval '8 hours' + (days - floor(days)) * interval '10 hours' end,
      case when n / 10 % 1000 = 0 then 'agent_added' when n / 10 % 100 < 20 then 'conversation_created'
        when n / 10 % 100 < 28 then 'feedback_given' else 'message_created' end,
      'user' || case when n / 10 % 10 = 1 then 0
        when n % 10 = 0 then n / 10 % ${1 + Math.floor(perDay * DAYS / 30_000)}
        else n / 10 % 20 end || '@example.com',
      'Assistant ' || n % 7,
      '{"agent_id":"0b5e0f5c-9d3c-4c7e-8f3a-6d1f2a9b7c10","platform_agent_sid":"AG8d1f0c6b7a2e4f53"}'::jsonb
        || jsonb_build_object('message_id', gen_random_uuid(), 'conversation_id', lpad((n / 50)::text, 36, 'c'))
    from generate_series(${first}::bigint, ${first + count - 1}) as n
    cross join lateral (select n / ${perDay}::numeric as days) as times`;
}

/** Prints each measure of all logs, which take turns. The exit code is 1 if a read grows more than its bound. */
export async function measureLogs(benches: Bench[]): Promise<void> {
  await using started = new AsyncDisposableStack();
  const logs = await Promise.all(benches.map(async (bench): Promise<Log> => ({
    ...bench,
    keys: await addKeys(bench.sql, LARGE, REQUESTS),
    edgeFunction: started.use(await startFunction(bench)),
  })));
  const rounds = Math.max(...logs.map((log) => log.rounds));
  const sizes = logs.map(({ entries }) => entries.toLocaleString("en"));
  printHead(`Milliseconds, ${rounds} rounds`, "what", ...sizes, "last / first", "bound");
  const print = (what: string, figures: number[][], bound?: number) => {
    const ratios = figures.at(-1)?.map((value, round) => value / (figures[0]?.[round] ?? NaN));
    if (bound && median(ratios) > bound) Deno.exitCode = 1;
    printRow(what, ...figures.map((each) => spread(each, 1)), spread(ratios, 2), bound ?? "");
  };
  for (const [what, queryOf] of Object.entries({ ...READS, ...SEARCHES })) {
    const read = (log: Log) => medianOf(log, log.edgeFunction, log.keys, queryOf(log));
    print(what, await byTurns(rounds, logs, read), what in READS ? BOUND : undefined);
  }
  for (const clients of [1, 16]) {
    const insert = (log: Log) => measureTransaction(log.databaseUrl, INSERT, clients);
    print(`an insert, ${clients} at once`, await byTurns(rounds, logs, insert));
  }
  const nights = await byTurns(rounds, logs, measureNight);
  const passes = ["the counts", "the seals", "a night"];
  for (const [n, pass] of passes.entries()) {
    const times = nights.map((log) => log.map((night) => night[n] ?? NaN));
    print(`${pass} of ${NIGHT.toLocaleString("en")} new entries`, times);
  }
  print("a night's older days compared with their seals", await byTurns(1, logs, compareNight));
  const health = ({ sql }: Log) => timeOf(sql, "select audit_log_private.health()");
  print("`health()`", await byTurns(rounds, logs, health));
  const peaks = logs.map(async ({ edgeFunction: { pid } }) => [await peakOf(pid)]);
  print("MiB of memory of the function", await Promise.all(peaks));
  for (const relation of RELATIONS) {
    const size = async ({ sql, entries }: Log) =>
      await valueOf<number>(sql`select pg_total_relation_size(${relation})::float`) / entries;
    print(`bytes an entry: \`${relation.replace(/^.*\./, "")}\``, await byTurns(1, logs, size));
  }
}

/** Writes the entries of the next day, and does the upkeep. Returns how long its two passes took, and both. */
async function measureNight({ sql }: Log): Promise<number[]> {
  const day: number = await valueOf(sql`
    select max(day) - ${FIRST}::date + 1 from audit_log_private.sealed_days where organization_id = ${LARGE}`);
  await sql.unsafe(insertion(day * NIGHT, NIGHT, NIGHT));
  return await timeUpkeep(sql);
}

async function timeUpkeep(sql: Sql): Promise<number[]> {
  let [counts, all, isFirst, more] = [0, 0, true, true];
  while (more) {
    const start = performance.now();
    more = await valueOf<boolean>(sql`select audit_log_private.run_upkeep()`);
    const time = performance.now() - start;
    if (isFirst) counts += time;
    all += time;
    isFirst = await valueOf(sql`select is_first_pass from audit_log_private.upkeep_state`);
  }
  return [counts, all - counts, all];
}

/** Lets the upkeep compare the days of tonight, as if they were last checked a month ago. */
async function compareNight({ sql }: Log): Promise<number> {
  await sql`
    update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'
    where night = ((now() at time zone 'UTC')::date - '0001-01-01'::date) % 30`;
  const [, seals = NaN] = await timeUpkeep(sql);
  return seals;
}
