import { parseArgs } from "node:util";
import { measureGrowth } from "./growth.ts";
import { measureMemory } from "./memory.ts";
import { measurePlain } from "./plain.ts";
import { startBench } from "./stack.ts";
import { measureStreams } from "./streams.ts";
import { measureWrites } from "./writes.ts";
import { parseOrPrintUsage, wholeNumber } from "../tasks/usage.ts";

const PARTS = {
  plain: measurePlain,
  memory: measureMemory,
  writes: measureWrites,
  streams: measureStreams,
  growth: measureGrowth,
};
const USAGE = `Measures plain and memory, or the parts that it is given: ${
  Object.keys(PARTS).join(", ")
}

  --entries=COUNT  how many entries the largest log has (1000000)
  --rounds=COUNT   how often each is measured (7)
  -h, --help       prints this`;

const { measures, options } = parseOrPrintUsage(USAGE, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      entries: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "7" },
    },
  });
  const parts = new Map(Object.entries(PARTS));
  const options = {
    entries: wholeNumber("entries", values.entries),
    rounds: wholeNumber("rounds", values.rounds),
  };
  const measures = (positionals.length > 0 ? positionals : ["plain", "memory"]).map((name) => {
    const measure = parts.get(name);
    if (!measure) throw new RangeError(`There is no part ${name}`);
    return measure;
  });
  return { measures, options };
});

for (const measure of measures) {
  await using bench = await startBench(options);
  await measure(bench);
}
Deno.exit();
