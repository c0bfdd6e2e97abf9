import { setTimeout as pause } from "node:timers/promises";
import postgres from "postgres";
import { makeKeys, startFunctionUnderLoad } from "./function_under_load.ts";
import { median, printHead, printRow, ratios, spread } from "./report.ts";
import { runUpkeep } from "./upkeep.ts";

// Requests of one organization while the database works for another: a backfill, the upkeep, retention, a deletion.

const ROUNDS = 3;
const BACKFILL = 200_000;
const ALONE = 300;

console.log("Starting a stack …");
await using load = await startFunctionUnderLoad();
const { sql } = load;
const other = postgres(load.stack.databaseUrl, { max: 1, onnotice: () => {} });
const reader = postgres(load.stack.databaseUrl, { max: 1 });
const quiet = crypto.randomUUID();
await makeKeys(sql, quiet, 1);
await backfill(quiet, 10_000);

const id = crypto.randomUUID();
const jobs = {
  "a backfill": () => backfill(id, BACKFILL),
  "the upkeep": () => runUpkeep(other),
  "retention": () => whileMore(`audit_log_private.delete_entries_before('${id}', '2025-07-01')`),
  "a deletion": () => whileMore(`audit_log_private.delete_organization('${id}')`),
};
const seen = new Map(Object.keys(jobs).map((job) => [job, { alone: [], beside: [] } as Figures]));
interface Figures {
  alone: number[];
  beside: number[];
}
for (let round = 0; round < ROUNDS; round++) {
  await makeKeys(sql, id, 1);
  for (const [job, run] of Object.entries(jobs)) {
    seen.get(job)?.alone.push(median(await request((asked) => asked === ALONE)));
    let isOver = false;
    const done = run().finally(() => isOver = true);
    seen.get(job)?.beside.push(median(await request((asked) => isOver && asked > 10)));
    await done;
    // What the job has left to write.
    await sql`checkpoint`.catch(() => pause(1000));
  }
}
printHead("a first page beside", "alone, ms", "beside", "ratio");
for (const [job, { alone, beside }] of seen) {
  printRow(job, spread(alone, 2), spread(beside, 2), spread(ratios(beside, alone), 2));
}
await Promise.all([other, reader].map((connection) => connection.end()));

/** Asks for the quiet organization's first page, one after the other; how many milliseconds each took. */
async function request(isOver: (asked: number) => boolean): Promise<number[]> {
  const times: number[] = [];
  while (!isOver(times.length)) {
    if (times.length % 50 === 0) {
      await reader`
        update audit_log_private.rate_limits set accepted_at = '{}' where organization_id = ${quiet}`;
    }
    const start = performance.now();
    await reader`
      select audit_log.public_audit_log(
        encode(h.token_hash, 'hex'), 'entries',
        ('2025-01-01', '2025-12-31', null, 100, 0, false, null)::audit_log.page_query
      ) from audit_log_private.api_key_hashes h where h.organization_id = ${quiet}`;
    times.push(performance.now() - start);
  }
  return times;
}

async function backfill(organizationId: string, entries: number): Promise<void> {
  for (let from = 0; from < entries; from += 10_000) {
    await other`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${organizationId}, timestamptz '2025-01-01' + n * interval '1 year' / ${entries}::int,
        'agent_added', 'ada@example.com', 'Assistant'
      from generate_series(${from}::int, ${from + 9_999}::int) as n`;
  }
}

async function whileMore(call: string): Promise<void> {
  for (let more = true; more;) more = (await other.unsafe(`select ${call} as more`))[0]?.["more"];
}
