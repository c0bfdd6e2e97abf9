// @ts-types="npm:@types/autocannon@7.12.7"
import autocannon from "npm:autocannon@9.0.0";
import { parseArgs } from "node:util";
import postgres from "postgres";
import { Constants } from "../supabase/functions/public-audit-log/database.types.ts";
import {
  type FunctionUnderLoad,
  makeKeys,
  residentMemory,
  startFunctionUnderLoad,
} from "./function_under_load.ts";
import { median } from "./load.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    /** Requests a second, over all keys. */
    rate: { type: "string", default: "150" },
  },
});
const SECONDS = Number(flags.seconds);
const RATE = Number(flags.rate);

const KEYS = 200;
const CONNECTIONS = 8;
const WRITERS = 4;
/** Entries are written for today and so many days before it; those of the last of them are deleted. */
const DAYS = 7;
const ACTIONS = Constants.public.Enums.audit_action;
const ORGANIZATIONS = Array.from({ length: 10 }, () => crypto.randomUUID());
/** A well-formed token that no key has. */
const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const TABLES = ["public.audit_entries", "private.entry_counts", "private.rate_limits"];

/** The last third of the run may have so much more memory in use than the third before it. */
const MAX_MEMORY_GROWTH = 1.1;

/** For about a minute V8's heap grows to its size, in seconds; shorter runs say nothing of memory. */
const WARM_UP = 180;
/** Sixty times are half a kilobyte; with the room for new versions, and a page each at the most. */
const MAX_BYTES_A_KEY = 8192;

/** All that the run has seen. */
interface Seen {
  statuses: Map<number, number>;
  latencies: number[];
  errors: number;
  /** Of the function's process, in MiB, once a second. */
  memory: number[];
  written: number;
  deleted: number;
  folds: number;
  /** How many connections have written. */
  connections: number;
  /** The most dead tuples that were seen in each table. */
  mostDead: Map<string, number>;
}

interface TableState {
  name: string;
  rows: number;
  tableBytes: number;
  indexBytes: number;
  dead: number;
  autovacuums: number;
  hotShare: number;
}

const verdicts = await main();
for (const { holds, text } of verdicts) console.log(`${holds ? "ok    " : "FAILED"} ${text}`);
Deno.exit(verdicts.every(({ holds }) => holds) ? 0 : 1);

interface Verdict {
  holds: boolean;
  text: string;
}

async function main(): Promise<Verdict[]> {
  console.log("Starting a stack …");
  await using load = await startFunctionUnderLoad();
  const { sql, edgeFunction } = load;
  const tokens: string[] = [];
  for (const id of ORGANIZATIONS) {
    tokens.push(...await makeKeys(sql, id, KEYS / ORGANIZATIONS.length));
  }
  const seen: Seen = {
    statuses: new Map(),
    latencies: [],
    errors: 0,
    memory: [],
    written: 0,
    deleted: 0,
    folds: 0,
    connections: 0,
    mostDead: new Map(),
  };
  const before = await tableStates(sql);
  console.log(
    `${SECONDS} s: ${RATE} requests a second on ${KEYS} keys of ${ORGANIZATIONS.length} ` +
      `organizations, ${WRITERS} writers, folds and deletions`,
  );
  const end = performance.now() + SECONDS * 1000;
  const watching = watch(load, seen, end);
  await Promise.all([
    readEntries(load.url, tokens, seen),
    ...Array.from({ length: WRITERS }, () => writeEntries(load.stack.databaseUrl, seen, end)),
    housekeep(sql, seen, end),
    watching,
  ]);
  seen.memory.push(await residentMemory(edgeFunction.pid));
  // What a session has done is otherwise reported a second later, and would count as done after vacuum.
  await sql`select private.compact_entry_counts(), pg_stat_force_next_flush()`;
  seen.folds++;

  const after = await tableStates(sql);
  await sql.unsafe(`vacuum (analyze) ${TABLES.join(", ")}`);
  const vacuumed = await tableStates(sql);
  printTables(seen, before, after, vacuumed);
  return await judge(load, seen, vacuumed);
}

/** The requests, evenly spread over time and keys: most are right and within their limit. */
function readEntries(url: string, tokens: string[], seen: Seen): Promise<void> {
  const { pathname } = new URL(url);
  const range = `start=${day(DAYS)}&end=${day(0)}`;
  const requests = Array.from({ length: 20 * KEYS }, (_, n): autocannon.Request => {
    const token = tokens[(n * 7) % KEYS] ?? "";
    const [query, sent] = [
      [`${range}&limit=10`, token],
      [`${range}&action=${ACTIONS[n % ACTIONS.length]}`, token],
      [`${range}&order=desc&offset=${n}`, token],
      [`start=${day(n % DAYS)}&end=${day(n % DAYS)}&limit=100`, token],
      [`${range}&limit=1000&offset=100`, token],
      [`start=2026-02-30&end=x&limit=0`, token],
      [range, "pck_typo"],
      [range, UNKNOWN_TOKEN],
      // One key asks for far more than it may.
      [range, tokens[0] ?? ""],
      [`${range}&limit=1`, token],
    ][n % 10] ?? [];
    return { path: `${pathname}?${query}`, headers: { Authorization: `Bearer ${sent}` } };
  });
  return new Promise((resolve, reject) => {
    const instance = autocannon(
      {
        url,
        connections: CONNECTIONS,
        duration: SECONDS,
        overallRate: RATE,
        timeout: 10,
        requests,
      },
      (error: unknown, result: autocannon.Result) => {
        if (error) return reject(error);
        seen.errors = result.errors + result.timeouts;
        resolve();
      },
    );
    instance.on("response", (_client, status, _bytes, milliseconds) => {
      seen.statuses.set(status, (seen.statuses.get(status) ?? 0) + 1);
      seen.latencies.push(milliseconds);
    });
  });
}

/** A day before today, UTC. */
function day(daysAgo: number): string {
  return new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
}

/** Some twenty statements a second, each of one to five entries; a new connection now and then. */
async function writeEntries(databaseUrl: string, seen: Seen, end: number): Promise<void> {
  while (performance.now() < end) {
    await using sql = disposable(postgres(databaseUrl, { max: 1, onnotice: () => {} }));
    seen.connections++;
    const reconnect = Math.min(end, performance.now() + SECONDS * 1000 / 10);
    while (performance.now() < reconnect) {
      const days = Math.floor(Math.random() * (DAYS + 1));
      const entries = 1 + Math.floor(Math.random() * 5);
      const { count } = await sql.run`
        insert into public.audit_entries
          (organization_id, created_at, action, user_email, agent_name, data)
        select
          ${pick(ORGANIZATIONS)}, now() - ${days} * interval '1 day',
          ${pick(ACTIONS)}::public.audit_action, 'ada@example.com', 'Assistant',
          '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'
        from generate_series(1, ${entries}::int)`;
      seen.written += count;
      await pause(50);
    }
  }
}

function disposable(run: postgres.Sql) {
  return { run, [Symbol.asyncDispose]: () => run.end() };
}

function pick(values: readonly string[]): string {
  return values[Math.floor(Math.random() * values.length)] ?? "";
}

/** What pg_cron does, and retention: ten times in a run, at most once a minute. */
async function housekeep(sql: postgres.Sql, seen: Seen, end: number): Promise<void> {
  const every = Math.max(1, Math.min(60, SECONDS / 10)) * 1000;
  for (let next = performance.now() + every; next < end; next += every) {
    await pause(next - performance.now());
    await sql`select private.compact_entry_counts()`;
    seen.folds++;
    const oldest = `${day(DAYS - 1)}T00:00:00Z`;
    const { count } = await sql`
      delete from public.audit_entries
      where organization_id = ${pick(ORGANIZATIONS)} and created_at < ${oldest}`;
    seen.deleted += count;
  }
}

/** Takes the memory once a second, and shows how far the run is. */
async function watch({ sql, edgeFunction }: FunctionUnderLoad, seen: Seen, end: number) {
  const terminal = Deno.stdout.isTerminal();
  const start = end - SECONDS * 1000;
  const lines = terminal ? SECONDS : Math.min(20, SECONDS);
  for (let second = 0; performance.now() < end; second++) {
    await pause(Math.min(start + second * 1000, end) - performance.now());
    seen.memory.push(await residentMemory(edgeFunction.pid));
    if (second % 5 === 0) {
      for (const { name, dead } of await tableStates(sql)) {
        seen.mostDead.set(name, Math.max(dead, seen.mostDead.get(name) ?? 0));
      }
    }
    const elapsed = (performance.now() - start) / 1000;
    if (second % Math.ceil(SECONDS / lines) !== 0) continue;
    const done = Math.min(1, elapsed / SECONDS);
    const bar = "█".repeat(Math.round(30 * done)).padEnd(30, "·");
    const requests = seen.latencies.length;
    const text =
      `  ${bar} ${elapsed.toFixed(0)} s, ${Math.max(0, SECONDS - elapsed).toFixed(0)} left, ` +
      `${requests} requests, ${(requests / Math.max(elapsed, 1)).toFixed(0)}/s, ` +
      `${seen.written} entries, ${seen.memory.at(-1)?.toFixed(0)} MiB`;
    if (terminal) Deno.stdout.writeSync(new TextEncoder().encode(`\r${text.padEnd(110)}`));
    else console.log(text);
  }
  if (terminal) console.log();
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, milliseconds)));
}

async function tableStates(sql: postgres.Sql): Promise<TableState[]> {
  const states: TableState[] = [];
  for (const name of TABLES) {
    const [row] = await sql<Omit<TableState, "name">[]>`
      select
        (select count(*)::int from ${sql(name)}) as rows,
        pg_table_size(relid)::int as "tableBytes",
        pg_indexes_size(relid)::int as "indexBytes",
        n_dead_tup::int as dead,
        autovacuum_count::int as autovacuums,
        n_tup_hot_upd::float / greatest(n_tup_upd, 1) as "hotShare"
      from pg_stat_user_tables where relid = ${name}::regclass`;
    if (row) states.push({ name, ...row });
  }
  return states;
}

function printTables(
  seen: Seen,
  before: TableState[],
  after: TableState[],
  vacuumed: TableState[],
): void {
  const sorted = seen.latencies.toSorted((a, b) => a - b);
  const percentile = (p: number) => sorted[Math.floor((sorted.length - 1) * p)]?.toFixed(1);
  const statuses = Array.from(seen.statuses).sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status}: ${count}`).join(", ");
  const memory = (mib = NaN) => `${mib.toFixed(1)} MiB`;
  const rows: [string, string][] = [
    ["requests", `${sorted.length}, ${(sorted.length / SECONDS).toFixed(0)} a second`],
    ["statuses", statuses],
    ["p50, p95, p99", `${[0.5, 0.95, 0.99].map(percentile).join(", ")} ms`],
    ["memory at start, end", `${memory(seen.memory[0])}, ${memory(seen.memory.at(-1))}`],
    [
      "median memory by thirds",
      thirds(seen.memory).map((third) => memory(median(third))).join(", "),
    ],
    ["entries written, deleted", `${seen.written}, ${seen.deleted}`],
    ["writing connections", `${seen.connections}`],
    ["folds", `${seen.folds}`],
  ];
  console.log(`\n| | |\n| --- | --- |`);
  for (const [name, value] of rows) console.log(`| ${name} | ${value} |`);
  console.log(
    "\n| table | rows | table, kB | indexes, kB | dead: most, at the end, after vacuum | autovacuums | HOT |" +
      "\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
  );
  const change = (from = 0, to = 0) => `${Math.round(from / 1024)} → ${Math.round(to / 1024)}`;
  after.forEach((end, i) => {
    const start = before[i];
    console.log(
      `| ${end.name} | ${start?.rows} → ${end.rows} ` +
        `| ${change(start?.tableBytes, end.tableBytes)} ` +
        `| ${change(start?.indexBytes, end.indexBytes)} ` +
        `| ${seen.mostDead.get(end.name)}, ${end.dead}, ${vacuumed[i]?.dead} ` +
        `| ${end.autovacuums} | ${(100 * end.hotShare).toFixed(0)} % |`,
    );
  });
  console.log();
}

function thirds(values: number[]): number[][] {
  const length = Math.ceil(values.length / 3);
  return [0, 1, 2].map((n) => values.slice(n * length, (n + 1) * length));
}

async function judge(
  { sql, faults }: FunctionUnderLoad,
  seen: Seen,
  vacuumed: TableState[],
): Promise<Verdict[]> {
  const others = Array.from(seen.statuses.keys())
    .filter((status) => ![200, 400, 401, 429].includes(status));
  const missing = [200, 400, 401, 429].filter((status) => !seen.statuses.has(status));
  const [errors] = await sql`
    select count(*)::int as n
    from unnest(${ORGANIZATIONS}::uuid[]) as o, private.entry_count_mismatches(o)`;
  const [counts] = await sql`
    select
      count(*) filter (where day < (now() at time zone 'UTC')::date)::int as past,
      count(*) filter (where day >= (now() at time zone 'UTC')::date)::int as today
    from private.entry_counts where organization_id = any (${ORGANIZATIONS}::uuid[])`;
  const [limits] = await sql`
    select max(cardinality(accepted_at))::int as most from private.rate_limits`;
  const [keys] = await sql`select count(*)::int as n from private.api_keys`;
  const rateLimits = vacuumed.find(({ name }) => name === "private.rate_limits");
  const bytes = (rateLimits?.tableBytes ?? NaN) + (rateLimits?.indexBytes ?? NaN);
  const [, middle = [], last = []] = thirds(seen.memory);
  const growth = median(last) / median(middle);
  const past = ORGANIZATIONS.length * DAYS * ACTIONS.length;
  const today = ORGANIZATIONS.length * ACTIONS.length * seen.connections;
  return [
    {
      holds: others.length === 0 && missing.length === 0 && seen.errors === 0 &&
        faults.length === 0,
      text:
        `only 200, 400, 401 and 429, and each of them; others: ${others.join(", ") || "none"}; ` +
        `requests without an answer: ${seen.errors} ${faults[0] ?? ""}`,
    },
    { holds: errors?.["n"] === 0, text: `every count is right; wrong: ${errors?.["n"]}` },
    {
      holds: rateLimits?.rows === keys?.["n"] && limits?.["most"] <= 60,
      text: `one counter for each key: ${rateLimits?.rows} for ${keys?.["n"]}, ` +
        `of at most 60 times: ${limits?.["most"]}`,
    },
    {
      holds: bytes <= (rateLimits?.rows ?? 0) * MAX_BYTES_A_KEY,
      text: `counters of keys take ${Math.round(bytes / (rateLimits?.rows ?? NaN))} bytes a key ` +
        `with their index, at most ${MAX_BYTES_A_KEY}`,
    },
    {
      holds: counts?.["past"] <= past && counts?.["today"] <= today,
      text: `folded, days that are over have ${counts?.["past"]} counts, at most ${past} ` +
        `(organizations × days × actions); today ${counts?.["today"]}, at most ${today} ` +
        `(× connections that wrote)`,
    },
    {
      // A few, of requests that were under way when the time was up.
      holds: vacuumed.every(({ dead, rows }) => dead <= rows / 10),
      text: "vacuum takes the dead tuples away: nothing holds an old snapshot",
    },
    {
      holds: growth <= MAX_MEMORY_GROWTH || seen.memory.length < WARM_UP,
      text: `memory in the last third of the run is ${growth.toFixed(2)} of the third before it, ` +
        `at most ${MAX_MEMORY_GROWTH} in runs of ${WARM_UP} seconds and more`,
    },
  ];
}
