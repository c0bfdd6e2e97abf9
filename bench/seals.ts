import { parseArgs } from "node:util";
import postgres from "postgres";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { peak, resetPeak } from "./largest_pages.ts";

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

console.log(
  "\n| one day of | sealed in, s | entries a second | peak of the backend, MiB | its own |",
);
console.log("| ---: | ---: | ---: | ---: | ---: |");
for (const entries of [Number(given.entries) / 10, Number(given.entries)]) {
  await write([crypto.randomUUID()], entries);
  await measure(({ seconds, mebibytes, own }) =>
    `| ${entries} | ${seconds.toFixed(1)} | ${
      (entries / seconds).toFixed(0)
    } | ${mebibytes} | ${own} |`
  );
}

const organizations = Number(given.organizations);
console.log(`\n${organizations} organizations, ${ENTRIES_A_DAY} entries each on one day`);
for (let n = 0; n < organizations; n += ORGANIZATIONS_AT_ONCE) {
  const count = Math.min(ORGANIZATIONS_AT_ONCE, organizations - n);
  await write(Array.from({ length: count }, () => crypto.randomUUID()), ENTRIES_A_DAY);
}
await measure(({ seconds, pieces, longest }) =>
  `sealed in ${seconds.toFixed(1)} s, ${pieces} pieces, the longest ${longest.toFixed(2)} s`
);
await sql`update private.sealed_days set checked_at = checked_at - interval '31 days'`;
await measure(({ seconds, pieces, longest }) =>
  `all of it checked again in ${seconds.toFixed(1)} s, ${pieces} pieces, the longest ` +
  `${longest.toFixed(2)} s; a night has a thirtieth`
);
await measure(({ seconds }) => `nothing to do: ${(seconds * 1000).toFixed(0)} ms`);
const [seals] = await sql`select count(*)::int as count from private.seals`;
console.log(`${seals?.["count"]} seals`);
await sql.end();

/** Writes so many entries for each organization, all on 1 March 2026. */
async function write(ids: string[], entries: number): Promise<void> {
  await sql`
    insert into public.organizations (id, name)
    select id, 'Benchmark' from unnest(${ids}::uuid[]) as id`;
  for (let n = 0; n < entries; n += BATCH) {
    await sql`
      insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      select id, timestamptz '2026-03-01Z' + n * interval '1 day' / ${entries}::int, 'message_created',
        'user' || n % 50 || '@example.com', 'Assistant', jsonb_build_object(
          'message_id', md5('m' || n)::uuid, 'conversation_id', md5('c' || n)::uuid,
          'agent_id', md5('a' || n)::uuid, 'platform_agent_sid', md5('s' || n)
        )
      from unnest(${ids}::uuid[]) as id,
        generate_series(${n}::int, least(${entries}::int, ${n + BATCH}::int) - 1) as n`;
  }
  await sql`vacuum (analyze) public.audit_entries, private.entry_counts`;
}

interface Measured {
  seconds: number;
  pieces: number;
  /** The longest piece, in seconds. */
  longest: number;
  /** The most memory that the backend had in RAM; shared buffers that it touched are in it. */
  mebibytes: number;
  /** Without those. */
  own: number;
}

/** Runs the upkeep to its end with a backend of its own, and prints what it cost. */
async function measure(line: (measured: Measured) => string): Promise<void> {
  const upkeep = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  const [backend] = await upkeep`select pg_backend_pid() as pid`;
  await resetPeak(backend?.["pid"]);
  const start = performance.now();
  let pieces = 0;
  let longest = 0;
  for (let more = true; more; pieces++) {
    const begin = performance.now();
    const [row] = await upkeep`select private.run_upkeep() as more`;
    more = row?.["more"];
    longest = Math.max(longest, (performance.now() - begin) / 1000);
  }
  const seconds = (performance.now() - start) / 1000;
  const mebibytes = Math.round(await peak([backend?.["pid"]]));
  const status = await Deno.readTextFile(`/proc/${backend?.["pid"]}/status`);
  const shared = Number(status.match(/^RssShmem:\s+(\d+) kB$/m)?.[1]) / 1024;
  const own = Math.round(mebibytes - shared);
  console.log(line({ seconds, pieces, longest, mebibytes, own }));
  await upkeep.end();
}
