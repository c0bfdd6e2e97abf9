import { addKeys, addOrganization, insertEntries, LONGEST } from "../harness/project.ts";
import { peakOf } from "./processes.ts";
import { demand } from "./report.ts";
import { ask, type Bench, startFunction } from "./stack.ts";

/** Prints the most memory, in MiB, that a new process of the function takes for the largest pages. */
export async function measureMemory(bench: Bench): Promise<void> {
  const { sql } = bench;
  await using edgeFunction = await startFunction(bench);
  const { id } = await addOrganization(sql);
  await insertEntries(sql, id, "2025-07-01", 1000, LONGEST);
  const keys = await addKeys(sql, id, 20);
  let sent = 0;
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (sent < 200) {
      const { token = "" } = keys[sent++ % keys.length] ?? {};
      await ask(edgeFunction, "start=2025-07-01&end=2025-07-01&limit=1000", token);
    }
  }));
  const peak = await peakOf(edgeFunction.pid);
  const bound = demand(peak, { most: 130 });
  console.log(`\n${sent} of the largest pages: ${peak.toFixed()} MiB of memory (${bound})`);
}
