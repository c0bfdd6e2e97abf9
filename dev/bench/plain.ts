import { addKeys, addOrganization, quotaOf, runUpkeep } from "../harness/project.ts";
import { insertYear, YEAR } from "./reads.ts";
import { byTurns, median, printHead, printRow, spread } from "./report.ts";
import { ask, type Bench, resetLimits, startFunction } from "./stack.ts";
import { measureTransaction, VALUES } from "./writes.ts";

const REQUESTS = 20;
const MAIN = new URL("plain_function.ts", import.meta.url);

/** Compares pages, and the write of an entry, with what the design card says taken literally (plain_function.ts). */
export async function measurePlain(bench: Bench): Promise<void> {
  const { sql, rounds, entries } = bench;
  const { id } = await addOrganization(sql);
  await insertYear(bench, id);
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
  const pages = {
    "a page of one day": "start=2025-07-01&end=2025-07-01",
    "of a year": YEAR,
    [`of a year, ${(entries * 0.9).toLocaleString("en")} deep`]: `${YEAR}&offset=${entries * 0.9}`,
    "of a year, one action of four": `${YEAR}&action=feedback_given`,
  };
  printHead(
    `Milliseconds in a log of ${entries.toLocaleString("en")} entries, ${rounds} rounds`,
    "what",
    "this API",
    "three calls",
    "three calls / this API",
  );
  for (const [what, query] of Object.entries(pages)) {
    await printTurns(rounds, what, [ours, plain], async (edgeFunction) => {
      await resetLimits(sql);
      await sql`delete from public.plain_rate_limits`;
      const times: number[] = [];
      for (let request = 0; request < REQUESTS; request++) {
        const { milliseconds } = await ask(edgeFunction, query, keys[request % 20]?.token);
        times.push(milliseconds);
      }
      return median(times);
    });
  }
  const tables = ["audit_log.audit_entries", "public.plain_audit_entries"] as const;
  await printTurns(
    rounds,
    "the write of an entry",
    tables,
    async (table) =>
      await measureTransaction(
        bench.databaseUrl,
        `insert into ${table} (organization_id, created_at, action, user_email, agent_name, data)
        values ('${id}', clock_timestamp(), ${VALUES})`,
        1,
      ),
  );
}

/** The tables and the counter of plain_function.ts, with the same entries and keys. */
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
    create table public.plain_audit_entries (
      id uuid primary key default gen_random_uuid(),
      organization_id uuid not null,
      created_at timestamptz not null default now(),
      action text not null,
      user_email text not null,
      agent_name text not null,
      data jsonb not null
    );
    create index on public.plain_audit_entries (organization_id, created_at, id);
    create index on public.plain_audit_entries (organization_id, action, created_at, id);
    alter table public.plain_api_keys enable row level security;
    alter table public.plain_rate_limits enable row level security;
    alter table public.plain_audit_entries enable row level security;
    create function public.plain_count_request(key_id uuid) returns boolean language sql as $$
      insert into public.plain_rate_limits as limits values (key_id, date_trunc('minute', now()), 1)
      on conflict on constraint plain_rate_limits_pkey do update set requests = limits.requests + 1
      returning requests <= ${await quotaOf(sql)} $$;
    grant select, insert, update on public.plain_api_keys, public.plain_rate_limits,
      public.plain_audit_entries to service_role;
    insert into public.plain_audit_entries
      select id, organization_id, created_at, action, user_email, agent_name, data
      from audit_log.audit_entries;
    notify pgrst, 'reload schema'`);
}

/** Measures ours and the other by turns, and prints both with how many times the other takes. */
async function printTurns<T>(
  rounds: number,
  what: string,
  subjects: readonly [T, T],
  measure: (subject: T) => Promise<number>,
): Promise<void> {
  const [ours = [], others = []] = await byTurns(rounds, subjects, measure);
  const ratios = others.map((value, round) => value / (ours[round] ?? NaN));
  printRow(what, spread(ours, 2), spread(others, 2), spread(ratios, 2));
}
