import postgres from "postgres";
import {
  type EdgeFunction,
  type EdgeFunctionOptions,
  startEdgeFunction,
} from "../local/edge_function.ts";
import type { Stack } from "../local/stack.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import type { Sql } from "../harness/project.ts";
import { median } from "./report.ts";

export interface Bench extends Omit<Stack, keyof AsyncDisposable> {
  entries: number;
  rounds: number;
  sql: Sql;
}

export async function startBench(
  options: Pick<Bench, "entries" | "rounds">,
): Promise<Bench & AsyncDisposable> {
  const started = new AsyncDisposableStack();
  // One statement may write a large log.
  const server = { settings: ["fsync=on", "statement_timeout=0"] };
  const stack = started.use(await startTemporaryStack({ server }));
  const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  started.defer(() => sql.end());
  const dispose = () => started.disposeAsync();
  return { ...options, ...stack, sql, [Symbol.asyncDispose]: dispose };
}

export async function startFunction(
  bench: Bench,
  options: Partial<EdgeFunctionOptions> = {},
): Promise<EdgeFunction> {
  const log = (line: string) => line.includes('"error"') && console.log(line);
  return await startEdgeFunction({ ...bench, log, ...options });
}

/** Sends a request to the function. Returns in how many milliseconds its answer was there, and the feed's cursor. */
export async function ask({ port }: EdgeFunction, query: string, token: string) {
  const headers = { Authorization: `Bearer ${token}` };
  const start = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/public-audit-log?${query}`, { headers });
  await response.bytes();
  const milliseconds = performance.now() - start;
  if (!response.ok) throw new Error(`${query}: status ${response.status}`);
  return { milliseconds, cursor: response.headers.get("X-Cursor") };
}

/**
 * Sends a request with each of the keys, whose quotas are reset. Returns the median of its milliseconds. If it follows
 * the feed, each continues where the last one ended.
 */
export async function medianOf(
  { sql }: Bench,
  edgeFunction: EdgeFunction,
  keys: { token: string }[],
  query: string,
): Promise<number> {
  await sql`update audit_log_private.rate_limits set counted_at = '{}'`;
  const parameters = new URLSearchParams(query);
  const times: number[] = [];
  for (const { token } of keys) {
    const { milliseconds, cursor } = await ask(edgeFunction, `${parameters}`, token);
    if (cursor) parameters.set("after", cursor);
    times.push(milliseconds);
  }
  return median(times);
}
