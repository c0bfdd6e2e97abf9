import { addKeys, type Organization, type Sql, valueOf } from "../tests/project.ts";

/** A log of one organization over a year, and keys to read it with. */
export interface DataSet {
  entries: number;
  organizationId: string;
  keys: Key[];
  /** Keys whose quota is used up. */
  exhaustedKeys: Key[];
}

type Key = Pick<Organization, "apiKeyId" | "token">;

/** Three persons. Each has one in so many entries of a data set. */
export const PERSONS = [100_000, 100, 1];

export function addressOf(person: number): string {
  return `user${person}@example.com`;
}

/** Makes new keys, and adds the entries that the data set still lacks. */
export async function makeDataSet(sql: Sql, entries: number): Promise<DataSet> {
  const id = `00000000-0000-4000-8000-${String(entries).padStart(12, "0")}`;
  await sql`
    insert into audit_log.organizations (id, name) values (${id}, 'Benchmark') on conflict do nothing`;
  await sql`delete from audit_log_private.api_keys where organization_id = ${id}`;
  const [exhaustedKeys, keys] = [await addKeys(sql, id, 20), await addKeys(sql, id, 20)];
  const there: number = await valueOf(sql`
    select coalesce(sum(entries), 0)::int from audit_log_private.entry_counts
    where organization_id = ${id}`);
  for (let n = there; n < entries; n += 50_000) {
    await sql.unsafe(insertionOf(id, entries, n, Math.min(n + 50_000, entries)));
  }
  while (await valueOf(sql`select audit_log_private.compact_entry_counts(${id})::int`));
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
  return { entries, organizationId: id, keys, exhaustedKeys };
}

/**
 * SQL that inserts the entries `from` to `to - 1` of an organization's log, which is spread evenly over a year: nine of
 * ten entries between 8 and 18 o'clock, the others at any time of the day.
 */
function insertionOf(id: string, entries: number, from: number, to: number): string {
  const persons = PERSONS.map((person) => `when n % ${person} = 0 then '${addressOf(person)}'`);
  return `
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data)
    select
      '${id}',
      '2025-01-01Z'::timestamptz + day * interval '1 day'
        + case when n % 10 = 0 then fraction * interval '1 day'
          else interval '8 hours' + fraction * interval '10 hours' end,
      case
        when n % 1000 = 0 then 'agent_added'
        when n % 100 < 20 then 'conversation_created'
        when n % 100 < 28 then 'feedback_given'
        else 'message_created'
      end,
      case ${persons.join(" ")} end,
      'Assistant ' || n % 7,
      jsonb_build_object(
        'message_id', md5('m' || n)::uuid,
        'conversation_id', md5('c' || n / 5)::uuid,
        'agent_id', md5('a' || n % 7)::uuid,
        'platform_agent_sid', 'AG' || md5('s' || n % 7)
      )
    from (
      select n, floor(position) as day, position - floor(position) as fraction
      from (
        select n, n * 365.0 / ${entries} as position
        from generate_series(${from}, ${to - 1}) as n
      ) as positions
    ) as times`;
}

/** SQL of a query for a page of 100, from its fields. */
export function queryOf(given: Record<string, string | number | string[]>): string {
  return `audit_log_private.with_defaults(jsonb_populate_record(null::audit_log.page_query, '${
    JSON.stringify(given)
  }'))`;
}

/** SQL of the cursor of a reader who has all that a snapshot sees. `query`: SQL of what the reader asks for. */
export function cursorOf(snapshot: string, organizationId: string, query: string): string {
  const cursor =
    `jsonb_populate_record(null::audit_log_private.feed_cursor, jsonb_build_object('seen', ${snapshot}))`;
  return `audit_log_private.encode_cursor(${cursor}, audit_log_private.cursor_key(
    audit_log_private.feed_scope('${organizationId}', ${query})))`;
}
