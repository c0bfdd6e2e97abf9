import { parseArgs } from "node:util";
import { measureCold } from "./cold.ts";
import { measureDistance } from "./distance.ts";
import { measureMemory } from "./memory.ts";
import { measureReads } from "./reads.ts";
import { startBench } from "./stack.ts";
import { measureWrites } from "./writes.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    entries: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "7" },
    "supa-audit": { type: "string" },
  },
});
const options = {
  entries: Number(values.entries),
  rounds: Number(values.rounds),
  supaAudit: values["supa-audit"],
};
const parts = {
  reads: measureReads,
  writes: measureWrites,
  memory: measureMemory,
  distance: measureDistance,
  cold: measureCold,
};
for (const name of positionals.length > 0 ? positionals : ["reads"]) {
  const measure = Object.entries(parts).find(([part]) => part === name)?.[1];
  if (!measure) throw new Error(`There is no part ${name}: name some of ${Object.keys(parts)}`);
  await using bench = await startBench(options);
  await measure(bench);
}
Deno.exit();
