import { parseArgs } from "node:util";
import postgres from "postgres";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { peak, resetPeak } from "./largest_pages.ts";
import { printHead, printRow } from "./report.ts";
import { runUpkeep } from "./upkeep.ts";

// What the upkeep costs that seals days: the memory of one long day, and the time of a night with many
// organizations.

const { values: given } = parseArgs({
  options: {
    entries: { type: "string", default: "1000000" },
    organizations: { type: "string", default: "10000" },
  },
});
const BATCH = 50_000;
/** How many entries an organization has in the night of many. */
const ENTRIES_A_DAY = 20;
const ORGANIZATIONS_AT_ONCE = 500;

await using stack = await startTemporaryStack();
const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });

printHead("one day of", "sealed in, s", "entries a second", "peak of the backend, MiB", "its own");
for (const entries of [Number(given.entries) / 10, Number(given.entries)]) {
  await write([crypto.randomUUID()], entries);
  const { seconds, mebibytes, own } = await measure();
  printRow(entries, seconds.toFixed(1), (entries / seconds).toFixed(0), mebibytes, own);
}

const organizations = Number(given.organizations);
console.log(`\n${organizations} organizations, ${ENTRIES_A_DAY} entries each on one day`);
for (let n = 0; n < organizations; n += ORGANIZATIONS_AT_ONCE) {
  const count = Math.min(ORGANIZATIONS_AT_ONCE, organizations - n);
  await write(Array.from({ length: count }, () => crypto.randomUUID()), ENTRIES_A_DAY);
}
const printNight = async (what: string) => {
  const { seconds, pieces, longest } = await measure();
  console.log(
    `${what}: ${seconds.toFixed(2)} s, ${pieces} pieces, the longest ${longest.toFixed(2)} s`,
  );
};
await printNight("sealed");
await sql`update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'`;
await printNight("all of it checked again; a night has a thirtieth");
await printNight("nothing to do");
await sql.end();

/** Writes so many entries for each organization, all on 1 March 2026. */
async function write(ids: string[], entries: number): Promise<void> {
  await sql`
    insert into audit_log.organizations (id, name)
    select id, 'Benchmark' from unnest(${ids}::uuid[]) as id`;
  for (let n = 0; n < entries; n += BATCH) {
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      select id, timestamptz '2026-03-01Z' + n * interval '1 day' / ${entries}::int, 'message_created',
        'user' || n % 50 || '@example.com', 'Assistant', jsonb_build_object(
          'message_id', md5('m' || n)::uuid, 'conversation_id', md5('c' || n)::uuid,
          'agent_id', md5('a' || n)::uuid, 'platform_agent_sid', md5('s' || n)
        )
      from unnest(${ids}::uuid[]) as id,
        generate_series(${n}::int, least(${entries}::int, ${n + BATCH}::int) - 1) as n`;
  }
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
}

/**
 * Runs the upkeep to its end with a backend of its own: what it cost, with the most memory that the backend
 * had in RAM in MiB, and that without the shared buffers that it touched.
 */
async function measure() {
  const upkeep = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  const [backend] = await upkeep`select pg_backend_pid() as pid`;
  await resetPeak(backend?.["pid"]);
  const cost = await runUpkeep(upkeep);
  const mebibytes = Math.round(await peak([backend?.["pid"]]));
  const status = await Deno.readTextFile(`/proc/${backend?.["pid"]}/status`);
  const shared = Number(status.match(/^RssShmem:\s+(\d+) kB$/m)?.[1]) / 1024;
  await upkeep.end();
  return { ...cost, mebibytes, own: Math.round(mebibytes - shared) };
}
