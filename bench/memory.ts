import { addKeys, addOrganization, insertEntries, LONGEST } from "../tests/project.ts";
import { peakOf, resetPeak } from "./processes.ts";
import { printHead, printRow } from "./report.ts";
import { resetLimits, startBenchStack } from "./stack.ts";

const DAY = "2026-03-01";
const REQUESTS = 200;

/** The function's process may take at most so many MiB. */
const BOUND = 130;

/**
 * Asks for the largest pages, one and four at a time, and prints the most memory that the function took.
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
  console.log("\nThe largest pages: the most memory of the function's process");
  printHead("at a time", "MB", "MiB");
  for (const atATime of [1, 4]) {
    await resetLimits(sql);
    await resetPeak(pid);
    const { succeeded, bytes } = await send(port, tokens, atATime);
    const peak = await peakOf(pid);
    printRow(atATime, (bytes / 1e6).toFixed(1), peak.toFixed(0));
    if (peak <= BOUND && succeeded === REQUESTS) continue;
    console.log(`FAILED: ${succeeded} of ${REQUESTS} answered; the bound is ${BOUND} MiB`);
    Deno.exitCode = 1;
  }
  for (const fault of faults) console.log(fault);
}

async function send(port: number, tokens: string[], atATime: number) {
  const url = `http://127.0.0.1:${port}/public-audit-log?start=${DAY}&end=${DAY}&limit=1000`;
  let [sent, succeeded, bytes] = [0, 0, 0];
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (sent < REQUESTS) {
      const headers = { Authorization: `Bearer ${tokens[sent++ % tokens.length]}` };
      const response = await fetch(url, { headers });
      const body = await response.bytes();
      if (response.status === 200) succeeded++;
      bytes = Math.max(bytes, body.length);
    }
  }));
  return { succeeded, bytes };
}
