import postgres from "postgres";
import {
  type EdgeFunction,
  type EdgeFunctionOptions,
  startEdgeFunction,
} from "../local/edge_function.ts";
import type { StackInfo } from "../local/stack.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import type { Sql } from "../harness/project.ts";

export interface BenchOptions {
  entries: number;
  rounds: number;
  /** The path of supa_audit's SQL: supa_audit--0.3.1.sql of github.com/supabase/supa_audit. */
  supaAudit: string | undefined;
}

/** What is measured, on a stack of its own. */
export interface Bench extends BenchOptions, StackInfo {
  sql: Sql;
}

export async function startBench(options: BenchOptions): Promise<Bench & AsyncDisposable> {
  const started = new AsyncDisposableStack();
  // One statement may write a large log.
  const server = { settings: ["fsync=on", "statement_timeout=0"] };
  const stack = started.use(await startTemporaryStack({ server }));
  const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  started.defer(() => sql.end());
  const dispose = () => started.disposeAsync();
  return { ...options, ...stack, sql, [Symbol.asyncDispose]: dispose };
}

/** Starts the function in a process of its own, and prints its errors. */
export async function startFunction(
  bench: Bench,
  options: Partial<EdgeFunctionOptions> = {},
): Promise<EdgeFunction> {
  const log = (line: string) => line.includes('"error"') && console.log(line);
  return await startEdgeFunction({ ...bench, log, ...options });
}

/** Sends a request to the function. Returns the bytes of its answer, and in how many milliseconds they were there. */
export async function ask({ port }: EdgeFunction, query: string, token = "", status = 200) {
  const headers = { Authorization: `Bearer ${token}` };
  const start = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/public-audit-log?${query}`, { headers });
  const { length } = await response.bytes();
  if (response.status !== status) throw new Error(`${query}: status ${response.status}`);
  return { bytes: length, milliseconds: performance.now() - start };
}

export async function resetLimits(sql: Sql): Promise<void> {
  await sql`update audit_log_private.rate_limits set counted_at = '{}'`;
}
