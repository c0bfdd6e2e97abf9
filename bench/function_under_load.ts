import postgres from "postgres";
import { type EdgeFunction, permissionFlags, startEdgeFunction } from "../local/edge_function.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

/** A stack with a new database, and a function's process of its own in front of it. */
export interface FunctionUnderLoad extends AsyncDisposable {
  stack: BenchStack;
  edgeFunction: EdgeFunction;
  /** Where the function is. */
  url: string;
  sql: postgres.Sql;
  /** The causes of 500s, and whatever else the function has said that is no line about a request. */
  faults: string[];
}

/**
 * Starts both in a temporary folder, which goes with them: also on Ctrl-C. The function's process gets
 * `flags` besides its own.
 */
export async function startFunctionUnderLoad(flags: string[] = []): Promise<FunctionUnderLoad> {
  const started = new AsyncDisposableStack();
  const dispose = () => started.disposeAsync();
  const interrupt = () => dispose().finally(() => Deno.exit(130));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, interrupt);
    started.defer(() => Deno.removeSignalListener(signal, interrupt));
  }
  try {
    const dataDir = await Deno.makeTempDir({ prefix: "public_audit_log_" });
    started.defer(() => Deno.remove(dataDir, { recursive: true }));
    const stack = started.use(await startBenchStack(dataDir));
    const faults: string[] = [];
    const edgeFunction = started.use(
      await startEdgeFunction({
        ...stack,
        permissions: [...permissionFlags(stack.apiUrl), ...flags],
        log: (text) => {
          faults.push(...text.split("\n").filter((line) => line.includes('"error"')));
        },
      }),
    );
    const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
    started.defer(() => sql.end());
    const url = `http://127.0.0.1:${edgeFunction.port}/public-audit-log`;
    return { stack, edgeFunction, url, sql, faults, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Makes an organization and keys for it; their tokens. */
export async function makeKeys(
  sql: postgres.Sql,
  organizationId: string,
  count: number,
): Promise<string[]> {
  await sql`insert into audit_log.organizations (id, name) values (${organizationId}, 'Load')`;
  const rows = await sql`
    select audit_log_private.insert_api_key(${organizationId}, 'load') ->> 'token' as token
    from generate_series(1, ${count}::int)`;
  return rows.map((row) => row["token"]);
}

/** The memory of a process that is in RAM, in MiB. */
export async function residentMemory(pid: number): Promise<number> {
  const ps = await new Deno.Command("ps", { args: ["-o", "rss=", "-p", `${pid}`] }).output();
  return Number(new TextDecoder().decode(ps.stdout)) / 1024;
}
