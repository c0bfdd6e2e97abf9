import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { type EdgeFunction, startEdgeFunction } from "../local/edge_function.ts";
import { freePort } from "../local/free_port.ts";
import type { StackInfo } from "../local/stack.ts";
import { processorTime } from "./processes.ts";

export interface BenchOptions {
  /** So many entries the log has. */
  entries: number;
  rounds: number;
  /** So long one subject is measured in one round. */
  seconds: number;
  /** The path of supa_audit's SQL: supa_audit--0.3.1.sql of github.com/supabase/supa_audit. */
  supaAudit: string | undefined;
}

/** Data sets are kept here. */
export const KEPT = fileURLToPath(new URL("data", import.meta.url));

/** A stack in a process of its own, because the load must not share one with the gateway. */
export interface BenchStack extends StackInfo, AsyncDisposable {
  /** The process of the gateway, of which PostgREST is a child. */
  pid: number;
  /** One connection, and the process of its backend. */
  sql: postgres.Sql;
  backend: number;
  /** The errors that functions have logged: the causes of 500s. */
  faults: Set<string>;
  /** Starts a function in front of it: this one, or one with another entry file. */
  startFunction(main?: URL): Promise<EdgeFunction>;
}

/** Starts a stack whose data is kept in a folder; without one, all of it is deleted at the end. */
export async function startBenchStack(keptDir?: string): Promise<BenchStack> {
  const started = new AsyncDisposableStack();
  const dispose = () => started.disposeAsync();
  const interrupt = () => dispose().finally(() => Deno.exit(130));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, interrupt);
    started.defer(() => Deno.removeSignalListener(signal, interrupt));
  }
  try {
    const dataDir = keptDir ?? await Deno.makeTempDir({ prefix: "public_audit_log_" });
    if (!keptDir) started.defer(() => Deno.remove(dataDir, { recursive: true }));
    const process = await startProcess(dataDir);
    started.defer(async () => {
      process.kill("SIGINT");
      await process.status;
    });
    const info: StackInfo = JSON.parse(await Deno.readTextFile(`${dataDir}/status.json`));
    const sql = postgres(info.databaseUrl, { max: 1, onnotice: () => {} });
    started.defer(() => sql.end());
    const [row] = await sql`select pg_backend_pid() as pid`;
    const faults = new Set<string>();
    const log = (line: string) => {
      if (line.includes('"error"')) faults.add(JSON.parse(line).error);
    };
    const startFunction = async (main?: URL) =>
      started.use(await startEdgeFunction({ ...info, ...main && { main }, log }));
    const { pid } = process;
    const backend: number = row?.["pid"];
    return { ...info, pid, sql, backend, faults, startFunction, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

async function startProcess(dataDir: string): Promise<Deno.ChildProcess> {
  const start = new URL("../tasks/start.ts", import.meta.url).href;
  const ports = [`--api-port=${freePort()}`, `--db-port=${freePort()}`];
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", start, ...ports, `--data-dir=${dataDir}`],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let output = "";
  const ready = Promise.withResolvers<void>();
  (async () => {
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output.includes("logged below")) ready.resolve();
    }
    ready.reject(new Error(`The stack did not start: ${output}`));
  })();
  await ready.promise;
  return process;
}

/** Makes keys for an organization, which it adds if it is new. Returns their tokens. */
export async function makeKeys(
  sql: postgres.Sql,
  organizationId: string,
  count: number,
): Promise<string[]> {
  await sql`
    insert into audit_log.organizations (id, name) values (${organizationId}, 'Benchmark')
    on conflict do nothing`;
  const rows = await sql`
    select audit_log_private.insert_api_key(${organizationId}, 'benchmark') ->> 'token' as token
    from generate_series(1, ${count}::int)`;
  return rows.map((row) => row["token"]);
}

/** Gives all keys their whole limit again. */
export async function resetLimits(sql: postgres.Sql): Promise<void> {
  await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
}

/** Runs the upkeep to its end. Returns how many seconds all of it and its longest piece took. */
export async function runUpkeep(sql: postgres.Sql) {
  const start = performance.now();
  let [pieces, longest] = [0, 0];
  for (let more = true; more; pieces++) {
    const begin = performance.now();
    const [row] = await sql`select audit_log_private.run_upkeep() as more`;
    more = row?.["more"];
    longest = Math.max(longest, (performance.now() - begin) / 1000);
  }
  return { seconds: (performance.now() - start) / 1000, pieces, longest };
}

/** Calls a statement of plpgsql, each time in a transaction. Returns the mean of its processor time in milliseconds. */
export async function costOf(
  { sql, backend }: BenchStack,
  statement: string,
  calls = 50,
): Promise<number> {
  const before = await processorTime(backend);
  await sql.unsafe(
    `do $do$ begin for n in 1..${calls} loop ${statement}; commit; end loop; end $do$`,
  );
  return (await processorTime(backend) - before) / calls;
}
