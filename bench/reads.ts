import { addOrganization, exhaust, insertEntries, type Sql, valueOf } from "../tests/project.ts";
import { addressOf, cursorOf, type DataSet, makeDataSet, PERSONS, queryOf } from "./data_sets.ts";
import { median, printHead, printRow } from "./report.ts";
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
const DATES = { start_date: START, end_date: END };
const DAY = "start=2025-07-01&end=2025-07-01";
/** The requests of a case in a round: few enough for the quotas of all keys. */
const REQUESTS = 50;

/** Measures how long requests take, one after the other. */
export async function measureReads({ entries, rounds }: BenchOptions): Promise<void> {
  await using stack = await startBenchStack(KEPT);
  const { port } = await stack.startFunction();
  const url = `http://127.0.0.1:${port}/public-audit-log`;
  const dataSet = await makeDataSet(stack.sql, entries);
  await measureLog(stack.sql, url, dataSet, rounds);
  await measurePersons(stack, dataSet);
  await measureHour(stack);
}

async function casesOf(sql: Sql, dataSet: DataSet) {
  const { entries, organizationId, keys, exhaustedKeys } = dataSet;
  const action = `${YEAR}&action=feedback_given`;
  const year = queryOf(DATES);
  const cursor = await valueOf(
    sql.unsafe(`select ${cursorOf("pg_current_snapshot()", organizationId, year)}`),
  );
  const unknown = await sql<{ token: string }[]>`select audit_log_private.new_token() as token`;
  const queries = {
    "one day, first page": DAY,
    "an hour": `${DAY}&since=2025-07-01T10:00:00Z&until=2025-07-01T11:00:00Z`,
    "eight hours, from 10:17": `${DAY}&since=2025-07-01T10:17:00Z&until=2025-07-01T18:17:00Z`,
    "year, first page": YEAR,
    "year, newest first": `${YEAR}&order=desc`,
    "year, 90 % deep": `${YEAR}&offset=${entries * 0.9}`,
    "one action": action,
    "one action, 90 % deep": `${action}&offset=${Math.floor(entries * 0.08 * 0.9)}`,
    "three of four actions": `${YEAR}&action=agent_added,conversation_created,feedback_given`,
    "a person, one entry of 100": `${YEAR}&user_email=${addressOf(100)}`,
    "caught up, after=": `${YEAR}&after=${cursor}`,
  };
  return [
    ...Object.entries(queries).map(([name, query]) => ({ name, query, status: 200, keys })),
    { name: "401", query: DAY, status: 401, keys: unknown },
    { name: "429", query: DAY, status: 429, keys: exhaustedKeys },
  ];
}

/**
 * Prints the median latency of each case. The cases take turns with each request, so that a slow moment of the machine
 * slows all of them. The first round warms up and does not count.
 */
async function measureLog(sql: Sql, url: string, dataSet: DataSet, rounds: number) {
  const cases = await casesOf(sql, dataSet);
  const times = cases.map(() => [] as number[]);
  for (let round = 0; round <= rounds; round++) {
    await prepareLimits(sql, dataSet);
    for (let turn = 0; turn < REQUESTS; turn++) {
      for (const [n, { name, query, status, keys }] of cases.entries()) {
        const headers = { Authorization: `Bearer ${keys[turn % keys.length]?.token}` };
        const start = performance.now();
        const response = await fetch(`${url}?${query}`, { headers });
        await response.bytes();
        if (response.status !== status) throw new Error(`${name}: status ${response.status}`);
        if (round) times[n]?.push(performance.now() - start);
      }
    }
  }
  console.log(`\nReads of ${dataSet.entries.toLocaleString("en")} entries, one request at a time`);
  printHead("case", "milliseconds", "against one day");
  const [first = NaN] = times.map(median);
  for (const [n, { name }] of cases.entries()) {
    const latency = median(times[n]);
    printRow(name, latency.toFixed(2), (latency / first).toFixed(2));
  }
}

/** Prints how many blocks Postgres reads for pages of persons, and its processor time. */
async function measurePersons(stack: BenchStack, { organizationId: id, entries }: DataSet) {
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
      const page_offset = offsetOf(counts[n] ?? 0);
      cells.push(
        await priceOf(stack, id, { ...DATES, user_email: addressOf(person), page_offset }),
      );
    }
    printRow(name, ...cells);
  }
}

/** Prints what pages within an hour of 50,000 entries read. */
async function measureHour(stack: BenchStack) {
  const { id } = await addOrganization(stack.sql);
  await insertEntries(stack.sql, id, "2025-07-01 10:00", 50_000, { every: "70 milliseconds" });
  await stack.sql`vacuum (analyze) audit_log.audit_entries`;
  console.log("\nAn hour of 50,000 entries: the same for pages of 100");
  const hour = { start_date: "2025-07-01", end_date: "2025-07-01" };
  const part = { ...hour, since: "2025-07-01T10:01:00Z", until: "2025-07-01T10:58:00Z" };
  const cases = {
    "the day": hour,
    "57 minutes of it": part,
    "… and one action": { ...part, actions: ["agent_added"] },
    "… and two actions": { ...part, actions: ["agent_added", "feedback_given"] },
  };
  printHead("what", "first page", "15,000 deep");
  for (const [name, query] of Object.entries(cases)) {
    const price = (page_offset: number) => priceOf(stack, id, { ...query, page_offset });
    printRow(name, await price(0), await price(15_000));
  }
  await stack.sql`delete from audit_log.audit_entries where organization_id = ${id}`;
}

/** The blocks that a page reads, and its processor time. */
async function priceOf(
  stack: BenchStack,
  organizationId: string,
  query: Parameters<typeof queryOf>[0],
): Promise<string> {
  const call = `audit_log_private.read_page('${organizationId}', ${queryOf(query)})`;
  const processor = await costOf(stack, `perform ${call}`, 5);
  const [row] = await stack.sql.unsafe(
    `explain (analyze, buffers, format json) select ${call}`,
  );
  const { Plan } = row?.["QUERY PLAN"][0];
  const blocks = Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"];
  return `${blocks}, ${processor.toFixed(1)} ms`;
}

async function prepareLimits(sql: Sql, { exhaustedKeys }: DataSet): Promise<void> {
  await resetLimits(sql);
  for (const { apiKeyId } of exhaustedKeys) await exhaust(sql, apiKeyId);
}
