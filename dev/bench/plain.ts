import { addKeys, addOrganization, quotaOf, runUpkeep } from "../harness/project.ts";
import type { EdgeFunction } from "../local/edge_function.ts";
import { type Bound, compare, printHead } from "./report.ts";
import { type Bench, medianOf, startFunction } from "./stack.ts";

const MAIN = new URL("plain_function.ts", import.meta.url);
export const YEAR = "start=2025-01-01&end=2025-12-31";

/** Compares pages with what the design card says taken literally (plain_function.ts). */
export async function measurePlain(bench: Bench): Promise<void> {
  const { sql, rounds, entries } = bench;
  const { id } = await addOrganization(sql);
  await sql.unsafe(insertion(0, entries, {
    organization: `'${id}'`,
    person: "'user1@example.com'",
    from: "2025-01-01",
    perDay: entries / 365,
  }));
  const keys = await addKeys(sql, id, 20);
  await makePlain(bench);
  for (const { apiKeyId, token } of keys) {
    await sql`
      insert into public.plain_api_keys
      values (${apiKeyId}, ${id}, encode(sha256(convert_to(${token}, 'UTF8')), 'hex'))`;
  }
  await runUpkeep(sql);
  await sql`vacuum (analyze) audit_log.audit_entries, audit_log_private.entry_counts, public.plain_audit_entries`;

  await using ours = await startFunction(bench);
  await using plain = await startFunction(bench, { main: MAIN });
  const pages: [what: string, query: string, bound: Bound][] = [
    ["a page of one day", "start=2025-07-01&end=2025-07-01", { least: 1 }],
    ["of a year", YEAR, { least: 20 }],
    ["of a year, 90 % deep", `${YEAR}&offset=${entries * 0.9}`, { least: 80 }],
    ["of a year, one action of four", `${YEAR}&action=feedback_given`, { least: 3.5 }],
  ];
  const title = `Milliseconds in a log of ${entries.toLocaleString("en")} entries`;
  const columns = ["what", "this API", "three calls", "three calls / this API", "bound"];
  printHead(`${title}, ${rounds} rounds`, ...columns);
  for (const [what, query, bound] of pages) {
    const read = async (edgeFunction: EdgeFunction) => {
      await sql`delete from public.plain_rate_limits`;
      return await medianOf(bench, edgeFunction, keys, query);
    };
    await compare(rounds, what, [ours, plain], read, bound);
  }
  printHead("Milliseconds of this API", "what", "first page", "90 % deep", "ratio", "bound");
  const read = (query: string) => medianOf(bench, ours, keys, query);
  const depths = [YEAR, `${YEAR}&offset=${entries * 0.9}`];
  await compare(rounds, "a page of a year", depths, read, { most: 1.3 });
}

interface Filling {
  /** SQL, as that of the person, in which n counts the entries, and k every so many (`each`). */
  organization: string;
  person: string;
  /** A day. */
  from: string;
  perDay: number;
  each?: number;
}

/** SQL that writes entries from a number on, in the order of time, nine of ten between 8 and 18 o'clock. */
export function insertion(first: number, count: number, filling: Filling): string {
  const { organization, person, from, perDay, each = 1 } = filling;
  return `insert into audit_log.audit_entries
    (organization_id, created_at, action, user_email, agent_name, data)
    select ${organization},
      '${from}Z'::timestamptz + floor(days) * interval '1 day'
        + case when k % 10 = 0 then (days - floor(days)) * interval '1 day'
          else interval '8 hours' + (days - floor(days)) * interval '10 hours' end,
      case when k % 1000 = 0 then 'agent_added' when k % 100 < 20 then 'conversation_created'
        when k % 100 < 28 then 'feedback_given' else 'message_created' end,
      ${person}, 'Assistant ' || n % 7,
      jsonb_build_object('message_id', md5('m' || n)::uuid, 'conversation_id', md5('c' || n / 5)::uuid,
        'agent_id', md5('a' || n % 7)::uuid, 'platform_agent_sid', 'AG' || md5('s' || n % 7))
    from generate_series(${first}::bigint, ${first + count - 1}) as n
    cross join lateral (select n / ${perDay}::numeric as days, n / ${each} as k) as numbers`;
}

async function makePlain({ sql }: Bench): Promise<void> {
  await sql.unsafe(`
    create table public.plain_api_keys (
      id uuid primary key,
      organization_id uuid not null,
      token_hash text not null unique,
      revoked_at timestamptz
    );
    create table public.plain_rate_limits (
      key_id uuid,
      minute timestamptz,
      requests integer not null,
      primary key (key_id, minute)
    );
    create table public.plain_audit_entries as
      select id, organization_id, created_at, action, user_email, agent_name, data
      from audit_log.audit_entries;
    alter table public.plain_audit_entries add primary key (id);
    create index on public.plain_audit_entries (organization_id, created_at, id);
    create index on public.plain_audit_entries (organization_id, action, created_at, id);
    create function public.plain_count_request(key_id uuid) returns boolean language sql as $$
      insert into public.plain_rate_limits as limits values (key_id, date_trunc('minute', now()), 1)
      on conflict on constraint plain_rate_limits_pkey do update set requests = limits.requests + 1
      returning requests <= ${await quotaOf(sql)} $$;
    grant select, insert, update on public.plain_api_keys, public.plain_rate_limits,
      public.plain_audit_entries to service_role;
    notify pgrst, 'reload schema'`);
}
