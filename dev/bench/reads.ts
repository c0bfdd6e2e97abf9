import {
  addKeys,
  addOrganization,
  exhaust,
  insertEntries,
  LONGEST,
  runUpkeep,
  valueOf,
} from "../harness/project.ts";
import { peakOf } from "./processes.ts";
import { median, printHead, printRow } from "./report.ts";
import { ask, type Bench, resetLimits, startFunction } from "./stack.ts";

const [START, END] = ["2025-01-01", "2025-12-31"] as const;
export const YEAR = `start=${START}&end=${END}`;
const DATES = { start_date: START, end_date: END };
const DAY = "start=2025-07-01&end=2025-07-01";
/** The requests of a case in a round: few enough for the quotas of all keys. */
const REQUESTS = 50;
const DEEP = ", 90 % deep";
/** A page so deep may take so many times as long as the first. */
const DEEP_BOUND = 1.3;
const PERSON = "user100@example.com";
/** An import whose entries all have times of one hour, in another year. */
const IMPORTED = 200_000;
const IMPORT = "start=2024-07-01&end=2024-07-01";

/** So many are asked for, four at a time. */
const LARGEST_PAGES = 200;
/** In MiB. */
const MEMORY_BOUND = 130;

type Given = Record<string, string | number | string[]>;

export async function measureReads(bench: Bench): Promise<void> {
  const { id } = await addOrganization(bench.sql);
  await insertYear(bench, id);
  await insertImport(bench, id);
  await runUpkeep(bench.sql);
  await bench.sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
  await measureRequests(bench, id);
  await measureLargestPages(bench);
}

/** Spreads entries over a year, nine of ten between 8 and 18 o'clock. */
export async function insertYear({ sql, entries }: Bench, id: string): Promise<void> {
  for (let n = 0; n < entries; n += 50_000) {
    await sql.unsafe(`
      insert into audit_log.audit_entries
        (organization_id, created_at, action, user_email, agent_name, data)
      select
        '${id}',
        '2025-01-01Z'::timestamptz + floor(days) * interval '1 day'
          + case when n % 10 = 0 then (days - floor(days)) * interval '1 day'
            else interval '8 hours' + (days - floor(days)) * interval '10 hours' end,
        case when n % 1000 = 0 then 'agent_added' when n % 100 < 20 then 'conversation_created'
          when n % 100 < 28 then 'feedback_given' else 'message_created' end,
        case when n % 100 = 0 then '${PERSON}' else 'user1@example.com' end,
        'Assistant ' || n % 7,
        jsonb_build_object('message_id', md5('m' || n)::uuid, 'conversation_id', md5('c' || n / 5)::uuid,
          'agent_id', md5('a' || n % 7)::uuid, 'platform_agent_sid', 'AG' || md5('s' || n % 7))
      from generate_series(${n}, ${Math.min(n + 50_000, entries) - 1}) as n
      cross join lateral (select n * 365.0 / ${entries} as days) as times`);
  }
}

async function insertImport({ sql }: Bench, id: string): Promise<void> {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, '2024-07-01T10:00Z'::timestamptz + n * interval '1 hour' / ${IMPORTED}::int,
      (array['agent_added', 'conversation_created', 'feedback_given'])[n % 3 + 1], 'user1@example.com', 'Import'
    from generate_series(0, ${IMPORTED}::int - 1) as n`;
}

async function casesOf({ sql, entries }: Bench, id: string) {
  const exhaustedKeys = await addKeys(sql, id, 20);
  const keys = await addKeys(sql, id, 20);
  const unknown = await sql<{ token: string }[]>`select audit_log_private.new_token() as token`;
  // Of a reader who has everything.
  const cursor = await valueOf(sql.unsafe(`
    select audit_log_private.encode_cursor(
      jsonb_populate_record(
        null::audit_log_private.feed_cursor, jsonb_build_object('seen', pg_current_snapshot())
      ),
      audit_log_private.cursor_key(audit_log_private.feed_scope('${id}', ${queryOf(DATES)}))
    )`));
  const action = `${YEAR}&action=feedback_given`;
  const queries = {
    "one day": DAY,
    "an hour": `${DAY}&since=2025-07-01T10:00:00Z&until=2025-07-01T11:00:00Z`,
    "eight hours, from 10:17": `${DAY}&since=2025-07-01T10:17:00Z&until=2025-07-01T18:17:00Z`,
    year: YEAR,
    "year, newest first": `${YEAR}&order=desc`,
    [`year${DEEP}`]: `${YEAR}&offset=${entries * 0.9}`,
    "one action": action,
    [`one action${DEEP}`]: `${action}&offset=${Math.floor(entries * 0.08 * 0.9)}`,
    "three of four actions": `${YEAR}&action=agent_added,conversation_created,feedback_given`,
    "a person, one entry of 100": `${YEAR}&user_email=${PERSON}`,
    "caught up, after=": `${YEAR}&after=${cursor}`,
    "an hour of 200,000": IMPORT,
    "an hour of 200,000, 190,000 deep": `${IMPORT}&offset=${IMPORTED * 0.95}`,
    "its three actions, 190,000 deep":
      `${IMPORT}&action=agent_added,conversation_created,feedback_given&offset=${IMPORTED * 0.95}`,
  };
  const cases = [
    ...Object.entries(queries).map(([name, query]) => ({ name, query, status: 200, keys })),
    { name: "401", query: DAY, status: 401, keys: unknown },
    { name: "429", query: DAY, status: 429, keys: exhaustedKeys },
  ];
  return { cases, exhaustedKeys };
}

/**
 * Prints the median latency of each case. The cases take turns with each request, so that a slow moment of the machine
 * slows all of them. The first round warms up and does not count. The exit code is 1 if a deep page takes too long.
 */
async function measureRequests(bench: Bench, id: string): Promise<void> {
  const { sql, rounds, entries } = bench;
  const { cases, exhaustedKeys } = await casesOf(bench, id);
  await using edgeFunction = await startFunction(bench);
  const times = new Map(cases.map(({ name }) => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round++) {
    await resetLimits(sql);
    for (const { apiKeyId } of exhaustedKeys) await exhaust(sql, apiKeyId);
    for (let turn = 0; turn < REQUESTS; turn++) {
      for (const { name, query, status, keys } of cases) {
        const { token } = keys[turn % keys.length] ?? {};
        const { milliseconds } = await ask(edgeFunction, query, token, status);
        if (round) times.get(name)?.push(milliseconds);
      }
    }
  }
  printHead(
    `A log of ${entries.toLocaleString("en")} entries, ${rounds} rounds of ${REQUESTS} requests`,
    "case",
    "milliseconds",
    "against one day",
    `against its first page, bound ${DEEP_BOUND}`,
  );
  const latency = (name: string) => median(times.get(name));
  for (const name of times.keys()) {
    const against = (other: string) => latency(name) / latency(other);
    const deep = name.endsWith(DEEP) ? against(name.slice(0, -DEEP.length)) : undefined;
    if (deep && deep > DEEP_BOUND) Deno.exitCode = 1;
    const cells = [latency(name), against("one day"), deep];
    printRow(name, ...cells.map((cell) => cell?.toFixed(2) ?? ""));
  }
}

/** Prints the most memory that a new process of the function takes. The exit code is 1 if that is above the bound. */
async function measureLargestPages(bench: Bench): Promise<void> {
  const { sql } = bench;
  await using edgeFunction = await startFunction(bench);
  const { id } = await addOrganization(sql);
  await insertEntries(sql, id, "2025-07-01", 1000, LONGEST);
  const keys = await addKeys(sql, id, 20);
  let sent = 0;
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (sent < LARGEST_PAGES) {
      const { token } = keys[sent++ % keys.length] ?? {};
      await ask(edgeFunction, `${DAY}&limit=1000`, token);
    }
  }));
  const peak = (await peakOf(edgeFunction.pid)).toFixed(0);
  console.log(`\n${sent} of the largest pages: ${peak} MiB of memory (bound: ${MEMORY_BOUND})`);
  if (Number(peak) > MEMORY_BOUND) Deno.exitCode = 1;
}

/** SQL of a query for a page of 100, from its fields. */
function queryOf(given: Given): string {
  const json = JSON.stringify(given);
  return `audit_log_private.with_defaults(jsonb_populate_record(null::audit_log.page_query, '${json}'))`;
}
