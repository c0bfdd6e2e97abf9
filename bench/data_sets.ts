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

/** The address of a person. */
export function addressOf(person: number): string {
  return `user${person}@example.com`;
}

/** Makes new keys, and adds the entries that the data set still lacks. */
export async function makeDataSet(sql: Sql, entries: number): Promise<DataSet> {
  await sql.unsafe(await Deno.readTextFile(new URL("three_calls.sql", import.meta.url)));
  const id = `00000000-0000-4000-8000-${String(entries).padStart(12, "0")}`;
  await sql`
    insert into audit_log.organizations (id, name) values (${id}, 'Benchmark') on conflict do nothing`;
  await sql`delete from audit_log.bench_api_keys where organization_id = ${id}`;
  await sql`delete from audit_log_private.api_keys where organization_id = ${id}`;
  const [exhaustedKeys, keys] = [await addKeys(sql, id, 20), await addKeys(sql, id, 300)];
  await sql`
    insert into audit_log.bench_api_keys
    select api_key_id, organization_id, encode(token_hash, 'hex')
    from audit_log_private.api_key_hashes where organization_id = ${id}`;
  const there: number = await valueOf(sql`
    select coalesce(sum(entries), 0)::int from audit_log_private.entry_counts
    where organization_id = ${id}`);
  const log = { entries, firstDay: "2025-01-01", days: 365, organization: `'${id}'::uuid` };
  for (let n = there; n < entries; n += 50_000) {
    await sql.unsafe(insertionOf(log, n, Math.min(n + 50_000, entries)));
  }
  while (await valueOf(sql`select audit_log_private.compact_entry_counts(${id})::int`));
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts`;
  return { entries, organizationId: id, keys, exhaustedKeys };
}

interface InsertionOptions {
  /** The whole log has so many entries, spread evenly over so many days. */
  entries: number;
  firstDay: string;
  days: number;
  /** SQL of an entry's organization and of its transaction's number; `n` is the entry's number in the log. */
  organization: string;
  transaction?: string;
}

/**
 * SQL that inserts the entries of a log with the numbers `from` to `to - 1`: nine of ten between 8 and 18 o'clock,
 * the others at any time of the day.
 */
function insertionOf(options: InsertionOptions, from: number, to: number): string {
  const { entries, firstDay, days, organization, transaction = "pg_current_xact_id()" } = options;
  const persons = PERSONS.map((person) => `when n % ${person} = 0 then '${addressOf(person)}'`);
  return `
    insert into audit_log.audit_entries
      (id, organization_id, created_at, transaction_id, action, user_email, agent_name, data)
    select
      gen_random_uuid(),
      ${organization},
      '${firstDay}Z'::timestamptz + day * interval '1 day'
        + case when n % 10 = 0 then fraction * interval '1 day'
          else interval '8 hours' + fraction * interval '10 hours' end,
      ${transaction},
      (case
        when n % 1000 = 0 then 'agent_added'
        when n % 100 < 20 then 'conversation_created'
        when n % 100 < 28 then 'feedback_given'
        else 'message_created'
      end),
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
        select n, n * ${days}.0 / ${entries} as position
        from generate_series(${from}, ${to - 1}) as n
      ) as positions
    ) as times`;
}

/** SQL of the cursor of a reader who has all that a snapshot sees. `scope`: organization, days, action. */
export function cursorOf(snapshot: string, scope: string): string {
  return `audit_log_private.encode_cursor((${snapshot}, null, null, null, null, null, null), '${scope}')`;
}

/** A log of five years. */
export interface GrownLog {
  entries: number;
  organizations: number;
}

/** Its days, from 2021-01-01 to 2025-12-31. */
export const DAYS = 1826;

const DAYS_AT_ONCE = 30;
const TRANSACTIONS = 1_000_000;

/** The id of an organization by its rank: 1 is the largest. */
export function organizationId(rank: number): string {
  const first = "0123456789abcdef"[(rank * 7) % 16];
  return `${first}0000000-0000-4000-a000-${String(rank).padStart(12, "0")}`;
}

/** Fills a database with a log, unless it has it already. */
export async function loadGrownLog(sql: Sql, log: GrownLog): Promise<void> {
  const { entries, organizations } = log;
  const ids = Array.from({ length: organizations }, (_, n) => organizationId(n + 1));
  const loaded = sql`
    select exists (select from audit_log.audit_entries where organization_id = ${ids[0] ?? ""})`;
  if (await valueOf(loaded)) return;
  await sql`
    insert into audit_log.organizations (id, name)
    select id, 'Organization ' || rank from unnest(${ids}::uuid[]) with ordinality as o (id, rank)
    on conflict do nothing`;
  // The entries take the numbers of these transactions, which are over.
  await sql.unsafe(`do $$ begin
    for n in 1..${TRANSACTIONS + 1000} loop perform pg_current_xact_id(); commit; end loop;
  end $$`);
  await sql.begin(async (transaction) => {
    // The counts are written with the entries, not by the trigger.
    await transaction`set local session_replication_role = replica`;
    await transaction`truncate audit_log.audit_entries, audit_log_private.entry_counts, audit_log_private.days_to_seal`;
    for (let day = 0; day < DAYS; day += DAYS_AT_ONCE) {
      const [from = 0, to = 0] = [day, Math.min(day + DAYS_AT_ONCE, DAYS)]
        .map((each) => Math.ceil(each * entries / DAYS));
      await transaction.unsafe(writingOf(log, ids, from, to));
      console.log(`  ${to} entries`);
    }
    await transaction`
      insert into audit_log_private.monthly_entry_counts
      select organization_id, date_trunc('month', day::timestamp), action, sum(entries)
      from audit_log_private.entry_counts group by 1, 2, 3`;
  });
  await sql`reindex table audit_log.audit_entries`;
  await sql`vacuum (analyze)`;
}

/**
 * SQL that writes entries of whole days, and their counts in the order in which the upkeep of each night does. The
 * largest organization gets a fifth of the entries. The others get fewer the lower their rank: those of ranks 10 to
 * 99 together as many as those of ranks 100 to 999.
 */
function writingOf(
  { entries, organizations }: GrownLog,
  ids: string[],
  from: number,
  to: number,
): string {
  const rank = organizations === 1
    ? "1"
    : `case when random() < 0.2 then 1 else 1 + floor(power(${organizations}, random()))::int end`;
  const options = {
    entries,
    firstDay: "2021-01-01",
    days: DAYS,
    organization: `('{${ids}}'::uuid[])[${rank}]`,
    transaction: `(1000 + n::bigint * ${TRANSACTIONS} / ${entries})::text::xid8`,
  };
  const insertion = insertionOf(options, from, to);
  const hours = Array.from({ length: 24 }, (_, h) => `count(*) filter (where hour = ${h})`);
  return `
    with written as (
      ${insertion} returning organization_id, created_at at time zone 'UTC' as time, action
    )
    insert into audit_log_private.entry_counts (organization_id, day, action, writer_pid, entries, hours)
    select organization_id, time::date, action, 0, count(*), array[${hours}]::integer[]
    from (select *, extract(hour from time) as hour from written) as entries
    group by 2, 1, 3 order by 2, 1, 3`;
}
