import type postgres from "postgres";

const BATCH = 50_000;

/** Entries of one organization over a year, and keys to read them with. */
export interface DataSet {
  entries: number;
  organizationId: string;
  tokens: string[];
  /** A key whose limit is used up. */
  exhaustedToken: string;
}

/** Makes a data set, or what is missing of it, and new keys. */
export async function makeDataSet(sql: postgres.Sql, entries: number): Promise<DataSet> {
  await sql.unsafe(await Deno.readTextFile(new URL("three_calls.sql", import.meta.url)));
  const organizationId = `00000000-0000-4000-8000-${String(entries).padStart(12, "0")}`;
  await sql`
    insert into audit_log.organizations (id, name)
    values (${organizationId}, ${`Benchmark ${entries}`}) on conflict do nothing`;
  const [row] = await sql`
    select coalesce(sum(entries), 0)::int as n from audit_log_private.entry_counts
    where organization_id = ${organizationId}`;
  const organization = `'${organizationId}'::uuid`;
  const log = { entries, firstDay: "2025-01-01", days: 365, organization };
  for (let n: number = row?.["n"]; n < entries; n += BATCH) {
    progress(entries, n);
    await sql.unsafe(insertionOf(log, n, Math.min(n + BATCH, entries)));
  }
  progress(entries, entries);
  await sql`vacuum (analyze) audit_log.audit_entries`;
  const compact = () =>
    sql`select audit_log_private.compact_entry_counts(${organizationId})::int as done`;
  while ((await compact())[0]?.["done"]);
  await sql`vacuum (analyze) audit_log_private.entry_counts`;
  const [exhaustedToken = "", ...tokens] = await makeKeys(sql, organizationId, 301);
  return { entries, organizationId, tokens, exhaustedToken };
}

export interface EntriesOptions {
  /** How many the whole log has, spread evenly over so many days. */
  entries: number;
  firstDay: string;
  days: number;
  /** SQL of an entry's organization and of its transaction's number; `n` is the entry's place in the log. */
  organization: string;
  transaction?: string;
}

/**
 * SQL that inserts the entries of a log from one place to before another: nine of ten between 8 and 18 o'clock,
 * the others at any time of the day.
 */
export function insertionOf(options: EntriesOptions, from: number, to: number): string {
  const { entries, firstDay, days, organization, transaction = "pg_current_xact_id()" } = options;
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
      'user' || n % 50 || '@example.com',
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

async function makeKeys(
  sql: postgres.Sql,
  organizationId: string,
  count: number,
): Promise<string[]> {
  await sql`delete from audit_log_private.api_keys where organization_id = ${organizationId}`;
  await sql`
    delete from audit_log.bench_api_keys where organization_id = ${organizationId}`;
  const rows = await sql`
    with made as materialized (
      select audit_log_private.insert_api_key(${organizationId}, 'benchmark') as key
      from generate_series(1, ${count}::int)
    ), copied as (
      insert into audit_log.bench_api_keys
      select (key ->> 'id')::uuid, ${organizationId}, encode(sha256(convert_to(key ->> 'token', 'UTF8')), 'hex')
      from made
    )
    select key ->> 'token' as token from made`;
  return rows.map((row) => row["token"]);
}

function progress(entries: number, done: number): void {
  const width = 30;
  const bar = "█".repeat(Math.round(width * done / entries)).padEnd(width, "·");
  const line = `  ${entries.toLocaleString("en")} entries ${bar} ${
    Math.round(100 * done / entries)
  } %`;
  if (Deno.stdout.isTerminal()) Deno.stdout.writeSync(new TextEncoder().encode(`\r${line}`));
  if (done === entries) console.log(Deno.stdout.isTerminal() ? "" : line);
}
