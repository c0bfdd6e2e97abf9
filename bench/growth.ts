import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import postgres from "postgres";
import { DAYS, type GrownLog, loadGrownLog, organizationId } from "./growth_data.ts";
import { byTurns, median, printHead, printRow, ratios } from "./report.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";
import { runUpkeep } from "./upkeep.ts";
import { insertOf, pgbench } from "./pgbench.ts";

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
    /** What to measure: some of sizes, pages, writes, seals, upkeep. */
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

/** One organization of one of the databases. */
interface Subject {
  name: string;
  sql: postgres.Sql;
  stack: BenchStack;
  /** The backend of `sql`. */
  pid: number;
  id: string;
  /** SQL of the hash of a key's token. */
  hash: string;
}

await main();
Deno.exit();

async function main(): Promise<void> {
  await using stacks = new AsyncDisposableStack();
  const start = async (log: GrownLog) => {
    const folder = join(flags["data-dir"], String(log.entries));
    console.log(`\n${log.entries.toLocaleString("en")} entries`);
    await loadGrownLog(folder, log);
    const stack = stacks.use(await startBenchStack(folder));
    const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
    stacks.defer(() => sql.end());
    const [row] = await sql`select pg_backend_pid() as pid`;
    return { stack, sql, pid: row?.["pid"] };
  };
  const [small, large] = [await start(SMALL), await start(LARGE)];
  const [like] = await large.sql`
    select organization_id as id from audit_log_private.entry_counts
    where organization_id <> ${organizationId(1)}
    group by organization_id order by abs(sum(entries) - ${SMALL.entries}::int) limit 1`;
  const subjects: Subject[] = [];
  for (
    const subject of [
      { ...small, name: "alone", id: organizationId(1) },
      { ...large, name: "as large", id: like?.["id"] },
      { ...large, name: "largest", id: organizationId(1) },
    ]
  ) {
    const [row] = await subject.sql`
      select audit_log_private.insert_api_key(${subject.id}, 'benchmark') ->> 'token' as token,
        (select sum(entries)::int from audit_log_private.entry_counts where organization_id = ${subject.id}) as entries`;
    console.log(`${subject.name}: ${row?.["entries"]} entries, ${subject.id}`);
    subjects.push({ ...subject, hash: `encode(sha256('${row?.["token"]}'), 'hex')` });
  }
  const parts = {
    sizes: () => printSizes([small.sql, large.sql]),
    pages: () => measurePages(subjects),
    writes: () => measureWrites(subjects),
    seals: () => measureSeals(subjects),
    upkeep: async () => {
      await measureUpkeep(small.sql, SMALL);
      await measureUpkeep(large.sql, LARGE);
    },
  };
  for (const [name, measure] of Object.entries(parts)) {
    if (flags.parts.split(",").includes(name)) await measure();
  }
}

async function printSizes(databases: postgres.Sql[]): Promise<void> {
  console.log("\nBytes an entry on disk");
  const [small = [], large = []] = await Promise.all(databases.map((sql) =>
    sql`
      select relname as name, pg_relation_size(oid)::float8 as bytes,
        (select sum(entries)::float8 from audit_log_private.entry_counts) as entries
      from pg_class
      where relname ~ '^(audit_entries|entry_counts|monthly_entry_counts|seals|sealed_days)' and relkind in ('r', 'i')
      order by relname`
  ));
  printHead("table or index", "1,000,000", "the large log", "GB");
  for (const [n, { name, bytes, entries }] of large.entries()) {
    const ofSmall = small[n]?.["bytes"] / small[n]?.["entries"];
    printRow(name, ofSmall.toFixed(1), (bytes / entries).toFixed(1), (bytes / 1e9).toFixed(2));
  }
}

/** For each request, SQL that gives the query of public_audit_log. */
function requestsOf(id: string): Record<string, string> {
  const [day, year] = ["'2025-07-01', '2025-07-01'", "'2025-01-01', '2025-12-31'"];
  // With what `upkeep` and `writes` have added.
  const [start, end] = ["2021-01-01", "2026-12-31"];
  const years = `'${start}', '${end}'`;
  const feedback = "'feedback_given'";
  const page = (
    range: string,
    { action = "null", offset = "0", newestFirst = false, after = "null" } = {},
  ) =>
    `select format('(%L, %L, %L, null, 100, %s, %L, %L)', ${range}, ${action}, ${offset}, ${newestFirst}, ${after})`;
  const deep = (range: string, action = "action") =>
    `(select floor(0.9 * sum(entries)) from audit_log_private.entry_counts where organization_id = '${id}'
      and day between ${range.replace(",", " and ")} and action = ${action})`;
  /** The cursor of a reader who has seen what a snapshot sees. */
  const cursor = (snapshot: string) =>
    `audit_log_private.encode_cursor((${snapshot}, null, null, null, null, null, null), '${id} ${start} ${end}')`;
  const beforeLast = `(select format('%1$s:%1$s:', transaction_id)::pg_snapshot
    from audit_log.audit_entries where organization_id = '${id}'
    order by organization_id desc, transaction_id desc offset 120 limit 1)`;
  return {
    "one day, first page": page(day),
    "year, first page": page(year),
    "year, 90 % deep": page(year, { offset: deep(year) }),
    "one action": page(year, { action: feedback }),
    "one action, 90 % deep": page(year, { action: feedback, offset: deep(year, feedback) }),
    "five years, first page": page(years),
    "five years, newest first": page(years, { newestFirst: true }),
    "five years, 90 % deep": page(years, { offset: deep(years) }),
    "after: first page": page(years, { after: "'beginning'" }),
    "after: caught up": page(years, { after: cursor("pg_current_snapshot()") }),
    "after: 100 new ones": page(years, { after: cursor(beforeLast) }),
    // A variable of `call`, another day in each.
    "a random day": "select '(day, day, null, null, 100, 0, false, null)'",
    "a 401": "select ''",
  };
}

/** Subjects take turns within each round. */
async function measurePages(subjects: Subject[]): Promise<void> {
  console.log("\nProcessor time of the database for one request, and its time, in milliseconds");
  printHead("request", "alone", "as large", "largest", "ratios", "elapsed", "ratios");
  for (const name of Object.keys(requestsOf(""))) {
    const requests = new Map<Subject, string>();
    for (const subject of subjects) {
      const [[request] = [""]] = await subject.sql.unsafe(requestsOf(subject.id)[name] ?? "")
        .values();
      requests.set(subject, request);
    }
    const costs = await byTurns(
      ROUNDS,
      subjects,
      (subject) => call(subject, requests.get(subject) ?? ""),
    );
    const of = (kind: "processor" | "elapsed") =>
      Array.from(costs.values(), (each) => each.map((cost) => cost[kind]));
    const [processor, elapsed] = [of("processor"), of("elapsed")];
    const medians = elapsed.map((values) => median(values).toFixed(2)).join(", ");
    printRow(name, ...comparison(processor, 2), medians, ratiosToFirst(elapsed));
  }
}

/** Calls the function as the Data API does, each call in a transaction of its own; what one has cost. */
async function call(subject: Subject, request: string) {
  const { sql, hash } = subject;
  const lawful = request
    ? "answer ->> 'decision' = 'accepted' and answer -> 'page' -> 'total' is not null"
    : "answer ->> 'decision' = 'unauthorized'";
  const parameters = request
    ? `${hash}, 'entries', ${request}::audit_log.page_query`
    : "encode(sha256('pck_unknown'), 'hex'), 'entries'";
  await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
  const [before, started] = [await processorTime(subject), performance.now()];
  await sql.unsafe(`do $do$
    declare
      day date;
      answer json;
    begin
      for n in 1..${CALLS} loop
        day := date '2021-01-01' + (random() * ${DAYS - 1})::integer;
        answer := audit_log.public_audit_log(${parameters});
        if not (${lawful}) then
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

/** Processor time of the backend, in milliseconds. */
async function processorTime({ pid }: Subject): Promise<number> {
  return Number((await Deno.readTextFile(`/proc/${pid}/schedstat`)).split(" ")[0]) / 1e6;
}

/** The medians, and the others' ratios to the first one. */
function comparison(columns: number[][], digits: number): string[] {
  return [...columns.map((values) => median(values).toFixed(digits)), ratiosToFirst(columns)];
}

/** The median of the ratios of each round to the first column. */
function ratiosToFirst([first = [], ...others]: number[][]): string {
  return others.map((values) => median(ratios(values, first)).toFixed(2)).join(", ");
}

/** Inserts a second by 1 and 16 writers, one entry a transaction. */
async function measureWrites(subjects: Subject[]): Promise<void> {
  console.log("\nInserts a second into one organization");
  printHead("writers", "alone", "as large", "largest", "ratios");
  for (const writers of [1, 16]) {
    const seen = await byTurns(ROUNDS, subjects, async ({ stack, id }, round) => {
      const insert = insertOf(`'${id}'`, "clock_timestamp()");
      return (await pgbench(stack.databaseUrl, insert, writers, round ? 5 : 1)).perSecond;
    });
    printRow(writers, ...comparison(Array.from(seen.values()), 0));
  }
}

/** The cost of sealing a day, for each of its entries. */
async function measureSeals(subjects: Subject[]): Promise<void> {
  console.log("\nSealing days: processor time for an entry, in microseconds");
  printHead("days", "alone", "as large", "largest", "ratios");
  // What was sealed a moment ago is in memory.
  for (const name of ["sealed from nothing", "compared again"]) {
    const seen = await byTurns(ROUNDS, subjects, async (subject, round) => {
      // About as many entries for each.
      const days = subject.name === "largest" ? 1 : 20;
      const before = await processorTime(subject);
      const [row] = await subject.sql`
        select sum(audit_log_private.seal_day(${subject.id}, '2024-01-01'::date + day))::int as entries
        from generate_series(${round * days}::int, ${round * days + days - 1}::int) as day`;
      return (await processorTime(subject) - before) / row?.["entries"] * 1000;
    });
    printRow(name, ...comparison(Array.from(seen.values()), 1));
  }
}

/** A night: a new day, and a thirtieth of all sealed days. */
async function measureUpkeep(sql: postgres.Sql, { entries }: GrownLog): Promise<void> {
  console.log(`\nThe upkeep, ${entries.toLocaleString("en")} entries:`);
  const upkeep = async (what: string) => {
    const { seconds, pieces, longest } = await runUpkeep(sql);
    console.log(
      `  ${what}: ${seconds.toFixed(1)} s, ${pieces} pieces, the longest ${longest.toFixed(2)} s`,
    );
  };
  await upkeep("what there is to do");
  const organizations = Number(flags["sealed-organizations"]);
  const ids = Array.from({ length: organizations }, (_, n) => organizationId(n + 1));
  const [days] = await sql`
    with days as (
      insert into audit_log_private.days_to_seal (organization_id, day)
      select distinct c.organization_id, c.day from audit_log_private.entry_counts c
      where c.organization_id = any (${ids}::uuid[]) and c.day <= '2025-12-31'
        and (c.day - (clock_timestamp() at time zone 'UTC')::date) % 30 = 0
      on conflict do nothing returning *
    )
    select count(*)::int as count,
      (select sum(c.entries)::int from audit_log_private.entry_counts c join days using (organization_id, day)) as entries
    from days`;
  await upkeep(`${days?.["count"]} days of ${days?.["entries"]} entries sealed from nothing`);
  await sql`
    update audit_log_private.sealed_days set checked_at = checked_at - interval '29 days'
    where (day - (clock_timestamp() at time zone 'UTC')::date) % 30 = 0`;
  const added = await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select e.organization_id, e.created_at + interval '1 day', e.action, e.user_email, e.agent_name, e.data
    from audit_log.organizations o
    join audit_log.audit_entries e on e.organization_id = o.id
      and e.created_at >= '2025-12-31Z' and e.created_at < '2026-01-01Z'`;
  await upkeep(`a night: ${added.count} new entries to seal, ${days?.["count"]} days to compare`);
  await upkeep("a night with nothing to do");
  const started = performance.now();
  for (let n = 0; n < 10; n++) await sql`select audit_log_private.health()`;
  console.log(`  health(): ${((performance.now() - started) / 10).toFixed(1)} ms`);
}
