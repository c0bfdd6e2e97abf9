import { addKeys, addOrganization, insertEntries, LONGEST } from "../harness/project.ts";
import { peakOf, resetPeak } from "./processes.ts";
import { printHead, printRow } from "./report.ts";
import { ask, type Bench, resetLimits, startFunction } from "./stack.ts";

const DAY = "2026-03-01";
const REQUESTS = 200;

const BOUND = 130;

/**
 * Asks for the largest pages, one and four at a time, and prints the most memory that the function took.
 * The exit code is 1 if the function took more than its bound.
 */
export async function measureMemory(bench: Bench): Promise<void> {
  const { sql } = bench;
  await using edgeFunction = await startFunction(bench);
  const { id } = await addOrganization(sql);
  const keys = await addKeys(sql, id, 20);
  await insertEntries(sql, id, DAY, 1000, LONGEST);
  await sql`analyze audit_log.audit_entries`;
  printHead(
    `The most memory of the function's process, for ${REQUESTS} of the largest pages`,
    "pages at a time",
    "MB a page",
    "MiB of memory",
    "bound",
  );
  for (const atATime of [1, 4]) {
    await resetLimits(sql);
    await resetPeak(edgeFunction.pid);
    let [sent, bytes] = [0, 0];
    await Promise.all(Array.from({ length: atATime }, async () => {
      while (sent < REQUESTS) {
        const { token } = keys[sent++ % keys.length] ?? {};
        const page = await ask(edgeFunction, `start=${DAY}&end=${DAY}&limit=1000`, token);
        bytes = page.bytes;
      }
    }));
    const peak = await peakOf(edgeFunction.pid);
    printRow(atATime, (bytes / 1e6).toFixed(1), peak.toFixed(0), BOUND);
    if (peak > BOUND) Deno.exitCode = 1;
  }
}
