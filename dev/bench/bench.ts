import { parseArgs } from "node:util";
import { measureGrowth } from "./growth.ts";
import { measureMemory } from "./memory.ts";
import { measurePlain } from "./plain.ts";
import { type Bench, startBench } from "./stack.ts";
import { measureStreams } from "./streams.ts";
import { measureWrites } from "./writes.ts";
import { parseOrPrintUsage, wholeNumber } from "../tasks/usage.ts";

const PARTS: Record<string, (bench: Bench) => Promise<void>> = {
  plain: measurePlain,
  memory: measureMemory,
  writes: measureWrites,
  streams: measureStreams,
  growth: measureGrowth,
};
const USAGE =
  `Measures plain and memory, or what it is given: plain, memory, writes, streams, growth

  --entries=COUNT  how many entries the largest log has (1000000)
  --rounds=COUNT   how often each is measured (7)
  -h, --help       prints this`;

const { names, options } = parseOrPrintUsage(USAGE, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      entries: { type: "string", default: "1000000" },
      rounds: { type: "string", default: "7" },
    },
  });
  const options = {
    entries: wholeNumber("entries", values.entries),
    rounds: wholeNumber("rounds", values.rounds),
  };
  const unknown = positionals.find((name) => !(name in PARTS));
  if (unknown !== undefined) throw new RangeError(`There is no part ${unknown}`);
  const names = positionals.length > 0 ? positionals : ["plain", "memory"];
  return { names, options };
});

for (const name of names) {
  await using bench = await startBench(options);
  await PARTS[name]?.(bench);
}
Deno.exit();
