import { assertRejects } from "@std/assert";
import postgres from "postgres";

// What tests do with a database that has the service: that of any stack, by a connection of its owner.

export type Sql = postgres.Sql;
/** A connection, or a transaction on one. */
export type Run = postgres.ISql;

/** An organization of a test's own, with an API key. */
export interface Organization {
  id: string;
  apiKeyId: string;
  token: string;
}

/** Makes an organization without members, and a key for it. */
export async function addOrganization(run: Run, name = "Test"): Promise<Organization> {
  const [row] = await run`insert into audit_log.organizations (name) values (${name}) returning id`;
  const id: string = row?.["id"];
  const [key] = await addKeys(run, id, 1);
  if (!key) throw new Error("no key was made");
  return { id, ...key };
}

/** Makes API keys for an organization. */
export async function addKeys(run: Run, id: string, count: number) {
  const keys = await run<Omit<Organization, "id">[]>`
    select key ->> 'id' as "apiKeyId", key ->> 'token' as token
    from (
      select audit_log_private.insert_api_key(${id}, 'test') as key from generate_series(1, ${count}::int)
    ) as made`;
  return [...keys];
}

/** What matters to a test of an entry that it writes by SQL. */
export interface Written {
  action?: string;
  user_email?: string;
  agent_name?: string;
  /** As JSON, so that numbers keep their digits. */
  data?: string;
}

/** Writes one entry: at a time to the microsecond, or now; with a transaction number, as the owner may. */
export async function insertEntry(
  run: Run,
  id: string,
  given: Written & { created_at?: string; transaction_id?: string } = {},
): Promise<void> {
  const { action = "agent_added", user_email = "ada@example.com", agent_name = "Assistant" } =
    given;
  const { created_at, transaction_id, data = "{}" } = given;
  await run`
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
    values (
      ${id}, ${created_at ? run`${created_at}::text::timestamptz` : run`default`}, ${action},
      ${user_email}, ${agent_name}, ${data}::text::jsonb,
      ${transaction_id ? run`${transaction_id}::text::xid8` : run`default`}
    )`;
}

/** Writes so many entries, spread evenly over a day, in one statement. */
export async function insertEntries(
  run: Run,
  id: string,
  day: string,
  entries: number,
  given: Written = {},
): Promise<void> {
  const { action = null, user_email = "ada@example.com", agent_name = "Assistant" } = given;
  await run`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${id}, ${day}::timestamp at time zone 'UTC' + n * interval '1 day' / ${entries}::int,
      coalesce(${action}::text, (array['agent_added', 'feedback_given'])[n % 2 + 1]), ${user_email},
      ${agent_name}, ${given.data ?? "{}"}::text::jsonb
    from generate_series(0, ${entries}::int - 1) as n`;
}

/** What the feed answers to a query by SQL. */
export interface FeedAnswer {
  items: { id: string; agent_name: string }[];
  /** The agents of the entries. */
  names: string[];
  next: string;
  has_more: boolean;
  total: number;
}

/** Asks the feed once; null where the cursor is refused, which the API answers with 400. */
export async function askFeed(
  run: Run,
  id: string,
  after: string,
  { start = "0001-01-01", end = "9999-12-31", limit = 1000 } = {},
): Promise<FeedAnswer | null> {
  const [row] = await run`
    select page::json from audit_log_private.read_feed(
      ${id}, (${start}, ${end}, null, null, ${limit}, 0, false, ${after}::text)::audit_log.page_query
    )`;
  const page: Omit<FeedAnswer, "names"> | null = row?.["page"];
  return page && { ...page, names: page.items.map((item) => item.agent_name) };
}

/** Does all of the upkeep, with the statement that examples/adopting/upkeep.sql schedules; not within a transaction. */
export async function runUpkeep(run: Run): Promise<void> {
  const file = new URL("../examples/adopting/upkeep.sql", import.meta.url);
  const [, statement] = (await Deno.readTextFile(file)).match(/'(do [^']*)'/) ?? [];
  if (!statement) throw new Error("upkeep.sql schedules no statement");
  await run.unsafe(statement);
}

/** Where an organization's counts differ from its entries. */
export async function countMismatches(run: Run, id: string): Promise<postgres.Row[]> {
  return [...await run`select * from audit_log_private.entry_count_mismatches(${id})`];
}

/** Uses a key's limit up, as 60 requests of this moment would. */
export async function exhaust(run: Run, apiKeyId: string): Promise<void> {
  await run`
    update audit_log_private.rate_limits set accepted_at = array_fill(clock_timestamp(), array[60])
    where api_key_id = ${apiKeyId}`;
}

/** Moves the times of a key's accepted requests into the past, instead of waiting. */
export async function age(run: Run, apiKeyId: string, by: string): Promise<void> {
  await run`
    update audit_log_private.rate_limits
    set accepted_at = array(select t - ${by}::interval from unnest(accepted_at) as t)
    where api_key_id = ${apiKeyId}`;
}

/** Runs statements in a transaction, and undoes what they did. */
export async function rolledBack<T>(
  sql: Sql,
  run: (transaction: postgres.ReservedSql) => Promise<T>,
): Promise<T> {
  const transaction = await sql.reserve();
  try {
    await transaction`begin`;
    return await run(transaction);
  } finally {
    await transaction`rollback`;
    transaction.release();
  }
}

/** The error with which a statement is refused. */
export async function errorOf(statement: Promise<unknown>): Promise<postgres.PostgresError> {
  return await assertRejects(() => statement, postgres.PostgresError);
}

/** The SQLSTATE with which a statement is refused. */
export async function codeOf(statement: Promise<unknown>): Promise<string> {
  return (await errorOf(statement)).code;
}

/** The process that serves a connection. */
export async function pidOf(connection: Run): Promise<number> {
  const [row] = await connection`select pg_backend_pid() as pid`;
  return row?.["pid"];
}

/** Resolves when somebody waits for a lock that a backend holds. */
export async function somebodyWaitsFor(sql: Sql, pid: number): Promise<void> {
  for (let waits = false; !waits;) {
    const [row] = await sql`
      select exists (select from pg_stat_activity where ${pid} = any (pg_blocking_pids(pid))) as waits`;
    waits = row?.["waits"];
  }
}

/**
 * Sends a request that has to wait for its key's turn, and does something meanwhile; the answer. Of the
 * row that is waited for, the holder alone may do something.
 */
export async function whileWaiting(
  sql: Sql,
  apiKeyId: string,
  request: () => Promise<Response>,
  action: (holder: Run) => Promise<unknown>,
): Promise<Response> {
  const holder = await sql.reserve();
  try {
    await holder`begin`;
    await holder`select from audit_log_private.rate_limits where api_key_id = ${apiKeyId} for update`;
    const answer = request();
    await somebodyWaitsFor(sql, await pidOf(holder));
    await action(holder);
    await holder`commit`;
    return await answer;
  } finally {
    await holder`rollback`;
    holder.release();
  }
}
