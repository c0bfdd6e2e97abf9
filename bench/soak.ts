import { parseArgs } from "node:util";
import { setTimeout as pause } from "node:timers/promises";
import postgres from "postgres";
import { Constants } from "../supabase/functions/public-audit-log/database.types.ts";
import { pick, randomFrom } from "../tests/random.ts";
import {
  type FunctionUnderLoad,
  makeKeys,
  residentMemory,
  startFunctionUnderLoad,
} from "./function_under_load.ts";
import { sendRequests, type Sent } from "./load.ts";
import { median } from "./report.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
  },
});
const SECONDS = Number(flags.seconds);

/** Requests a second, over all keys. */
const RATE = 150;
const KEYS = 200;
const WRITERS = 4;
/** Entries are written for today and so many days before it; those of the last of them are deleted. */
const DAYS = 7;
const ACTIONS = Constants.public.Enums.audit_action;
const ORGANIZATIONS = Array.from({ length: 10 }, () => crypto.randomUUID());
/** A well-formed token that no key has. */
const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const TABLES = ["public.audit_entries", "private.entry_counts", "private.rate_limits"];
const STATUSES = [200, 400, 401, 429];

/** The last third of the run may have so much more memory in use than the third before it. */
const MAX_MEMORY_GROWTH = 1.1;

/** For about a minute V8's heap grows to its size, in seconds; shorter runs say nothing of memory. */
const WARM_UP = 180;
/** Sixty times are half a kilobyte; with the room for new versions, and a page each at the most. */
const MAX_BYTES_A_KEY = 8192;

const random = randomFrom(Date.now());

/** What the run has done, besides sending requests. */
const done = { written: 0, deleted: 0, compactions: 0, connections: 0 };

interface Verdict {
  holds: boolean;
  text: string;
}

const verdicts = await main();
for (const { holds, text } of verdicts) console.log(`${holds ? "ok    " : "FAILED"} ${text}`);
Deno.exit(verdicts.every(({ holds }) => holds) ? 0 : 1);

async function main(): Promise<Verdict[]> {
  console.log("Starting a stack …");
  await using load = await startFunctionUnderLoad();
  const { sql } = load;
  const tokens: string[] = [];
  for (const id of ORGANIZATIONS) {
    tokens.push(...await makeKeys(sql, id, KEYS / ORGANIZATIONS.length));
  }
  console.log(
    `${SECONDS} s: ${RATE} requests a second on ${KEYS} keys of ${ORGANIZATIONS.length} ` +
      `organizations, ${WRITERS} writers, compactions and deletions`,
  );
  const end = performance.now() + SECONDS * 1000;
  const [sent, memory] = await Promise.all([
    readEntries(load.url, tokens),
    watchMemory(load, end),
    housekeep(sql, end),
    ...Array.from({ length: WRITERS }, () => writeEntries(load.stack.databaseUrl, end)),
  ]);
  console.table({ ...Object.fromEntries(sent.statuses), ...done });
  return [
    judgeAnswers(sent, load.faults),
    ...await judgeTables(sql),
    judgeMemory(memory),
  ];
}

/** The requests, evenly spread over time and keys: most are right and within their limit. */
function readEntries(url: string, tokens: string[]): Promise<Sent> {
  const { pathname } = new URL(url);
  const range = `start=${day(DAYS)}&end=${day(0)}`;
  const requests = Array.from({ length: 20 * KEYS }, (_, n) => {
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
  return sendRequests({ url, connections: 8, duration: SECONDS, overallRate: RATE, requests });
}

/** A day before today, UTC. */
function day(daysAgo: number): string {
  return new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
}

/** Some twenty statements a second, each of one to five entries; a new connection now and then. */
async function writeEntries(databaseUrl: string, end: number): Promise<void> {
  while (performance.now() < end) {
    const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
    done.connections++;
    const reconnect = Math.min(end, performance.now() + SECONDS * 1000 / 10);
    while (performance.now() < reconnect) {
      const { count } = await sql`
        insert into public.audit_entries
          (organization_id, created_at, action, user_email, agent_name, data)
        select
          ${pick(random, ORGANIZATIONS)}, now() - ${random(DAYS + 1)} * interval '1 day',
          ${pick(random, ACTIONS)}::public.audit_action, 'ada@example.com', 'Assistant',
          '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'
        from generate_series(0, ${random(5)}::int)`;
      done.written += count;
      await pause(50);
    }
    await sql.end();
  }
}

/** What pg_cron does, and retention: ten times in a run, at most once a minute. */
async function housekeep(sql: postgres.Sql, end: number): Promise<void> {
  const every = Math.max(1, Math.min(60, SECONDS / 10)) * 1000;
  while (performance.now() + every < end) {
    await pause(every);
    await sql`select private.compact_entry_counts()`;
    done.compactions++;
    const { count } = await sql`
      delete from public.audit_entries
      where organization_id = ${pick(random, ORGANIZATIONS)}
        and created_at < ${`${day(DAYS - 1)}T00:00:00Z`}`;
    done.deleted += count;
  }
}

/** The memory of the function's process in MiB, once a second; says how far the run is. */
async function watchMemory({ edgeFunction }: FunctionUnderLoad, end: number): Promise<number[]> {
  const memory: number[] = [];
  while (performance.now() < end) {
    memory.push(await residentMemory(edgeFunction.pid));
    if (memory.length % 30 === 0) {
      console.log(
        `  ${memory.length} s, ${done.written} entries, ${memory.at(-1)?.toFixed(0)} MiB`,
      );
    }
    await pause(1000);
  }
  return memory;
}

function judgeAnswers({ statuses, errors }: Sent, faults: string[]): Verdict {
  const others = Array.from(statuses.keys()).filter((status) => !STATUSES.includes(status));
  const missing = STATUSES.filter((status) => !statuses.has(status));
  return {
    holds: others.length + missing.length + errors + faults.length === 0,
    text:
      `only ${STATUSES.join(", ")}, and each of them; others: ${others.join(", ") || "none"}; ` +
      `requests without an answer: ${errors} ${faults[0] ?? ""}`,
  };
}

async function judgeTables(sql: postgres.Sql): Promise<Verdict[]> {
  // What a session has done is otherwise reported a second later, and would count as done after vacuum.
  await sql`select private.compact_entry_counts(), pg_stat_force_next_flush()`;
  await sql.unsafe(`vacuum (analyze) ${TABLES.join(", ")}`);
  const dead = await sql`
    select relid::regclass as name, n_dead_tup::int as dead, n_live_tup::int as live from pg_stat_user_tables
    where relid = any (${TABLES}::regclass[]) and n_dead_tup > n_live_tup / 10`;
  const [found] = await sql`
    select
      (select count(*)::int
        from unnest(${ORGANIZATIONS}::uuid[]) as o, private.entry_count_mismatches(o)) as mismatches,
      count(*) filter (where day < (now() at time zone 'UTC')::date)::int as past,
      count(*) filter (where day >= (now() at time zone 'UTC')::date)::int as today,
      (select count(*)::int from private.api_keys) as keys,
      (select count(*)::int from private.rate_limits) as counters,
      (select max(cardinality(accepted_at))::int from private.rate_limits) as most,
      pg_total_relation_size('private.rate_limits')::int as bytes
    from private.entry_counts where organization_id = any (${ORGANIZATIONS}::uuid[])`;
  const { mismatches, past, today, keys, counters, most, bytes } = found ?? {};
  const mostPast = ORGANIZATIONS.length * DAYS * ACTIONS.length;
  const mostToday = ORGANIZATIONS.length * ACTIONS.length * done.connections;
  return [
    { holds: mismatches === 0, text: `wrong counts: ${mismatches}` },
    {
      holds: counters === keys && most <= 60,
      text: `one counter for each key: ${counters} for ${keys}, of at most 60 times: ${most}`,
    },
    {
      holds: bytes <= keys * MAX_BYTES_A_KEY,
      text: `counters take ${
        bytes / KEYS
      } bytes a key with their index, at most ${MAX_BYTES_A_KEY}`,
    },
    {
      holds: past <= mostPast && today <= mostToday,
      text: `compacted, days that are over have ${past} counts, at most ${mostPast} ` +
        `(organizations × days × actions); today ${today}, at most ${mostToday} ` +
        `(× connections that wrote)`,
    },
    {
      // A few, of requests that were under way when the time was up.
      holds: dead.length === 0,
      text: `vacuum takes the dead tuples away, as nothing holds an old snapshot: ${
        JSON.stringify(dead)
      }`,
    },
  ];
}

function judgeMemory(memory: number[]): Verdict {
  const third = Math.ceil(memory.length / 3);
  const growth = median(memory.slice(2 * third)) / median(memory.slice(third, 2 * third));
  return {
    holds: growth <= MAX_MEMORY_GROWTH || memory.length < WARM_UP,
    text: `memory in the last third of the run is ${growth.toFixed(2)} of the third before it, ` +
      `at most ${MAX_MEMORY_GROWTH} in runs of ${WARM_UP} seconds and more`,
  };
}
