import { parseArgs } from "node:util";
import postgres from "postgres";
import { type EdgeFunction, startEdgeFunction } from "../local/edge_function.ts";
import { measureColdStarts } from "./cold_start.ts";
import { measureCpuTime } from "./cpu_time.ts";
import { type DataSet, makeDataSet } from "./data_set.ts";
import { load, sendRequests } from "./load.ts";
import { byTurns, median, printHead, printRow, ratios, spread } from "./report.ts";
import { startBenchStack } from "./stack.ts";

const { values: flags } = parseArgs({
  options: {
    /** Also ten million entries; their making takes some minutes, once. */
    "ten-million": { type: "boolean", default: false },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "2" },
  },
});
const ROUNDS = Number(flags.rounds);
const SECONDS = Number(flags.seconds);

/** A well-formed token that no key has. */
const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const DAY = "start=2025-07-01&end=2025-07-01";
const YEAR = "start=2025-01-01&end=2025-12-31";
const PERSON = "user7%40example.com";
const FIRST = "one day, first page";

function casesOf({ entries, tokens, exhaustedToken }: DataSet) {
  const ofAction = `${YEAR}&action=feedback_given`;
  const deepOfAction = Math.floor(entries * 0.08 * 0.9);
  return [
    { name: FIRST, query: DAY, status: 200, tokens },
    { name: "year, first page", query: YEAR, status: 200, tokens },
    { name: "year, 90 % deep", query: `${YEAR}&offset=${entries * 0.9}`, status: 200, tokens },
    { name: "one action", query: ofAction, status: 200, tokens },
    {
      name: "one action, 90 % deep",
      query: `${ofAction}&offset=${deepOfAction}`,
      status: 200,
      tokens,
    },
    { name: "one of 50 persons", query: `${YEAR}&user_email=${PERSON}`, status: 200, tokens },
    { name: "401", query: DAY, status: 401, tokens: [UNKNOWN_TOKEN] },
    { name: "429", query: DAY, status: 429, tokens: [exhaustedToken] },
  ];
}

const FUNCTION = new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url);

await main();
Deno.exit();

async function main(): Promise<void> {
  console.log("Cold start: from a new process to its first answer, in milliseconds");
  await measureColdStarts(ROUNDS * 2);

  await using stack = await startBenchStack();
  const sql = postgres(stack.databaseUrl, { onnotice: () => {} });
  await using started = new AsyncDisposableStack();
  const start = async (main: URL) =>
    started.use(await startEdgeFunction({ ...stack, main, log: () => {} }));
  const [ours, floor] = [await start(FUNCTION), await start(new URL("floor.ts", import.meta.url))];
  const threeCalls = await start(new URL("three_calls.ts", import.meta.url));
  const handlers = { "function": ours, "three calls": threeCalls, floor };
  await measureReads(sql, await makeDataSet(sql, 10_000), handlers);
  const million = await makeDataSet(sql, 1_000_000);
  await measureReads(sql, million, handlers);
  await measureCpuTime(sql, million, {
    gatewayPid: stack.pid,
    handlers: { "function": ours, floor },
    rounds: ROUNDS,
    seconds: SECONDS,
    resetLimits: () => resetLimits(sql, million),
  });
  if (flags["ten-million"]) {
    // Of ten million, eight deep pages at a time by the three-call handler end in time-outs.
    const tenMillion = await makeDataSet(sql, 10_000_000);
    await measureReads(sql, tenMillion, { "function": ours, floor });
  }
  await sql.end();
}

/** Handlers and cases take turns within each round. */
async function measureReads(
  sql: postgres.Sql,
  dataSet: DataSet,
  handlers: Record<string, EdgeFunction>,
): Promise<void> {
  const entries = dataSet.entries.toLocaleString("en");
  console.log(`\nReads of ${entries} entries, answers a second over 8 connections`);
  const cases = casesOf(dataSet);
  const subjects = cases
    .flatMap((each) => Object.keys(handlers).map((handler) => ({ ...each, handler })))
    .filter(({ handler, name }) => handler !== "floor" || name === FIRST);
  const seen = await byTurns(ROUNDS, subjects, async (subject, round) => {
    await resetLimits(sql, dataSet);
    const { throughput } = await load({
      ...subject,
      url: `http://127.0.0.1:${handlers[subject.handler]?.port}/public-audit-log?${subject.query}`,
      connections: 8,
      seconds: round ? SECONDS : SECONDS / 4,
    });
    return throughput;
  });
  const throughputs = (handler: string, name: string) => {
    const subject = subjects.find((each) => each.handler === handler && each.name === name);
    return subject ? seen.get(subject) : [];
  };
  const alone = await measureAlone(sql, dataSet, handlers["function"]?.port);
  printHead("case", "function, 1/s", "three calls, 1/s", "ratio", "alone, ms", "against one day");
  for (const { name } of cases) {
    const [ours, theirs] = [throughputs("function", name), throughputs("three calls", name)];
    const [latency = NaN, first = NaN] = [alone.get(name), alone.get(FIRST)];
    const ratio = spread(ratios(ours, theirs), 1);
    printRow(
      name,
      spread(ours),
      spread(theirs),
      ratio,
      latency.toFixed(2),
      (latency / first).toFixed(2),
    );
  }
  const floor = throughputs("floor", FIRST);
  const share = spread(ratios(throughputs("function", FIRST), floor), 2);
  console.log(
    `\nFloor: ${spread(floor)} answers a second; one day's first page is ${share} of it.`,
  );
}

/**
 * The median latency of each case over one connection, in milliseconds. The cases take turns with each request,
 * so that all of them meet the same moments of a noisy machine.
 *
 * @throws {Error} if an answer has another status.
 */
async function measureAlone(
  sql: postgres.Sql,
  dataSet: DataSet,
  port: number | undefined,
): Promise<Map<string, number>> {
  const cases = casesOf(dataSet);
  const turns = ROUNDS * 50;
  const requests = Array.from({ length: turns }, (_, turn) =>
    cases.map(({ query, tokens }) => ({
      path: `/public-audit-log?${query}`,
      headers: { Authorization: `Bearer ${tokens[turn % tokens.length]}` },
    }))).flat();
  await resetLimits(sql, dataSet);
  const { latencies, statuses, errors } = await sendRequests({
    url: `http://127.0.0.1:${port}`,
    connections: 1,
    amount: requests.length,
    requests,
  });
  for (const [status, { length }] of Map.groupBy(cases, ({ status }) => status)) {
    if (!errors && statuses.get(status) === length * turns) continue;
    throw new Error(
      `${errors} errors; ${statuses.get(status)} of ${length * turns} were ${status}`,
    );
  }
  return new Map(cases.map(({ name }, i) => [
    name,
    median(latencies.filter((_, n) => n % cases.length === i)),
  ]));
}

/** So that no request meets its limit, but those that shall. */
async function resetLimits(sql: postgres.Sql, dataSet: DataSet): Promise<void> {
  await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
  await sql`truncate audit_log.bench_request_counts`;
  await sql`
    update audit_log_private.rate_limits
    set accepted_at = array_fill(clock_timestamp(), array[60])
    from audit_log_private.api_key_hashes h
    where h.api_key_id = rate_limits.api_key_id
      and h.token_hash = sha256(convert_to(${dataSet.exhaustedToken}, 'UTF8'))`;
  await sql`
    insert into audit_log.bench_request_counts
    select k.id, date_trunc('minute', now()) + n * interval '1 minute', 60
    from audit_log.bench_api_keys k, generate_series(0, 1) as n
    where k.key_hash = encode(sha256(convert_to(${dataSet.exhaustedToken}, 'UTF8')), 'hex')
    on conflict (api_key_id, minute) do update set requests = excluded.requests`;
}
