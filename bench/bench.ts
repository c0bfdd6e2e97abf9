import { parseArgs } from "node:util";
import { measureCold } from "./cold.ts";
import { measureDistance } from "./distance.ts";
import { measureMemory } from "./memory.ts";
import { measureReads } from "./reads.ts";
import type { BenchOptions } from "./stack.ts";
import { measureWrites } from "./writes.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    entries: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "2" },
    "supa-audit": { type: "string" },
  },
});
const options: BenchOptions = {
  entries: Number(values.entries),
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  supaAudit: values["supa-audit"],
};
const parts = {
  reads: () => measureReads(options),
  writes: () => measureWrites(options),
  memory: measureMemory,
  distance: measureDistance,
  cold: () => measureCold(options),
};
for (const name of positionals.length > 0 ? positionals : ["reads"]) {
  const run = Object.entries(parts).find(([part]) => part === name)?.[1];
  if (!run) throw new Error(`There is no part ${name}: name some of ${Object.keys(parts)}`);
  await run();
}
Deno.exit();
