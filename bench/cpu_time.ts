import type postgres from "postgres";
import type { DataSet } from "./data_set.ts";
import { load } from "./load.ts";
import { dataApiProcesses, processorTime, whileTimed } from "./processes.ts";
import { byTurns, median, printHead, printRow } from "./report.ts";

export interface CpuTimeOptions {
  /** The process of the gateway. */
  gatewayPid: number;
  /** The Edge Function, and what it is compared with. */
  handlers: Record<"function" | "floor", { port: number; pid: number }>;
  rounds: number;
  seconds: number;
  resetLimits: () => Promise<void>;
}

/** Prints the processor time of one request in each process, beside the floor's, and in each step of the SQL. */
export async function measureCpuTime(
  sql: postgres.Sql,
  { tokens, organizationId }: DataSet,
  { gatewayPid, handlers, rounds, seconds, resetLimits }: CpuTimeOptions,
): Promise<void> {
  console.log("\nProcessor time of one day's first page by process, milliseconds a request");
  const { "function": ours, floor } = handlers;
  const seen = await byTurns(rounds, [ours, floor], async ({ port, pid }) => {
    await resetLimits();
    const { postgrest, postgres } = await dataApiProcesses(gatewayPid, sql);
    const groups = [[pid], [gatewayPid], postgrest, postgres, [Deno.pid]];
    const { result, times } = await whileTimed(groups, () =>
      load({
        url: `http://127.0.0.1:${port}/public-audit-log?start=2025-07-01&end=2025-07-01`,
        tokens,
        status: 200,
        connections: 8,
        seconds,
      }));
    return times.map((time) => time / result.answers);
  });
  printHead("process", "function", "floor");
  for (const [n, part] of ["handler", "gateway", "PostgREST", "Postgres", "load"].entries()) {
    const times = [ours, floor].map((each) => seen.get(each)?.map((times) => times[n] ?? NaN));
    printRow(part, ...times.map((each) => median(each).toFixed(2)));
  }
  await measureSql(sql, organizationId, rounds);
}

/** Prints the processor time of each step of the SQL, in a backend that does nothing else. */
async function measureSql(pool: postgres.Sql, organizationId: string, rounds: number) {
  const sql = await pool.reserve();
  const [row] = await sql`
    select pg_backend_pid() as pid, h.api_key_id as key, encode(h.token_hash, 'hex') as hash
    from audit_log_private.api_key_hashes h where h.organization_id = ${organizationId} limit 1`;
  const { pid, key, hash } = row ?? {};
  const query =
    "('2025-07-01', '2025-07-01', null, null, 100, 0, false, null)::audit_log.page_query";
  const steps = {
    "an empty loop": "1",
    "count_request": `audit_log_private.count_request('${organizationId}', '${key}')`,
    "read_page": `audit_log_private.read_page('${organizationId}', ${query})`,
    "public_audit_log": `audit_log.public_audit_log('${hash}', 'entries', ${query})`,
  };
  const calls = 300;
  const seen = await byTurns(rounds, Object.entries(steps), async ([, step]) => {
    const before = await processorTime([pid]);
    await sql.unsafe(`do $$ begin for n in 1..${calls} loop
      perform ${step};
      update audit_log_private.rate_limits set accepted_at = '{}' where api_key_id = '${key}' and n % 50 = 0;
      commit;
    end loop; end $$`);
    return (await processorTime([pid]) - before) / calls;
  });
  sql.release();
  const [[, empty] = [], ...others] = seen;
  printHead("step of the SQL", "ms");
  for (const [[name], times] of others) printRow(name, (median(times) - median(empty)).toFixed(2));
}
