import { exhaust, type Sql, valueOf } from "../tests/project.ts";
import { addressOf, cursorOf, type DataSet, makeDataSet, PERSONS, queryOf } from "./data_sets.ts";
import { load, sendRequests } from "./load.ts";
import { byTurns, median, printHead, printRow, ratios, spread } from "./report.ts";
import {
  type BenchOptions,
  type BenchStack,
  costOf,
  KEPT,
  resetLimits,
  startBenchStack,
} from "./stack.ts";

const [START, END] = ["2025-01-01", "2025-12-31"] as const;
const YEAR = `start=${START}&end=${END}`;
const DAY = "start=2025-07-01&end=2025-07-01";
const POLL = "caught up, after=";

/** Compares reads through this function with those through three_calls.ts. */
export async function measureReads({ entries, rounds, seconds }: BenchOptions): Promise<void> {
  await using stack = await startBenchStack(KEPT);
  const ours = await stack.startFunction();
  const other = await stack.startFunction(new URL("three_calls.ts", import.meta.url));
  const handlers: Handlers = {
    "function": `http://127.0.0.1:${ours.port}/public-audit-log`,
    "three calls": `http://127.0.0.1:${other.port}/three-calls`,
  };
  const dataSet = await makeDataSet(stack.sql, entries);
  const run = { stack, handlers, dataSet, rounds, seconds };
  await measureLog(run);
  await measurePersons(run);
}

/** The URLs of the handlers. */
type Handlers = Record<"function" | "three calls", string>;

interface Run {
  stack: BenchStack;
  handlers: Handlers;
  dataSet: DataSet;
  rounds: number;
  seconds: number;
}

type Case = Awaited<ReturnType<typeof casesOf>>[number];

async function casesOf(sql: Sql, dataSet: DataSet) {
  const { entries, organizationId, keys, exhaustedKeys } = dataSet;
  const action = `${YEAR}&action=feedback_given`;
  const year = queryOf({ start_date: START, end_date: END });
  const cursor = await valueOf(
    sql.unsafe(`select ${cursorOf("pg_current_snapshot()", organizationId, year)}`),
  );
  // Several, because the function answers the requests with one token one after the other.
  const unknown = await sql<{ token: string }[]>`
    select audit_log_private.new_token() as token from generate_series(1, 20)`;
  const queries = {
    "one day, first page": DAY,
    "year, first page": YEAR,
    "year, newest first": `${YEAR}&order=desc`,
    "year, 90 % deep": `${YEAR}&offset=${entries * 0.9}`,
    "one action": action,
    "one action, 90 % deep": `${action}&offset=${Math.floor(entries * 0.08 * 0.9)}`,
    "a person, one entry of 100": `${YEAR}&user_email=${addressOf(100)}`,
    [POLL]: `${YEAR}&after=${cursor}`,
  };
  return [
    ...Object.entries(queries).map(([name, query]) => ({ name, query, status: 200, keys })),
    { name: "401", query: DAY, status: 401, keys: unknown },
    { name: "429", query: DAY, status: 429, keys: exhaustedKeys },
  ];
}

/** Prints how many requests of each case are answered in a second. Handlers and cases take turns. */
async function measureLog(run: Run): Promise<void> {
  const { stack: { sql }, handlers, dataSet, rounds, seconds } = run;
  const entries = dataSet.entries.toLocaleString("en");
  console.log(`\nReads of ${entries} entries, answers a second over 8 connections`);
  const cases = await casesOf(sql, dataSet);
  const subjects = cases.flatMap((each) => [
    { ...each, handler: "function" as const },
    ...each.name === POLL ? [] : [{ ...each, handler: "three calls" as const }],
  ]);
  const seen = await byTurns(rounds, subjects, async (subject, round) => {
    await prepareLimits(sql, dataSet);
    const { throughput } = await load({
      ...subject,
      url: `${handlers[subject.handler]}?${subject.query}`,
      seconds: round ? seconds : seconds / 4,
    });
    return throughput;
  });
  const throughputs = (handler: keyof Handlers, name: string) =>
    [...seen].find(([each]) => each.handler === handler && each.name === name)?.[1];
  const alone = await measureAlone(run, cases);
  const [first = NaN] = alone;
  printHead("case", "function, 1/s", "three calls, 1/s", "ratio", "alone, ms", "against one day");
  for (const [n, { name }] of cases.entries()) {
    const [ours, theirs] = [throughputs("function", name), throughputs("three calls", name)];
    const latency = alone[n] ?? NaN;
    const times = [latency.toFixed(2), (latency / first).toFixed(2)];
    printRow(name, spread(ours), spread(theirs), spread(ratios(ours, theirs), 1), ...times);
  }
}

/**
 * Measures the median latency of each case over one connection, in milliseconds. The cases take turns with each
 * request, so that a slow moment of the machine slows all of them.
 */
async function measureAlone({ stack, handlers, dataSet, rounds }: Run, cases: Case[]) {
  const { pathname, origin: url } = new URL(handlers.function);
  const requests = Array.from({ length: 10 }, (_, turn) =>
    cases.map(({ query, keys }) => ({
      path: `${pathname}?${query}`,
      headers: { Authorization: `Bearer ${keys[turn % keys.length]?.token}` },
    }))).flat();
  const times = cases.map(() => [] as number[]);
  for (let part = 0; part < 5 * rounds; part++) {
    await prepareLimits(stack.sql, dataSet);
    const options = { url, connections: 1, amount: requests.length, requests };
    const { latencies, statuses } = await sendRequests(options);
    for (const [n, latency] of latencies.entries()) {
      const { name = "", status } = cases[n % cases.length] ?? {};
      if (statuses[n] !== status) throw new Error(`${name}: status ${statuses[n]}`);
      times[n % cases.length]?.push(latency);
    }
  }
  return times.map((each) => median(each));
}

/** Prints how many blocks Postgres reads for pages of persons, and its processor time. */
async function measurePersons({ stack, dataSet: { organizationId: id, entries } }: Run) {
  console.log("\nPersons: the blocks that a page of 100 reads, and milliseconds of processor time");
  const counts = PERSONS.map((person, n) =>
    Math.ceil(entries / person) - Math.ceil(entries / (PERSONS[n - 1] ?? Infinity))
  );
  const offsets: Record<string, (count: number) => number> = {
    "the total alone": (count) => count,
    "first page": () => 0,
    "the last page": (count) => Math.max(0, count - 100),
  };
  printHead("a person with", ...counts.map((count) => `${count} entries`));
  for (const [name, offsetOf] of Object.entries(offsets)) {
    const cells: string[] = [];
    for (const [n, person] of PERSONS.entries()) {
      const query = queryOf({
        start_date: START,
        end_date: END,
        user_email: addressOf(person),
        page_offset: offsetOf(counts[n] ?? 0),
      });
      const call = `audit_log_private.read_page('${id}', ${query})`;
      const processor = await costOf(stack, `perform ${call}`, 5);
      const [row] = await stack.sql.unsafe(
        `explain (analyze, buffers, format json) select ${call}`,
      );
      const { Plan } = row?.["QUERY PLAN"][0];
      const blocks = Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"];
      cells.push(`${blocks}, ${processor.toFixed(1)} ms`);
    }
    printRow(name, ...cells);
  }
}

/** Resets all quotas, and uses up those of the exhausted keys. */
async function prepareLimits(sql: Sql, { exhaustedKeys }: DataSet): Promise<void> {
  const ids = exhaustedKeys.map(({ apiKeyId }) => apiKeyId);
  await resetLimits(sql);
  for (const id of ids) await exhaust(sql, id);
  await sql`truncate audit_log.bench_request_counts`;
  await sql`
    insert into audit_log.bench_request_counts
    select id, date_trunc('minute', now()) + n * interval '1 minute', 60
    from unnest(${ids}::uuid[]) as id, generate_series(0, 1) as n
    on conflict (api_key_id, minute) do update set requests = excluded.requests`;
}
