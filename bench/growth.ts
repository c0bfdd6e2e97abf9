import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import postgres from "postgres";
import { DAYS, type GrownLog, loadGrownLog, organizationId } from "./growth_data.ts";
import { median } from "./load.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";
import { insertOf, pgbench } from "./writes.ts";

// What grows with the log: a log of five years and many organizations beside one of 1,000,000 entries,
// by turns. The data sets are kept; the larger one needs 60 GB.

const { values: flags } = parseArgs({
  options: {
    entries: { type: "string", default: "100000000" },
    organizations: { type: "string", default: "2000" },
    rounds: { type: "string", default: "7" },
    "data-dir": { type: "string", default: fileURLToPath(new URL("data/growth", import.meta.url)) },
    /** How many organizations, the largest, have seals that a night compares. */
    "sealed-organizations": { type: "string", default: "2000" },
    /** What to measure: some of pages, seals, upkeep, writes, sizes. */
    parts: { type: "string", default: "sizes,pages,writes,seals,upkeep" },
  },
});
const ROUNDS = Number(flags.rounds);
const SMALL: GrownLog = { entries: 1_000_000, organizations: 1 };
const LARGE: GrownLog = {
  entries: Number(flags.entries),
  organizations: Number(flags.organizations),
};
/** Calls of a round; a key has 60 a minute. */
const CALLS = 50;
const YEAR = ["2025-01-01", "2025-12-31"] as const;
/** With what `upkeep` and `writes` have added. */
const ALL = ["2021-01-01", "2026-12-31"] as const;

/** One organization of one of the databases. */
interface Subject {
  name: string;
  sql: postgres.Sql;
  stack: BenchStack;
  /** The backend of `sql`. */
  pid: number;
  id: string;
  tokens: string[];
}

/** Arguments of public_audit_log, or a query string; by organization. */
type Case = [name: string, request: (subject: Subject) => Promise<string>];

const DAY = ["2025-07-01", "2025-07-01"] as const;
const FEEDBACK = "feedback_given";
const CASES: Case[] = [
  ["one day, first page", () => Promise.resolve(page(DAY))],
  ["year, first page", () => Promise.resolve(page(YEAR))],
  ["year, 90 % deep", async (s) => page(YEAR, { offset: await ninetyPercent(s, YEAR) })],
  ["one action", () => Promise.resolve(page(YEAR, { action: `'${FEEDBACK}'` }))],
  [
    "one action, 90 % deep",
    async (s) =>
      page(YEAR, { action: `'${FEEDBACK}'`, offset: await ninetyPercent(s, YEAR, FEEDBACK) }),
  ],
  ["five years, first page", () => Promise.resolve(page(ALL))],
  ["five years, newest first", () => Promise.resolve(page(ALL, { newestFirst: true }))],
  ["five years, 90 % deep", async (s) => page(ALL, { offset: await ninetyPercent(s, ALL) })],
  ["after: first page", () => Promise.resolve(page(ALL, { after: "'beginning'" }))],
  [
    "after: caught up",
    async (s) => page(ALL, { after: await cursorOf(s, "pg_current_snapshot()") }),
  ],
  [
    "after: 100 new ones",
    async (s) => page(ALL, { after: await cursorOf(s, await snapshotBeforeLast(s)) }),
  ],
  ["a random day", () => Promise.resolve(`${randomDay()}, null, 100, 0, false, null`)],
  ["401", () => Promise.resolve("")],
];

await main();
Deno.exit();

async function main(): Promise<void> {
  await using stacks = new AsyncDisposableStack();
  const databases: { stack: BenchStack; sql: postgres.Sql; pid: number }[] = [];
  for (const log of [SMALL, LARGE]) {
    const folder = join(flags["data-dir"], String(log.entries));
    console.log(`\n${log.entries.toLocaleString("en")} entries`);
    await loadGrownLog(folder, log);
    const stack = stacks.use(await startBenchStack(folder));
    const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
    stacks.defer(() => sql.end());
    const [row] = await sql`select pg_backend_pid() as pid`;
    databases.push({ stack, sql, pid: row?.["pid"] });
  }
  const [small, large] = databases;
  if (!small || !large) throw new Error("two databases were to be started");
  const subjects: Subject[] = [
    { ...small, name: "alone", id: organizationId(1) },
    { ...large, name: "as large", id: await organizationLike(large.sql, SMALL.entries) },
    { ...large, name: "largest", id: organizationId(1) },
  ].map((subject) => ({ ...subject, tokens: [] }));
  for (const subject of subjects) {
    await subject.sql`delete from private.api_keys where organization_id = ${subject.id}`;
    const keys = await subject.sql`
      select private.insert_api_key(${subject.id}, 'benchmark') ->> 'token' as token
      from generate_series(1, 100)`;
    subject.tokens = keys.map((row) => row["token"]);
    const [row] = await subject.sql`
      select sum(entries)::int as entries, count(*)::int as counts from private.entry_counts
      where organization_id = ${subject.id}`;
    console.log(
      `${subject.name}: ${row?.["entries"]} entries, ${row?.["counts"]} counts, ${subject.id}`,
    );
  }
  const parts = {
    sizes: () => printSizes([small.sql, large.sql]),
    pages: () => measurePages(subjects),
    writes: () => measureWrites(subjects),
    seals: () => measureSeals(subjects),
    upkeep: () => measureUpkeep([small.sql, large.sql]),
  };
  for (const [name, measure] of Object.entries(parts)) {
    if (flags.parts.split(",").includes(name)) await measure();
  }
}

/** The organization that has about so many entries, and is not the largest. */
async function organizationLike(sql: postgres.Sql, entries: number): Promise<string> {
  const [row] = await sql`
    select organization_id as id from private.entry_counts
    where organization_id <> ${organizationId(1)}
    group by organization_id order by abs(sum(entries) - ${entries}::int) limit 1`;
  return row?.["id"];
}

async function printSizes(databases: postgres.Sql[]): Promise<void> {
  console.log("\nBytes an entry on disk\n");
  const sizes = await Promise.all(databases.map((sql) =>
    sql`
      select relname as name, pg_relation_size(oid)::float8 as bytes,
        (select sum(entries)::float8 from private.entry_counts) as entries
      from pg_class
      where relname ~ '^(audit_entries|entry_counts|monthly_entry_counts|seals|sealed_days)' and relkind in ('r', 'i')
      order by relname`
  ));
  console.log("| table or index | 1,000,000 | the large log | GB |\n| --- | ---: | ---: | ---: |");
  for (const [n, { name, bytes, entries }] of (sizes[1] ?? []).entries()) {
    const other = sizes[0]?.[n];
    console.log(
      `| ${name} | ${(other?.["bytes"] / other?.["entries"]).toFixed(1)} | ${
        (bytes / entries).toFixed(1)
      } | ${(bytes / 1e9).toFixed(2)} |`,
    );
  }
}

/** Arguments for public_audit_log after the token. */
function page(
  [start, end]: readonly [string, string],
  { action = "null", offset = "0", newestFirst = false, after = "null" } = {},
): string {
  return `'${start}', '${end}', ${action}, 100, ${offset}, ${newestFirst}, ${after}`;
}

/** A whole number that a query gives. */
async function number(sql: postgres.Sql, query: string): Promise<number> {
  const [row] = await sql.unsafe(`select (${query})::float8 as value`);
  return Math.floor(row?.["value"]);
}

function countOf({ id }: Subject, [start, end]: readonly [string, string], action = ""): string {
  return `select sum(entries) from private.entry_counts where organization_id = '${id}'
    and day between '${start}' and '${end}' ${action && `and action = '${action}'`}`;
}

async function ninetyPercent(
  subject: Subject,
  range: readonly [string, string],
  action = "",
): Promise<string> {
  return String(Math.floor(0.9 * await number(subject.sql, countOf(subject, range, action))));
}

/** The cursor of a reader who has seen what a snapshot sees. */
async function cursorOf({ sql, id }: Subject, snapshot: string): Promise<string> {
  const [row] = await sql.unsafe(`
    select private.encode_cursor((${snapshot}, null, null, null, null, null, null),
      '${id} ${ALL.join(" ")}') as cursor`);
  return `'${row?.["cursor"]}'`;
}

/** A snapshot that does not see an organization's last hundred or more entries. */
async function snapshotBeforeLast({ sql, id }: Subject): Promise<string> {
  const [row] = await sql`
    select transaction_id as x from public.audit_entries where organization_id = ${id}
    order by organization_id desc, transaction_id desc offset 120 limit 1`;
  return `'${row?.["x"]}:${row?.["x"]}:'`;
}

/** Two equal days, another in each call. */
function randomDay(): string {
  return "day, day";
}

/** Processor time of the backend, in milliseconds. */
async function processorTime({ pid }: Subject): Promise<number> {
  return Number((await Deno.readTextFile(`/proc/${pid}/schedstat`)).split(" ")[0]) / 1e6;
}

interface Cost {
  /** Milliseconds of processor time for a call, and from beginning to end. */
  processor: number;
  elapsed: number;
}

/** Calls the function as the Data API does, each call in a transaction of its own. */
async function call(subject: Subject, request: string): Promise<Cost> {
  const { sql, tokens } = subject;
  await sql`update private.rate_limits set accepted_at = '{}'`;
  const token = request ? tokens[0] ?? "" : "pck_unknown";
  const hash = `encode(sha256('${token}'), 'hex')`;
  const [before, started] = [await processorTime(subject), performance.now()];
  await sql.unsafe(`do $do$
    declare
      hash constant text := ${hash};
      day date;
      answer json;
    begin
      for n in 1..${CALLS} loop
        day := date '2021-01-01' + (random() * ${DAYS - 1})::integer;
        answer := public.public_audit_log(hash${request && `, ${request}`});
        if answer ->> 'decision' <> '${request ? "accepted" : "unauthorized"}'${
    request && " or answer -> 'page' -> 'total' is null"
  } then
          raise exception 'not as expected: %', left(answer::text, 200);
        end if;
        commit;
      end loop;
    end $do$`);
  return {
    processor: (await processorTime(subject) - before) / CALLS,
    elapsed: (performance.now() - started) / CALLS,
  };
}

/** Subjects take turns within each round. */
async function measurePages(subjects: Subject[]): Promise<void> {
  console.log("\nProcessor time of the database for one request, and its time, in milliseconds\n");
  printHead(["alone", "as large", "largest", "ratios", "elapsed", "ratios"]);
  for (const [name, request] of CASES) {
    const costs = new Map<Subject, Cost[]>(subjects.map((subject) => [subject, []]));
    const requests = new Map<Subject, string>();
    for (const subject of subjects) requests.set(subject, await request(subject));
    // Round 0 warms up and is not counted.
    for (let round = 0; round <= ROUNDS; round++) {
      for (const subject of round % 2 ? subjects : subjects.toReversed()) {
        const cost = await call(subject, requests.get(subject) ?? "");
        if (round) costs.get(subject)?.push(cost);
      }
    }
    const columns = (["processor", "elapsed"] as const).map((kind) =>
      Array.from(costs.values(), (each) => each.map((cost) => cost[kind]))
    );
    const [processor = [], elapsed = []] = columns;
    printRow(name, [
      ...processor.map((values) => median(values).toFixed(2)),
      ratios(processor),
      elapsed.map((values) => median(values).toFixed(2)).join(", "),
      ratios(elapsed),
    ]);
  }
}

/** The median of the ratios of each round to the first column. */
function ratios([first = [], ...others]: number[][]): string {
  return others.map((values) =>
    median(values.map((value, n) => value / (first[n] ?? NaN))).toFixed(2)
  ).join(", ");
}

function printHead(names: string[]): void {
  console.log(`| | ${names.join(" | ")} |\n| --- |${" ---: |".repeat(names.length)}`);
}

function printRow(name: string, values: string[]): void {
  console.log(`| ${name} | ${values.join(" | ")} |`);
}

/** Inserts a second by 1 and 16 writers, one entry a transaction. */
async function measureWrites(subjects: Subject[]): Promise<void> {
  console.log("\nInserts a second into one organization\n");
  printHead(["alone", "as large", "largest", "ratios"]);
  for (const writers of [1, 16]) {
    const seen = new Map<Subject, number[]>(subjects.map((subject) => [subject, []]));
    for (let round = 0; round <= ROUNDS; round++) {
      for (const subject of round % 2 ? subjects : subjects.toReversed()) {
        const { perSecond } = await pgbench(
          subject.stack.databaseUrl,
          insertOf(`'${subject.id}'`, "clock_timestamp()"),
          writers,
          round ? 5 : 1,
        );
        if (round) seen.get(subject)?.push(perSecond);
      }
    }
    const columns = Array.from(seen.values());
    printRow(`${writers} writers`, [
      ...columns.map((values) => median(values).toFixed(0)),
      ratios(columns),
    ]);
  }
}

/** The cost of sealing a day, for each of its entries. */
async function measureSeals(subjects: Subject[]): Promise<void> {
  console.log("\nSealing days: processor time for an entry, in microseconds\n");
  printHead(["alone", "as large", "largest", "ratios"]);
  // What was sealed a moment ago is in memory.
  for (const name of ["sealed from nothing", "compared again"]) {
    const seen = new Map<Subject, number[]>(subjects.map((subject) => [subject, []]));
    for (let round = 0; round <= ROUNDS; round++) {
      for (const subject of round % 2 ? subjects : subjects.toReversed()) {
        // About as many entries for each.
        const days = subject.name === "largest" ? 1 : 20;
        const before = await processorTime(subject);
        const [row] = await subject.sql`
          select sum(private.seal_day(${subject.id}, '2024-01-01'::date + day))::int as entries
          from generate_series(${round * days}::int, ${round * days + days - 1}::int) as day`;
        const cost = (await processorTime(subject) - before) / row?.["entries"] * 1000;
        if (round) seen.get(subject)?.push(cost);
      }
    }
    const columns = Array.from(seen.values());
    printRow(name, [...columns.map((values) => median(values).toFixed(1)), ratios(columns)]);
  }
}

/** A night: a new day, and a thirtieth of all sealed days. */
async function measureUpkeep(databases: postgres.Sql[]): Promise<void> {
  console.log("\nThe upkeep\n");
  for (const [n, sql] of databases.entries()) {
    const entries = [SMALL, LARGE][n]?.entries ?? 0;
    console.log(`${entries.toLocaleString("en")} entries:`);
    const upkeep = async (name: string) => {
      const started = performance.now();
      let pieces = 0;
      let longest = 0;
      for (let more = true; more; pieces++) {
        const begin = performance.now();
        const [row] = await sql`select private.run_upkeep() as more`;
        more = row?.["more"];
        longest = Math.max(longest, (performance.now() - begin) / 1000);
        if (pieces % 100 === 99) console.log(`    … ${pieces + 1} pieces`);
      }
      console.log(
        `  ${name}: ${((performance.now() - started) / 1000).toFixed(1)} s, ${pieces} pieces, ` +
          `the longest ${longest.toFixed(2)} s`,
      );
    };
    await upkeep("what there is to do");
    const night = await number(
      sql,
      "((clock_timestamp() at time zone 'UTC')::date - '2000-01-01'::date) % 30",
    );
    const sealed = await number(
      sql,
      `select count(*) from private.sealed_days where night = ${night}`,
    );
    const ids = Array.from(
      { length: Number(flags["sealed-organizations"]) },
      (_, n) => organizationId(n + 1),
    );
    const [days] = await sql`
      with days as (
        insert into private.days_to_seal (organization_id, day)
        select distinct c.organization_id, c.day from private.entry_counts c
        where c.organization_id = any (${ids}::uuid[])
          and (c.day - '2000-01-01'::date) % 30 = ${night} and c.day <= '2025-12-31'
        on conflict do nothing returning *
      )
      select count(*)::int as count,
        (select sum(c.entries)::int from private.entry_counts c join days using (organization_id, day)) as entries
      from days`;
    await upkeep(
      `${days?.["count"]} days of ${
        days?.["entries"]
      } entries sealed from nothing (${sealed} more were sealed)`,
    );
    await sql`
      update private.sealed_days set checked_at = checked_at - interval '29 days' where night = ${night}`;
    const added = await sql`
      insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      select e.organization_id, e.created_at + interval '1 day', e.action, e.user_email, e.agent_name, e.data
      from public.organizations o
      join public.audit_entries e on e.organization_id = o.id
        and e.created_at >= '2025-12-31Z' and e.created_at < '2026-01-01Z'`;
    await upkeep(`a night: ${added.count} new entries to seal, ${days?.["count"]} days to compare`);
    await upkeep("a night with nothing to do");
    const started = performance.now();
    for (let n = 0; n < 10; n++) await sql`select private.health()`;
    console.log(`  health(): ${((performance.now() - started) / 10).toFixed(1)} ms`);
  }
}
