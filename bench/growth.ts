import { join } from "node:path";
import { parseArgs } from "node:util";
import { addKeys, type Sql, valueOf } from "../tests/project.ts";
import { cursorOf, DAYS, type GrownLog, loadGrownLog, organizationId } from "./data_sets.ts";
import { byTurns, median, printHead, printRow, ratios, runParts } from "./report.ts";
import { type BenchStack, costOf, KEPT, resetLimits, startBenchStack } from "./stack.ts";

// Compares a log of five years and many organizations with one of 1,000,000 entries, by turns. Both are kept. The
// larger one needs 60 GB.

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    entries: { type: "string", default: "100000000" },
    rounds: { type: "string", default: "7" },
  },
});
const ROUNDS = Number(values.rounds);
const entries = Number(values.entries);
const LARGE: GrownLog = { entries, organizations: Math.max(30, entries / 50_000) };
const SMALL: GrownLog = { entries: Math.min(1_000_000, entries / 10), organizations: 1 };

/** Only the days of this many of the largest organizations are sealed. */
const SEALED = 30;

/** One organization of one of the databases. */
interface Subject {
  name: string;
  stack: BenchStack;
  id: string;
  /** SQL of the hash of a key's token. */
  hash: string;
}

await main();
Deno.exit();

async function main(): Promise<void> {
  await using small = await startLog(SMALL);
  await using large = await startLog(LARGE);
  const like: string = await valueOf(large.sql`
    select organization_id from audit_log_private.entry_counts
    where organization_id <> ${organizationId(1)}
    group by organization_id order by abs(sum(entries) - ${SMALL.entries}::int) limit 1`);
  const subjects = [
    await subjectOf("alone", small, organizationId(1)),
    await subjectOf("as large", large, like),
    await subjectOf("largest", large, organizationId(1)),
  ];
  await runParts({
    sizes: () => printSizes([small.sql, large.sql]),
    pages: () => measurePages(subjects),
    upkeep: async () => {
      await measureUpkeep(small.sql, SMALL);
      await measureUpkeep(large.sql, LARGE);
    },
  }, positionals);
}

async function startLog(log: GrownLog): Promise<BenchStack> {
  const stack = await startBenchStack(join(KEPT, "growth", `${log.entries}`));
  await loadGrownLog(stack.sql, log);
  return stack;
}

async function subjectOf(name: string, stack: BenchStack, id: string): Promise<Subject> {
  const [key] = await addKeys(stack.sql, id, 1);
  const entries = await valueOf(stack.sql`
    select sum(entries)::int from audit_log_private.entry_counts where organization_id = ${id}`);
  console.log(`${name}: ${entries} entries, ${id}`);
  return { name, stack, id, hash: `encode(sha256('${key?.token}'), 'hex')` };
}

async function printSizes(databases: Sql[]): Promise<void> {
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

/** For each request, SQL that selects the query to give to public_audit_log. */
function requestsOf(id: string): Record<string, string> {
  const [day, year] = ["'2025-07-01', '2025-07-01'", "'2025-01-01', '2025-12-31'"];
  // The part `upkeep` writes entries of 2026-01-01.
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
  const cursor = (snapshot: string) => cursorOf(snapshot, `${id} ${start} ${end}`);
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
    // `call` declares the variable, and sets it to another day each time.
    "a random day": "select '(day, day, null, null, 100, 0, false, null)'",
    "a 401": "select ''",
  };
}

/** Prints what a request costs. Subjects take turns within each round. */
async function measurePages(subjects: Subject[]): Promise<void> {
  console.log("\nProcessor time of the database for one request, in milliseconds");
  printHead("request", "alone", "as large", "largest", "ratios");
  for (const name of Object.keys(requestsOf(""))) {
    const requests = new Map<Subject, string>();
    for (const subject of subjects) {
      const query = subject.stack.sql.unsafe(requestsOf(subject.id)[name] ?? "");
      requests.set(subject, await valueOf(query));
    }
    const costs = await byTurns(ROUNDS, [...requests], ([subject, query]) => call(subject, query));
    const columns = [...costs.values()];
    const [first, ...others] = columns;
    const growth = others.map((times) => median(ratios(times, first)).toFixed(2)).join(", ");
    printRow(name, ...columns.map((times) => median(times).toFixed(2)), growth);
  }
}

/** Calls the function as the Data API does. Returns the cost of one call. */
async function call({ stack, hash }: Subject, request: string) {
  const lawful = request
    ? "answer ->> 'decision' = 'accepted' and answer -> 'page' -> 'total' is not null"
    : "answer ->> 'decision' = 'unauthorized'";
  const parameters = request
    ? `${hash}, 'entries', ${request}::audit_log.page_query`
    : "encode(sha256('pck_unknown'), 'hex'), 'entries'";
  await resetLimits(stack.sql);
  return await costOf(
    stack,
    `declare
      day date := date '2021-01-01' + (random() * ${DAYS - 1})::integer;
      answer json := audit_log.public_audit_log(${parameters});
    begin
      if not (${lawful}) then
        raise exception 'not as expected: %', left(answer::text, 200);
      end if;
    end`,
  );
}

/** Prints what a night takes: it seals a new day, and compares a thirtieth of all sealed days. */
async function measureUpkeep(sql: Sql, { entries }: GrownLog): Promise<void> {
  console.log(`\nThe upkeep, ${entries.toLocaleString("en")} entries:`);
  const upkeep = async (what: string) => {
    const seconds: number[] = [];
    for (let more = true; more;) {
      const start = performance.now();
      more = await valueOf(sql`select audit_log_private.run_upkeep()`);
      seconds.push((performance.now() - start) / 1000);
    }
    const all = seconds.reduce((sum, piece) => sum + piece).toFixed(1);
    const longest = Math.max(...seconds).toFixed(2);
    console.log(`  ${what}: ${all} s, ${seconds.length} pieces, the longest ${longest} s`);
  };
  await upkeep("what there is to do");
  const ids = Array.from({ length: SEALED }, (_, n) => organizationId(n + 1));
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
}
