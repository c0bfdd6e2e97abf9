import { type Sql, valueOf } from "../tests/project.ts";
import { cursorOf, queryOf } from "./data_sets.ts";
import { processorTime } from "./processes.ts";
import { median, printHead, printRow } from "./report.ts";
import { type BenchOptions, type BenchStack, startBenchStack } from "./stack.ts";

const BATCH = 50_000;
const ASKED = { start_date: "2025-01-01", end_date: "2025-12-31", actions: ["feedback_given"] };

/**
 * Prints the cost of pages that find nothing: `entries` lie between two that match, new ones, or ones of late
 * transactions.
 */
export async function measureFeed({ entries: gap }: BenchOptions): Promise<void> {
  await using stack = await startBenchStack();
  const { sql } = stack;
  await sql`alter table audit_log.audit_entries disable trigger user`;
  const [newOnes, lateOnes] = [crypto.randomUUID(), crypto.randomUUID()];
  const { oldest, inProgress } = await useTransactions(sql);
  const seen = `'${oldest}:${oldest + 400}:${inProgress}'::pg_snapshot`;
  const readers = [
    { name: "new", id: newOnes, after: await cursor(sql, newOnes, "pg_current_snapshot()") },
    { name: "late", id: lateOnes, after: await cursor(sql, lateOnes, seen) },
  ];
  for (let n = 0; n * BATCH < gap; n++) {
    const entries = Math.min(BATCH, gap - n * BATCH);
    await write(sql, newOnes, entries, "pg_current_xact_id()");
    await write(sql, lateOnes, entries, `'${inProgress[n % inProgress.length]}'::xid8`);
  }
  await sql`vacuum (analyze) audit_log.audit_entries`;
  console.log("\nPages of the feed that find nothing, milliseconds in the database");
  printHead("entries between", "pages", "processor", "highest", "elapsed", "highest");
  for (const { name, id, after } of readers) {
    const costs = await readToEnd(stack, id, after);
    const figures = [costs.map(({ processor }) => processor), costs.map(({ elapsed }) => elapsed)]
      .flatMap((times) => [median(times), Math.max(...times)]);
    printRow(`${gap} ${name}`, costs.length, ...figures.map((ms) => ms.toFixed(1)));
  }
}

/** Uses up transaction numbers. Returns some that the cursor treats as still in progress. */
async function useTransactions(sql: Sql) {
  await sql`do $$ begin for n in 1..500 loop perform pg_current_xact_id(); commit; end loop; end $$`;
  const oldest: number = await valueOf(
    sql`select pg_snapshot_xmax(pg_current_snapshot())::text::bigint::int - 450`,
  );
  return { oldest, inProgress: Array.from({ length: 200 }, (_, n) => oldest + 2 * n) };
}

async function cursor(sql: Sql, id: string, snapshot: string): Promise<string> {
  return await valueOf(sql.unsafe(`select ${cursorOf(snapshot, id, queryOf(ASKED))}`));
}

/** Writes entries of an action that nobody asks for. */
async function write(sql: Sql, id: string, entries: number, transaction: string) {
  await sql.unsafe(`
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
    select '${id}', '2025-06-01Z'::timestamptz + n * interval '1 second', 'agent_added',
      'ada@example.com', 'Assistant', '{"n": "0123456789012345678901234567890123456789"}', ${transaction}
    from generate_series(1, ${entries}) as n`);
}

/** Reads pages until there are no more. Returns the cost of each. */
async function readToEnd({ sql, backend }: BenchStack, id: string, after: string) {
  const costs: { processor: number; elapsed: number }[] = [];
  for (let hasMore = true; hasMore;) {
    const [before, start] = [await processorTime(backend), performance.now()];
    const query = queryOf({ ...ASKED, page_limit: 1000, after });
    const [row] = await sql.unsafe(
      `select cursor, has_more from audit_log_private.read_feed('${id}', ${query})`,
    );
    const elapsed = performance.now() - start;
    costs.push({ processor: await processorTime(backend) - before, elapsed });
    after = row?.["cursor"];
    hasMore = row?.["has_more"];
  }
  return costs;
}
