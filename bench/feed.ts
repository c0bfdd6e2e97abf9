import { parseArgs } from "node:util";
import postgres from "postgres";
import { followUnderLoad } from "../tests/faults/feed_load.ts";
import { makeDataSet } from "./data_set.ts";
import { load } from "./load.ts";
import { byTurns, median, printHead, printRow } from "./report.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    rounds: { type: "string", default: "5" },
    /** Only the followers, or only the gaps, without the other costs. */
    followers: { type: "boolean", default: false },
    gaps: { type: "boolean", default: false },
  },
});
const ROUNDS = Number(flags.rounds);

const YEAR = ["2025-01-01", "2025-12-31"] as const;
const PAGE = 1000;
/** So many pages at the beginning and at the end are compared. */
const EDGE = 40;

await main();
Deno.exit();

async function main(): Promise<void> {
  if (flags.gaps) return await measureGaps();
  await using stack = await startBenchStack();
  if (!flags.followers) await measureCosts(stack);
  await measureFollowers(stack);
}

async function measureCosts({ apiUrl, databaseUrl }: BenchStack): Promise<void> {
  const sql = postgres(databaseUrl, { max: 4, onnotice: () => {} });
  const { organizationId: id, tokens } = await makeDataSet(sql, 1_000_000);
  await measurePages(sql, id);
  await measurePolls(sql, apiUrl, id, tokens);
  await sql.end();
}

async function measureFollowers(stack: BenchStack): Promise<void> {
  const seconds = Number(flags.seconds);
  console.log(`\nFollowers beside 16 writers for ${seconds} s, one transaction held open`);
  const figures = await followUnderLoad({ stack, seconds, heldSeconds: Math.min(20, seconds / 2) });
  printHead("follower", "entries", "polls", "killed");
  for (const { query, entries, polls, kills } of figures.followers) {
    printRow(`\`${query}\``, entries, polls, kills);
  }
  console.log(
    `\n${figures.entries} entries, 0 missed, 0 repeated; from commit to delivery: median ` +
      `${figures.medianLag.toFixed(0)} ms, 99 of 100 within ${figures.p99Lag.toFixed(0)} ms; ` +
      `${figures.whileHeld} were delivered while a transaction was held open.`,
  );
}

/** What the pages of batches cost in the database, first and last, in milliseconds. */
async function measurePages(sql: postgres.Sql, id: string): Promise<void> {
  console.log(`\nPages of ${PAGE} in the database`);
  printHead("batch", "pages", "first, ms", "last, ms", "ratio");
  const all = await followPages(sql, id, null, "beginning");
  printPages("the first, 1,000,000 entries", all);
  printPages("by offsets, the same pages", await offsetPages(sql, id, all.length));
  const feedback = await followPages(sql, id, "feedback_given", "beginning");
  printPages("the first, one action", feedback);
  const appended = await followPages(sql, id, null, "beginning", () => append(sql, id, 100_000));
  printPages("the first, 100,000 appended meanwhile", appended);
  await sql`delete from audit_log.audit_entries where organization_id = ${id} and agent_name = 'appended'`;

  const later = await newOrganization(sql);
  const cursors = [null, "feedback_given"].map((action) => page(sql, later, action, "beginning"));
  const [empty, emptyAction] = await Promise.all(cursors);
  for (let n = 0; n < 20; n++) await append(sql, later, 50_000);
  await sql`vacuum (analyze) audit_log.audit_entries`;
  const ofAll = await followPages(sql, later, null, empty?.next);
  printPages("a later one, 1,000,000 entries", ofAll);
  const ofAction = await followPages(sql, later, "feedback_given", emptyAction?.next);
  printPages("a later one, one action of five", ofAction);

  const late = await lateTransactions(sql);
  const ofLate = await followPages(sql, late.id, null, late.after);
  printPages("200 late transactions of 1,000 entries", ofLate);
  await sql`delete from audit_log.audit_entries where organization_id in (${later}, ${late.id})`;
  await sql`vacuum (analyze) audit_log.audit_entries`;
}

function printPages(name: string, times: number[]): void {
  const edge = Math.min(EDGE, Math.floor(times.length / 4));
  // The first one makes the plans.
  const [first, last] = [median(times.slice(1, edge)), median(times.slice(-edge))];
  printRow(name, times.length, first.toFixed(2), last.toFixed(2), (last / first).toFixed(2));
}

/** One page of the feed. */
async function page(sql: postgres.Sql, id: string, action: string | null, after: string) {
  const started = performance.now();
  const [row] = await sql`
    select page::json ->> 'next' as next, page::json -> 'has_more' as more, length(page) as length, entries
    from audit_log_private.read_feed(
      ${id}, (${YEAR[0]}, ${
    YEAR[1]
  }, ${action}, null, ${PAGE}::int, null, null, ${after}::text)::audit_log.page_query
    )`;
  const time = performance.now() - started;
  const [next, entries, more]: [string, number, boolean] = [
    row?.["next"],
    row?.["entries"],
    row?.["more"],
  ];
  return { next, entries, more, time };
}

/** Pages that find nothing among millions of new entries, elapsed and on the processor, in milliseconds. */
async function measureGaps() {
  const folder = await Deno.makeTempDir();
  await using cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => Deno.remove(folder, { recursive: true }));
  await using stack = await startBenchStack(folder);
  const { databaseUrl } = stack;
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  const [backend] = await sql`select pg_backend_pid() as pid`;
  /** The processor time of the backend in milliseconds: the first number of `schedstat`. */
  const onProcessor = async () =>
    parseInt(await Deno.readTextFile(`/proc/${backend?.["pid"]}/schedstat`)) / 1e6;
  printHead("entries between", "pages", "processor, ms", "highest", "elapsed, ms", "highest");
  await sql`alter table audit_log.audit_entries disable trigger user`;
  const id = await newOrganization(sql);
  const beginning = await page(sql, id, "feedback_given", "beginning");
  const late = await lateTransactions(sql, 0, "feedback_given");
  let written = 0;
  for (const millions of [1, 4, 10]) {
    for (; written < millions * 1e6; written += 50_000) {
      await append(sql, id, 50_000, { oneOf: 50_001 });
      const transaction = late.inProgress[written / 50_000] ?? 0;
      await append(sql, late.id, 50_000, { oneOf: 50_001, transaction });
    }
    await sql`vacuum (analyze) audit_log.audit_entries`;
    const readers = [["new", id, beginning.next], ["late", late.id, late.after]] as const;
    for (const [name, organization, cursor] of readers) {
      const times: number[] = [];
      const cpu: number[] = [];
      for (let after: string = cursor, isMore = true; isMore;) {
        const before = await onProcessor();
        const { next, time, more } = await page(sql, organization, "feedback_given", after);
        [after, isMore] = [next, more];
        times.push(time);
        cpu.push(await onProcessor() - before);
      }
      const figures = [median(cpu), Math.max(...cpu), median(times), Math.max(...times)];
      printRow(`${millions},000,000 ${name}`, times.length, ...figures.map((ms) => ms.toFixed(1)));
    }
  }
  await sql.end();
}

/** The times of all full pages of the feed. */
async function followPages(
  sql: postgres.Sql,
  id: string,
  action: string | null,
  after = "",
  atPage100 = () => Promise.resolve(),
): Promise<number[]> {
  const times: number[] = [];
  for (;;) {
    if (times.length === 100) await atPage100();
    const { next, entries, time } = await page(sql, id, action, after);
    if (entries < PAGE) return times;
    times.push(time);
    after = next;
  }
}

async function offsetPages(sql: postgres.Sql, id: string, pages: number): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < pages; n++) {
    const started = performance.now();
    await sql`
      select length(page), entries
      from audit_log_private.read_page(
        ${id}, (${YEAR[0]}, ${YEAR[1]}, null, null, ${PAGE}::int, ${
      n * PAGE
    }::int, false, null)::audit_log.page_query
      )`;
    times.push(performance.now() - started);
  }
  return times;
}

async function newOrganization(sql: postgres.Sql): Promise<string> {
  const [row] = await sql`
    insert into audit_log.organizations (name) values ('Benchmark feed') returning id`;
  return row?.["id"];
}

/** One entry of so many is of the action that is asked for; `transaction`: the number that wrote them. */
async function append(
  sql: postgres.Sql,
  id: string,
  entries: number,
  { oneOf = 5, transaction }: { oneOf?: number; transaction?: number } = {},
): Promise<void> {
  await sql`
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
    select ${id}, '2025-06-01Z'::timestamptz + n * interval '1 second',
      case when n % ${oneOf}::int = 0 then 'feedback_given' else 'agent_added' end,
      'ada@example.com', 'appended', '{"n": "0123456789012345678901234567890123456789"}',
      coalesce(${transaction ?? null}::text::xid8, pg_current_xact_id())
    from generate_series(1, ${entries}::int) as n`;
}

/** Entries of transactions as if they had been in progress when a cursor was given out, so many of each. */
async function lateTransactions(sql: postgres.Sql, entries = 1000, action: string | null = null) {
  const id = await newOrganization(sql);
  await sql`do $$ begin for n in 1..500 loop perform pg_current_xact_id(); commit; end loop; end $$`;
  const [row] = await sql`
    select pg_snapshot_xmax(pg_current_snapshot())::text::bigint::int - 450 as oldest`;
  const oldest = row?.["oldest"] as number;
  const inProgress = Array.from({ length: 200 }, (_, n) => oldest + 2 * n);
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, transaction_id)
    select ${id}, '2025-06-01Z', 'agent_added', 'ada@example.com', 'late', x::text::xid8
    from unnest(${inProgress}::int[]) as x, generate_series(1, ${entries}::int)`;
  await sql`vacuum (analyze) audit_log.audit_entries`;
  const [cursor] = await sql`
    select audit_log_private.encode_cursor(
      (${`${oldest}:${
    oldest + 400
  }:${inProgress}`}::pg_snapshot, null, null, null, null, null, null),
      concat_ws(' ', ${`${id} ${YEAR.join(" ")}`}::text, ${action}::text)
    ) as after`;
  return { id, after: cursor?.["after"] as string, inProgress };
}

/** A caught-up poll over HTTP against an empty page, and a page of new entries against a day's first. */
async function measurePolls(sql: postgres.Sql, apiUrl: string, id: string, tokens: string[]) {
  const url = `${apiUrl}/functions/v1/public-audit-log`;
  const [none, day] = ["start=2030-01-01&end=2030-01-01", "start=2025-07-01&end=2025-07-01"];
  const cursor = async (start: string, end: string) => {
    const [row] = await sql`
      select page::json ->> 'next' as next from audit_log_private.read_feed(
        ${id}, (${start}, ${end}, null, null, 100, null, null, 'beginning')::audit_log.page_query
      )`;
    return row?.["next"] as string;
  };
  const empty = await cursor("2030-01-01", "2030-01-01");
  const unread = await cursor("2024-07-01", "2024-07-01");
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select organization_id, '2024-07-01T12:00:00Z', action, user_email, agent_name, data
    from audit_log.audit_entries where organization_id = ${id} and created_at >= '2025-07-01' limit 100`;
  const cases = {
    "an empty page": none,
    "a caught-up poll": `${none}&after=${empty}`,
    "one day, first page": day,
    "a page of 100 new entries": `start=2024-07-01&end=2024-07-01&after=${unread}`,
  };
  const seen = await byTurns(ROUNDS, Object.entries(cases), async ([, query]) => {
    await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
    const options = { tokens, status: 200, connections: 1, seconds: 2 };
    return (await load({ ...options, url: `${url}?${query}` })).medianLatency;
  });
  await sql`delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2025-01-01'`;
  console.log("\nOver one connection, by turns");
  printHead("request", "median, ms");
  for (const [[name], times] of seen) printRow(name, median(times).toFixed(2));
}
