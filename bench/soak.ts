import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import postgres from "postgres";
import { ACTIONS } from "../supabase/functions/public-audit-log/query_schema.ts";
import { pick, randomFrom } from "../tests/random.ts";
import { makeKeys, startFunctionUnderLoad } from "./function_under_load.ts";
import { sendRequests } from "./load.ts";
import { runUpkeep } from "./upkeep.ts";

// Reads, writes, upkeep and retention side by side: only lawful answers, exact counts, and nothing that
// keeps vacuum from its work. Whether the function's memory grows: memory.ts.

const { values: flags } = parseArgs({ options: { seconds: { type: "string", default: "600" } } });
const SECONDS = Number(flags.seconds);
/** Requests a second, over all keys. */
const RATE = 150;
const KEYS = 200;
const WRITERS = 4;
/** Entries are written for today and so many days before it; those of the last of them are deleted. */
const DAYS = 7;
const ORGANIZATIONS = Array.from({ length: 10 }, () => crypto.randomUUID());
const TABLES = [
  "audit_log.audit_entries",
  "audit_log_private.entry_counts",
  "audit_log_private.rate_limits",
];
const STATUSES = [200, 400, 401, 429];

const random = randomFrom(Date.now());
console.log("Starting a stack …");
await using load = await startFunctionUnderLoad();
const { sql } = load;
const tokens: string[] = [];
for (const id of ORGANIZATIONS) {
  tokens.push(...await makeKeys(sql, id, KEYS / ORGANIZATIONS.length));
}

console.log(`${SECONDS} s: ${RATE} requests a second, ${WRITERS} writers, upkeep and retention`);
const end = performance.now() + SECONDS * 1000;
const [{ statuses, errors }, deleted, ...written] = await Promise.all([
  readEntries(),
  housekeep(),
  ...Array.from({ length: WRITERS }, writeEntries),
]);
console.log({ answers: Object.fromEntries(statuses), written, deleted });

const faults = {
  "statuses that were missing, or should have been": [
    ...new Set(STATUSES).symmetricDifference(statuses),
  ],
  "requests without an answer": errors,
  "faults of the function": load.faults,
  "wrong counts": await sql`
    select * from unnest(${ORGANIZATIONS}::uuid[]) as o, audit_log_private.entry_count_mismatches(o)`,
  "tables that vacuum leaves dead tuples in": await deadTuples(),
};
for (const [what, seen] of Object.entries(faults)) {
  const holds = Array.isArray(seen) ? seen.length === 0 : seen === 0;
  if (!holds) Deno.exitCode = 1;
  console.log(`${holds ? "ok    " : "FAILED"} ${what}: ${JSON.stringify(seen)}`);
}

/** Sends requests, evenly spread over time and keys: most are right and within their limit. */
function readEntries() {
  const { pathname } = new URL(load.url);
  const range = `start=${day(DAYS)}&end=${day(0)}`;
  const requests = Array.from({ length: 20 * KEYS }, (_, n) => {
    const token = tokens[(n * 7) % KEYS];
    const [query, sent = token] = [
      [`${range}&limit=10`],
      [`${range}&action=${ACTIONS[n % ACTIONS.length]}`],
      [`${range}&order=desc&offset=${n}`],
      [`${range}&after=beginning`],
      [`start=${day(n % DAYS)}&end=${day(n % DAYS)}&limit=100`],
      [`${range}&limit=1000&offset=100`],
      [`start=2026-02-30&end=x&limit=0`],
      [range, "pck_typo"],
      // One key asks for far more than it may.
      [range, tokens[0]],
      [`${range}&limit=1`],
    ][n % 10] ?? [];
    return { path: `${pathname}?${query}`, headers: { Authorization: `Bearer ${sent}` } };
  });
  const options = { url: load.url, connections: 8, duration: SECONDS, overallRate: RATE };
  return sendRequests({ ...options, requests });
}

/** A day before today, UTC. */
function day(daysAgo: number): string {
  return new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
}

/** Writes one to five entries in a statement, some twenty times a second; how many. */
async function writeEntries(): Promise<number> {
  const sql = postgres(load.stack.databaseUrl, { max: 1 });
  let written = 0;
  while (performance.now() < end) {
    const { count } = await sql`
      insert into audit_log.audit_entries
        (organization_id, created_at, action, user_email, agent_name, data)
      select
        ${pick(random, ORGANIZATIONS)}, now() - ${random(DAYS + 1)} * interval '1 day',
        ${pick(random, ACTIONS)}, 'ada@example.com', 'Assistant',
        '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'
      from generate_series(0, ${random(5)}::int)`;
    written += count;
    await pause(50);
  }
  await sql.end();
  return written;
}

/** Does the upkeep and deletes old entries, ten times; how many were deleted. Says how far the run is. */
async function housekeep(): Promise<number> {
  let deleted = 0;
  for (let time = 1; time < 10; time++) {
    await pause(SECONDS * 100);
    await runUpkeep(sql);
    const { count } = await sql`
      delete from audit_log.audit_entries
      where organization_id = ${pick(random, ORGANIZATIONS)}
        and created_at < ${`${day(DAYS - 1)}T00:00:00Z`}`;
    deleted += count;
    console.log(`  ${10 * time} %`);
  }
  return deleted;
}

/** The tables of which more than a tenth is dead after vacuum: somebody holds an old snapshot. */
async function deadTuples() {
  // What a session has done is otherwise reported a second later, and would count as done after vacuum.
  await sql`select pg_stat_force_next_flush()`;
  await sql.unsafe(`vacuum (analyze) ${TABLES.join(", ")}`);
  return await sql`
    select relid::regclass as name, n_dead_tup::int as dead, n_live_tup::int as live
    from pg_stat_user_tables
    where relid = any (${TABLES}::regclass[]) and n_dead_tup > n_live_tup / 10`;
}
