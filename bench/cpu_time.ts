import type postgres from "postgres";
import type { DataSet } from "./data_set.ts";
import { load, median } from "./load.ts";
import { dataApiProcesses, processorTime } from "./processes.ts";

export interface Measured {
  port: number;
  pid: number;
}

export interface CpuTimeOptions {
  /** The process of the gateway. */
  gatewayPid: number;
  /** The Edge Function, and what it is compared with. */
  handlers: { "function": Measured | undefined; "floor": Measured | undefined };
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
  const seen = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++) {
    for (const [name, handler] of Object.entries(handlers)) {
      if (!handler) throw new Error(`No ${name} to measure`);
      const { port, pid } = handler;
      await resetLimits();
      const { postgrest, postgres } = await dataApiProcesses(gatewayPid, sql);
      const parts = {
        gateway: [gatewayPid],
        handler: [pid],
        PostgREST: postgrest,
        Postgres: postgres,
        load: [Deno.pid],
      };
      const before = await Promise.all(Object.values(parts).map(processorTime));
      const { answers } = await load({
        url: `http://127.0.0.1:${port}/public-audit-log?start=2025-07-01&end=2025-07-01`,
        tokens,
        status: 200,
        connections: 8,
        seconds,
      });
      const after = await Promise.all(Object.values(parts).map(processorTime));
      if (round === 0) continue;
      for (const [i, part] of Object.keys(parts).entries()) {
        const time = ((after[i] ?? NaN) - (before[i] ?? NaN)) / answers;
        seen.set(`${part} ${name}`, [...seen.get(`${part} ${name}`) ?? [], time]);
      }
    }
  }
  const of = (name: string) => median(seen.get(name) ?? []).toFixed(2);
  console.log("\n| process | function | floor |\n| --- | ---: | ---: |");
  for (const part of ["handler", "gateway", "PostgREST", "Postgres", "load"]) {
    console.log(`| ${part} | ${of(`${part} function`)} | ${of(`${part} floor`)} |`);
  }
  await measureSql(sql, organizationId, rounds);
}

/** Prints the processor time of each step of the SQL, in a backend that does nothing else. */
async function measureSql(pool: postgres.Sql, organizationId: string, rounds: number) {
  await using sql = await reserve(pool);
  const [row] = await sql.reserved`
    select pg_backend_pid() as pid, h.api_key_id, encode(h.token_hash, 'hex') as hash
    from private.api_key_hashes h where h.organization_id = ${organizationId} limit 1`;
  const key = `'${organizationId}', '${row?.["api_key_id"]}'`;
  const page = `'${organizationId}', '2025-07-01', '2025-07-01', null, 100, 0, false`;
  const steps = {
    "an empty loop": "perform 1",
    "find_api_key": `perform private.find_api_key(decode('${row?.["hash"]}', 'hex'))`,
    "count_request": `perform private.count_request(${key})`,
    "read_page": `perform private.read_page(${page})`,
    "public_audit_log": `perform public.public_audit_log('${
      row?.["hash"]
    }', '2025-07-01', '2025-07-01')`,
  };
  const calls = 300;
  const seen = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++) {
    for (const [name, step] of Object.entries(steps)) {
      const before = await processorTime([row?.["pid"]]);
      await sql.reserved.unsafe(
        `do $$ begin for n in 1..${calls} loop
          ${step}; update private.rate_limits set accepted_at = '{}' where api_key_id = '${
          row?.["api_key_id"]
        }' and n % 50 = 0; commit;
        end loop; end $$`,
      );
      const time = (await processorTime([row?.["pid"]]) - before) / calls;
      if (round) seen.set(name, [...seen.get(name) ?? [], time]);
    }
  }
  const empty = median(seen.get("an empty loop") ?? []);
  console.log("\n| step of the SQL | ms |\n| --- | ---: |");
  for (const name of Object.keys(steps).slice(1)) {
    console.log(`| ${name} | ${(median(seen.get(name) ?? []) - empty).toFixed(2)} |`);
  }
}

async function reserve(pool: postgres.Sql) {
  const reserved = await pool.reserve();
  return { reserved, [Symbol.asyncDispose]: () => Promise.resolve(reserved.release()) };
}
