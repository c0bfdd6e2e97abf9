import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { type EdgeFunction, startEdgeFunction } from "../local/edge_function.ts";
import { freePort } from "../local/free_port.ts";
import type { StackInfo } from "../local/stack.ts";
import { pidOf, type Sql } from "../tests/project.ts";
import { processorTime } from "./processes.ts";

export interface BenchOptions {
  entries: number;
  rounds: number;
  /** Each subject is measured for these seconds in each round. */
  seconds: number;
  /** The path of supa_audit's SQL: supa_audit--0.3.1.sql of github.com/supabase/supa_audit. */
  supaAudit: string | undefined;
}

export const KEPT = fileURLToPath(new URL("data", import.meta.url));

/** A stack in a process of its own, because the load must not share one with the gateway. */
export interface BenchStack extends StackInfo, AsyncDisposable {
  /** One connection, and the process of its backend. */
  sql: Sql;
  backend: number;
  /** The errors that functions have logged: the causes of 500s. */
  faults: Set<string>;
  startFunction(): Promise<EdgeFunction>;
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
    const { info, process } = await startProcess(dataDir);
    started.defer(async () => {
      process.kill("SIGINT");
      await process.status;
    });
    const sql = postgres(info.databaseUrl, { max: 1, onnotice: () => {} });
    started.defer(() => sql.end());
    const backend = await pidOf(sql);
    const faults = new Set<string>();
    const log = (line: string) => {
      if (line.includes('"error"')) faults.add(JSON.parse(line).error);
    };
    const startFunction = async () => started.use(await startEdgeFunction({ ...info, log }));
    return { ...info, sql, backend, faults, startFunction, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Starts a stack in a folder. Resolves when the folder has the file with its addresses. */
async function startProcess(dataDir: string) {
  const file = `${dataDir}/status.json`;
  await Deno.mkdir(dataDir, { recursive: true });
  await Deno.writeTextFile(file, "");
  const start = new URL("../tasks/start.ts", import.meta.url).href;
  const ports = [`--api-port=${freePort()}`, `--db-port=${freePort()}`];
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", start, ...ports, `--data-dir=${dataDir}`],
    stdout: "null",
  }).spawn();
  let hasEnded = false;
  process.status.then(() => hasEnded = true);
  for (let text = "";; text = await Deno.readTextFile(file)) {
    if (text) return { info: JSON.parse(text) as StackInfo, process };
    if (hasEnded) {
      throw new Error(`The stack did not start: try deno task start ${ports.join(" ")}`);
    }
    await delay(100);
  }
}

export async function resetLimits(sql: Sql): Promise<void> {
  await sql`update audit_log_private.rate_limits set counted_at = '{}'`;
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
