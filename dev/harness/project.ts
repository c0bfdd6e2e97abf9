// What tests, benchmarks and the trial of Citus do in a project's database, through a connection of its owner. Only the
// test tasks can load @std, so nothing here does.

import assert from "node:assert/strict";
import postgres from "postgres";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";

/** False with `deno task test --without-streams`. */
export const HAS_STREAMS = !Deno.env.has("WITHOUT_STREAMS");

export type Sql = postgres.Sql;
/** A connection, or a transaction on one. */
export type Run = postgres.ISql;

export interface Organization {
  id: string;
  apiKeyId: string;
  token: string;
}

export async function valueOf<T>(query: PromiseLike<readonly postgres.Row[]>): Promise<T> {
  const [row] = await query;
  return Object.values(row ?? {})[0];
}

export async function addOrganization(
  run: Run,
  platformId: string = crypto.randomUUID(),
): Promise<Organization> {
  const id: string = await valueOf(
    run`select audit_log_private.ensure_organization(${platformId})`,
  );
  const [key] = await addKeys(run, id, 1);
  if (!key) throw new Error("no key was made");
  return { id, ...key };
}

export async function addKeys(run: Run, id: string, count: number) {
  const keys = await run<Omit<Organization, "id">[]>`
    select key ->> 'id' as "apiKeyId", key ->> 'token' as token
    from (
      select audit_log_private.insert_api_key(${id}, 'test') as key from generate_series(1, ${count}::int)
    ) as made`;
  return [...keys];
}

export async function revoke(run: Run, apiKeyId: string): Promise<void> {
  await run`update audit_log_private.api_keys set revoked_at = now() where id = ${apiKeyId}`;
}

/** Takes the rights of a signed-in person until the transaction ends, as the Data API does. */
export async function actAs(
  run: Run,
  claims: { sub: string; [name: string]: unknown },
): Promise<void> {
  // As Supabase Auth does, unless the claims say something else.
  await run`
    select set_config('request.jwt.claims', (jsonb_build_object(
      'exp', extract(epoch from now() + interval '1 hour')::bigint,
      'session_id', (select s.id from auth.sessions s where s.user_id::text = ${claims.sub} limit 1)
    ) || ${JSON.stringify(claims)}::text::jsonb)::text, true)`;
  await run`set local role authenticated`;
}

export async function callAs<T>(sql: Sql, sub: string, call: string): Promise<T> {
  return await valueOf<T>(sql.begin(async (run) => {
    await actAs(run, { sub, email: `${sub}@example.com` });
    return await run.unsafe(`select audit_log.${call}`);
  }));
}

export interface Written {
  action?: string;
  user_email?: string;
  agent_name?: string;
  /** As JSON, so that numbers keep their digits. */
  data?: string;
}

/**
 * The longest entry that the table allows. Its characters take the most room on their way: JSON writes a
 * control character as six, and one character beyond Latin-1 doubles the size of a JavaScript string.
 */
export const LONGEST: Written = {
  action: "feedback_given",
  user_email: "\u0001".repeat(318) + "@\u0001",
  agent_name: "\u0001".repeat(199) + "😀",
  data: JSON.stringify({ t: "\\".repeat(2042) }),
};

/** Writes one entry: now, or at a time to the microsecond. The owner may choose the transaction's number. */
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

/** Writes so many entries in one statement, from a day on: evenly over it, or one `every` so often. */
export async function insertEntries(
  run: Run,
  id: string,
  day: string,
  entries: number,
  given: Written & { every?: string } = {},
): Promise<void> {
  const { action = null, user_email = "ada@example.com", agent_name = "Assistant" } = given;
  const { data = "{}", every = null } = given;
  await run`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${id},
      ${day}::timestamp at time zone 'UTC' + n * coalesce(${every}::interval, interval '1 day' / ${entries}::int),
      coalesce(${action}::text, (array['agent_added', 'feedback_given'])[n % 2 + 1]), ${user_email},
      ${agent_name}, ${data}::text::jsonb
    from generate_series(0, ${entries}::int - 1) as n`;
}

export type Query = Partial<Database["audit_log"]["CompositeTypes"]["page_query"]>;

/** Makes a query in SQL from its fields by name. All others have their defaults, so that a new one breaks no test. */
export function queryOf(run: Run, given: Query) {
  return run`audit_log_private.with_defaults(jsonb_populate_record(null::audit_log.page_query, ${
    JSON.stringify(given)
  }::text::jsonb))`;
}

export interface FeedAnswer {
  items: { id: string; agent_name: string }[];
  names: string[];
  cursor: string;
  has_more: boolean;
  total: number;
}

/** Asks the feed once. Returns null where the cursor is refused, which the API answers with 400. */
export async function askFeed(
  run: Run,
  id: string,
  after: string,
  given: Query = {},
): Promise<FeedAnswer | null> {
  const query = queryOf(run, { page_limit: 1000, ...given, after });
  const page: Omit<FeedAnswer, "names"> | null = await valueOf(run`
    select json_build_object('total', r.total, 'items', r.items::json, 'cursor', r.cursor, 'has_more', r.has_more)
    from audit_log_private.read_feed(${id}, ${query}) as r where r.decision = 'accepted'`);
  return page ? { ...page, names: page.items.map((item) => item.agent_name) } : null;
}

/** Does all of the upkeep, with the statement that docs/examples/adopting/upkeep.sql schedules; not within a transaction. */
export async function runUpkeep(run: Run): Promise<void> {
  const file = new URL("../../docs/examples/adopting/upkeep.sql", import.meta.url);
  const [, statement] = (await Deno.readTextFile(file)).match(/'(do [^']*)'/) ?? [];
  if (!statement) throw new Error("upkeep.sql schedules no statement");
  await run.unsafe(statement);
}

/** Does all of the upkeep, and compares each sealed day of an organization with its seal as if 31 days had passed. */
export async function checkSeals(run: Run, id: string): Promise<void> {
  await run`
    update audit_log_private.sealed_days set check_at = now()
    where organization_id = ${id}`;
  await runUpkeep(run);
}

/** Deletes one piece of an organization's entries before a day, and says whether there may be more. */
export async function deleteEntriesBefore(run: Run, id: string, day: string): Promise<boolean> {
  return await valueOf(
    run`select audit_log_private.delete_entries_before(${id}, ${day}::text::date)`,
  );
}

export async function countMismatches(run: Run, id: string): Promise<postgres.Row[]> {
  return [...await run`select * from audit_log_private.entry_count_mismatches(${id})`];
}

export async function healthOf<T>(run: Run, id: string, list: string): Promise<T[]> {
  return await valueOf(run`
    select array(
      select each from json_array_elements(audit_log_private.health() -> ${list}) as each
      where each ->> 'organization_id' = ${id}
    )`);
}

export async function quotaOf(run: Run): Promise<number> {
  return await valueOf(run`select audit_log_private.quota()`);
}

export async function exhaust(run: Run, apiKeyId: string): Promise<void> {
  await run`
    update audit_log_private.rate_limits
    set counted_at = array_fill(clock_timestamp(), array[audit_log_private.quota()])
    where api_key_id = ${apiKeyId}`;
}

/** Moves the times of a key's counted requests into the past, instead of waiting. */
export async function age(run: Run, apiKeyId: string, by: string): Promise<void> {
  await run`
    update audit_log_private.rate_limits
    set counted_at = array(select t - ${by}::interval from unnest(counted_at) as t)
    where api_key_id = ${apiKeyId}`;
}

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

export async function errorOf(statement: Promise<unknown>): Promise<postgres.PostgresError> {
  const error = await statement.then(() => null, (error: unknown) => error);
  assert(error instanceof postgres.PostgresError, `not refused by Postgres: ${error}`);
  return error;
}

export async function codeOf(statement: Promise<unknown>): Promise<string> {
  return (await errorOf(statement)).code;
}

export async function refusalOf(statement: Promise<unknown>): Promise<string> {
  const { code, message } = await errorOf(statement);
  return `${code} ${message}`;
}

export async function pidOf(connection: Run): Promise<number> {
  return await valueOf(connection`select pg_backend_pid()`);
}

/** Asks again until something is so, for at most a minute. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !await isSo();) assert(Date.now() < end, `never: ${isSo}`);
}

export async function somebodyWaitsFor(sql: Sql, pid: number): Promise<void> {
  await until(() =>
    valueOf(sql`
      select exists (select from pg_stat_activity where ${pid} = any (pg_blocking_pids(pid)))`)
  );
}

/**
 * Locks the row of a key's rate limit, sends a request that has to wait for it, does something meanwhile, and
 * returns the answer. Only the holder may touch the locked row.
 */
export async function whileWaiting(
  sql: Sql,
  apiKeyId: string,
  request: () => Promise<Response>,
  action: (holder: Run) => Promise<unknown>,
): Promise<Response> {
  return await rolledBack(sql, async (holder) => {
    await holder`select from audit_log_private.rate_limits where api_key_id = ${apiKeyId} for update`;
    const answer = request();
    await somebodyWaitsFor(sql, await pidOf(holder));
    await action(holder);
    await holder`commit`;
    return await answer;
  });
}
