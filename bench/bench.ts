import { parseArgs } from "node:util";
import postgres from "postgres";
import { type EdgeFunction, startEdgeFunction } from "../local/edge_function.ts";
import { measureColdStarts } from "./cold_start.ts";
import { type DataSet, makeDataSet } from "./data_set.ts";
import { load, median, sendRequests } from "./load.ts";
import { measureCpuTime } from "./cpu_time.ts";
import { startBenchStack } from "./stack.ts";
import { measureDeadlocks, measureWrites } from "./writes.ts";

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

interface Case {
  name: string;
  query: string;
  status: number;
  tokens: (dataSet: DataSet) => string[];
}

/** A well-formed token that no key has. */
const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const DAY = "start=2025-07-01&end=2025-07-01";
const YEAR = "start=2025-01-01&end=2025-12-31";

function casesOf({ entries }: DataSet): Case[] {
  const tokens = ({ tokens }: DataSet) => tokens;
  return [
    { name: "one day, first page", query: DAY, status: 200, tokens },
    { name: "year, first page", query: YEAR, status: 200, tokens },
    { name: "year, 90 % deep", query: `${YEAR}&offset=${entries * 0.9}`, status: 200, tokens },
    { name: "one action", query: `${YEAR}&action=feedback_given`, status: 200, tokens },
    {
      name: "one action, 90 % deep",
      query: `${YEAR}&action=feedback_given&offset=${Math.floor(entries * 0.08 * 0.9)}`,
      status: 200,
      tokens,
    },
    { name: "401", query: DAY, status: 401, tokens: () => [UNKNOWN_TOKEN] },
    {
      name: "429",
      query: DAY,
      status: 429,
      tokens: ({ exhaustedToken }) => [exhaustedToken],
    },
  ];
}

const HANDLERS = {
  "function": new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url),
  "three calls": new URL("three_calls.ts", import.meta.url),
  "floor": new URL("floor.ts", import.meta.url),
};
type Handler = keyof typeof HANDLERS;

await main();
Deno.exit();

async function main(): Promise<void> {
  console.log("Cold start: from a new process to its first answer, in milliseconds");
  await measureColdStarts(ROUNDS * 2);

  // Twice, because the Data API's stand-in reads the schema once.
  await applySql();
  await using stack = await startBenchStack();
  const sql = postgres(stack.databaseUrl, { onnotice: () => {} });
  await using handlers = new AsyncDisposableStack();
  const started = new Map<Handler, EdgeFunction>();
  for (const [name, main] of Object.entries(HANDLERS)) {
    const handler: EdgeFunction = handlers.use(
      await startEdgeFunction({ ...stack, main, log: () => {} }),
    );
    started.set(name as Handler, handler);
  }
  await measureReads(sql, await makeDataSet(sql, 10_000), started);
  const million = await makeDataSet(sql, 1_000_000);
  await measureReads(sql, million, started);
  await measureCpuTime(sql, million, {
    gatewayPid: stack.pid,
    handlers: { function: started.get("function"), floor: started.get("floor") },
    rounds: ROUNDS,
    seconds: SECONDS,
    resetLimits: () => resetLimits(sql, million),
  });
  if (flags["ten-million"]) {
    // Of ten million, eight deep pages at a time by the three-call handler end in time-outs.
    started.delete("three calls");
    await measureReads(sql, await makeDataSet(sql, 10_000_000), started);
  }
  await measureWrites(sql, stack.databaseUrl, ROUNDS);
  await measureDeadlocks(sql, stack.databaseUrl);
  await sql.end();
}

async function applySql(): Promise<void> {
  await using stack = await startBenchStack();
  const sql = postgres(stack.databaseUrl, { onnotice: () => {} });
  await sql.unsafe(await Deno.readTextFile(new URL("three_calls.sql", import.meta.url)));
  await sql.end();
}

/** Handlers and cases take turns within each round. */
async function measureReads(
  sql: postgres.Sql,
  dataSet: DataSet,
  handlers: Map<Handler, EdgeFunction>,
): Promise<void> {
  console.log(
    `\nReads of ${
      dataSet.entries.toLocaleString("en")
    } entries, answers a second over 8 connections`,
  );
  const cases = casesOf(dataSet);
  const throughputs = new Map<string, number[]>();
  const latencies = new Map<string, number[]>();
  // Round 0 warms up and is not counted.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { name, query, status, tokens } of cases) {
      const seen: string[] = [];
      // Forwards in one round, backwards in the next.
      const order = Array.from(handlers.keys());
      for (const handler of round % 2 ? order : order.reverse()) {
        if (handler === "floor" && name !== "one day, first page") continue;
        const options = {
          url: `http://127.0.0.1:${handlers.get(handler)?.port}/public-audit-log?${query}`,
          tokens: tokens(dataSet),
          status: handler === "floor" ? 200 : status,
        };
        await resetLimits(sql, dataSet);
        if (round === 0) {
          await load({ ...options, connections: 8, seconds: SECONDS / 4 });
          continue;
        }
        const { throughput } = await load({ ...options, connections: 8, seconds: SECONDS });
        add(throughputs, `${handler} ${name}`, throughput);
        seen.push(`${handler} ${throughput.toFixed(0)}`);
      }
      if (round) console.log(`  round ${round}/${ROUNDS}  ${name.padEnd(22)} ${seen.join(", ")}`);
    }
    await resetLimits(sql, dataSet);
    const alone = await measureAlone(handlers.get("function")?.port, cases, dataSet);
    if (round) {
      for (const [name, times] of alone) {
        latencies.set(name, [...latencies.get(name) ?? [], ...times]);
      }
    }
  }
  const day = "one day, first page";
  const rounds = (name: string) => throughputs.get(name) ?? [];
  const alone = (name: string) => median(latencies.get(name) ?? []);
  console.log(
    "\n| case | function, 1/s | three calls, 1/s | ratio | alone, ms | against one day |",
  );
  console.log("| --- | ---: | ---: | ---: | ---: | ---: |");
  for (const { name } of cases) {
    const [ours, theirs] = [rounds(`function ${name}`), rounds(`three calls ${name}`)];
    const cells = [name, spread(ours), spread(theirs), spread(ratios(ours, theirs), 1)];
    console.log(
      `| ${cells.join(" | ")} | ${alone(name).toFixed(2)} | ${
        (alone(name) / alone(day)).toFixed(2)
      } |`,
    );
  }
  const floor = rounds(`floor ${day}`);
  console.log(
    `\nFloor: ${spread(floor)} answers a second; one day's first page is ` +
      `${spread(ratios(rounds(`function ${day}`), floor), 2)} of it.`,
  );
}

/**
 * Latencies of each case over one connection, in milliseconds. The cases take turns with each request, so that
 * all of them meet the same moments of a noisy machine.
 *
 * @throws {Error} if a case has another status.
 */
async function measureAlone(
  port: number | undefined,
  cases: Case[],
  dataSet: DataSet,
): Promise<Map<string, number[]>> {
  const turns = 100;
  const requests = Array.from({ length: turns }, (_, turn) =>
    cases.map(({ query, tokens }) => ({
      path: `/public-audit-log?${query}`,
      headers: { Authorization: `Bearer ${tokens(dataSet).at(turn % tokens(dataSet).length)}` },
    }))).flat();
  const { latencies, statuses, errors } = await sendRequests({
    url: `http://127.0.0.1:${port}`,
    connections: 1,
    amount: requests.length,
    requests,
  });
  const expected = Map.groupBy(cases, ({ status }) => status);
  for (const [status, { length }] of expected) {
    if (!errors && statuses.get(status) === length * turns) continue;
    throw new Error(
      `Alone: ${errors} errors, ${statuses.get(status)} of ${length * turns} were ${status}`,
    );
  }
  return new Map(
    cases.map(({ name }, i) => [name, latencies.filter((_, n) => n % cases.length === i)]),
  );
}

/** So that no request meets its limit, but those that shall. */
async function resetLimits(sql: postgres.Sql, dataSet: DataSet): Promise<void> {
  await sql`update private.rate_limits set accepted_at = '{}'`;
  await sql`truncate public.bench_request_counts`;
  await sql`
    update private.rate_limits
    set accepted_at = array(select clock_timestamp() from generate_series(1, 60))
    from private.api_key_hashes h
    where h.api_key_id = rate_limits.api_key_id
      and h.token_hash = sha256(convert_to(${dataSet.exhaustedToken}, 'UTF8'))`;
  await sql`
    insert into public.bench_request_counts
    select k.id, date_trunc('minute', now()) + n * interval '1 minute', 60
    from public.bench_api_keys k, generate_series(0, 1) as n
    where k.key_hash = encode(sha256(convert_to(${dataSet.exhaustedToken}, 'UTF8')), 'hex')
    on conflict (api_key_id, minute) do update set requests = excluded.requests`;
}

function add(values: Map<string, number[]>, name: string, value: number): void {
  values.set(name, [...values.get(name) ?? [], value]);
}

/** The quotients of two lists, round by round. */
function ratios(values: number[], others: number[]): number[] {
  return others.map((other, round) => (values[round] ?? NaN) / other);
}

/** Median, and the lowest and the highest round. */
function spread(values: number[], digits = 0): string {
  if (values.length === 0) return "–";
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
}
