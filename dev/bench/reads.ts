import { addKeys, addOrganization, insertEntries, LONGEST, runUpkeep } from "../harness/project.ts";
import { peakOf } from "./processes.ts";
import { type Bound, printHead, printRatio } from "./report.ts";
import { ask, type Bench, medianOf, startFunction } from "./stack.ts";

export const YEAR = "start=2025-01-01&end=2025-12-31";
const DAY = "start=2025-07-01&end=2025-07-01";
/** A page so deep may take so many times as long as the first. */
const DEEP_BOUND: Bound = { most: 1.3 };

/** So many are asked for, four at a time. */
const LARGEST_PAGES = 200;
/** In MiB. */
const MEMORY_BOUND = 130;

export async function measureReads(bench: Bench): Promise<void> {
  const { id } = await addOrganization(bench.sql);
  await insertYear(bench, id);
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
        case when n % 100 = 0 then 'user100@example.com' else 'user1@example.com' end,
        'Assistant ' || n % 7,
        jsonb_build_object('message_id', md5('m' || n)::uuid, 'conversation_id', md5('c' || n / 5)::uuid,
          'agent_id', md5('a' || n % 7)::uuid, 'platform_agent_sid', 'AG' || md5('s' || n % 7))
      from generate_series(${n}, ${Math.min(n + 50_000, entries) - 1}) as n
      cross join lateral (select n * 365.0 / ${entries} as days) as times`);
  }
}

/** Prints the latency of each query, by turns with that of another. The exit code is 1 if a deep page takes too long. */
async function measureRequests(bench: Bench, id: string): Promise<void> {
  const { sql, rounds, entries } = bench;
  const keys = await addKeys(sql, id, 20);
  await using edgeFunction = await startFunction(bench);
  const action = `${YEAR}&action=feedback_given`;
  const cases: [what: string, query: string, other: string, bound?: Bound][] = [
    ["a year, one day", YEAR, DAY],
    ["the year, newest first, one day", `${YEAR}&order=desc`, DAY],
    ["one action, one day", action, DAY],
    ["the year 90 % deep, its first page", `${YEAR}&offset=${entries * 0.9}`, YEAR, DEEP_BOUND],
    ["the action, deep, its first page", `${action}&offset=${entries / 16}`, action, DEEP_BOUND],
  ];
  const title = `Milliseconds in a log of ${entries.toLocaleString("en")} entries`;
  printHead(`${title}, ${rounds} rounds`, "a page, and another", "one", "other", "ratio", "bound");
  for (const [what, query, other, bound] of cases) {
    const read = (query: string) => medianOf(bench, edgeFunction, keys, query);
    await printRatio(rounds, what, [query, other], read, bound);
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
      const { token = "" } = keys[sent++ % keys.length] ?? {};
      await ask(edgeFunction, `${DAY}&limit=1000`, token);
    }
  }));
  const peak = (await peakOf(edgeFunction.pid)).toFixed(0);
  console.log(`\n${sent} of the largest pages: ${peak} MiB of memory (bound: ${MEMORY_BOUND})`);
  if (Number(peak) > MEMORY_BOUND) Deno.exitCode = 1;
}
