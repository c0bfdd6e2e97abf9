import { addKeys, addOrganization, insertEntries, LONGEST } from "../tests/project.ts";
import { dataApiProcesses, memoryOf, resetPeak, whileTimed } from "./processes.ts";
import { printHead, printRow } from "./report.ts";
import { resetLimits, startBenchStack } from "./stack.ts";

export const DAY = "2026-03-01";
const REQUESTS = 200;

/** The function's process may take at most so many MiB. */
const BOUND = 130;

/**
 * Asks for the largest pages, one and four at a time, and prints the most memory that each process took.
 * The exit code is 1 if the function took more than its bound, or a request failed.
 */
export async function measureMemory(): Promise<void> {
  await using stack = await startBenchStack();
  const { sql, faults } = stack;
  const { port, pid } = await stack.startFunction();
  const { id } = await addOrganization(sql);
  const tokens = (await addKeys(sql, id, 20)).map(({ token }) => token);
  await insertEntries(sql, id, DAY, 1000, LONGEST);
  await sql`analyze audit_log.audit_entries`;
  console.log("\nThe largest pages: the most memory of each process, and processor time of a page");
  const columns = ["function, MiB", "PostgREST", "a backend", "function, ms", "all processes"];
  printHead("at a time", "MB", ...columns);
  for (const atATime of [1, 4]) {
    await resetLimits(sql);
    const { postgrest, postgres } = await dataApiProcesses(stack.pid, sql);
    const all = [pid, ...postgrest, ...postgres];
    for (const each of all) await resetPeak(each);
    const sending = () => send(port, tokens, atATime);
    const { result: { succeeded, bytes }, times } = await whileTimed([[pid], all], sending);
    const peaks = await Promise.all(
      [[pid], postgrest, postgres].map((pids) => memoryOf("peak", ...pids)),
    );
    const figures = [
      ...peaks.map((peak) => peak.toFixed(0)),
      ...times.map((time) => (time / REQUESTS).toFixed(1)),
    ];
    printRow(atATime, (bytes / 1e6).toFixed(1), ...figures);
    if ((peaks[0] ?? NaN) <= BOUND && succeeded === REQUESTS) continue;
    console.log(`FAILED: ${succeeded} of ${REQUESTS} answered; the bound is ${BOUND} MiB`);
    Deno.exitCode = 1;
  }
  for (const fault of faults) console.log(fault);
}

/** Asks a function for a page of the day. */
export function askForPage(port: number, token = "", limit = 1000): Promise<Response> {
  return fetch(pageUrl(port, limit), { headers: { Authorization: `Bearer ${token}` } });
}

export function pageUrl(port: number, limit: number): string {
  return `http://127.0.0.1:${port}/public-audit-log?start=${DAY}&end=${DAY}&limit=${limit}`;
}

async function send(port: number, tokens: string[], atATime: number) {
  let [sent, succeeded, bytes] = [0, 0, 0];
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (sent < REQUESTS) {
      const response = await askForPage(port, tokens[sent++ % tokens.length]);
      const body = await response.bytes();
      if (response.status === 200) succeeded++;
      bytes = Math.max(bytes, body.length);
    }
  }));
  return { succeeded, bytes };
}
