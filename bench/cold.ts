import { fileURLToPath, pathToFileURL } from "node:url";
import { addKeys, addOrganization, insertEntries } from "../harness/project.ts";
import { processorTime } from "./processes.ts";
import { byTurns, median, printHead, printRow, spread } from "./report.ts";
import { ask, type Bench, startFunction } from "./stack.ts";

const DAY = "2026-03-01";
const FUNCTION = fileURLToPath(new URL("../supabase/functions/public-audit-log", import.meta.url));

/**
 * Measures the function from the start of its process to its first answer, beside an empty function: as its files
 * are, and as one file (docs/operating.md). Without V8's code cache, which a new machine does not have.
 */
export async function measureCold(bench: Bench): Promise<void> {
  const { id } = await addOrganization(bench.sql);
  await insertEntries(bench.sql, id, DAY, 1000);
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/empty.ts`, `Deno.serve(() => new Response("[]"));\n`);
  const files = Array.from(Deno.readDirSync(FUNCTION), ({ name }) => `${FUNCTION}/${name}`);
  const subjects = {
    empty: [`${folder}/empty.ts`],
    "as its files are": [`${FUNCTION}/index.ts`, ...files.filter((file) => !/index/.test(file))],
    "as one file": [await bundle(`${folder}/bundle.js`)],
  };
  const measured = await byTurns(bench.rounds, Object.values(subjects), async ([main = ""]) => {
    const [key] = await addKeys(bench.sql, id, 1);
    const startedAt = performance.now();
    const options = { main: pathToFileURL(main), flags: ["--no-code-cache"] };
    await using edgeFunction = await startFunction(bench, options);
    await ask(edgeFunction, `start=${DAY}&end=${DAY}`, key?.token);
    const clock = performance.now() - startedAt;
    return { clock, processor: await processorTime(edgeFunction.pid) };
  });
  printHead(
    `Milliseconds from the start of the process to its first answer, ${bench.rounds} rounds`,
    "the function",
    "processor",
    "above the empty one",
    "on the clock",
    "bytes to upload",
  );
  const [empty = 0] = measured.map((figures) => median(figures.map(({ processor }) => processor)));
  for (const [n, [name, files]] of Object.entries(subjects).entries()) {
    const processor = measured[n]?.map(({ processor }) => processor);
    const clock = measured[n]?.map(({ clock }) => clock);
    const above = median(processor) - empty;
    const bytes = files.reduce((sum, file) => sum + Deno.statSync(file).size, 0);
    const cells = [spread(processor), above.toFixed(0), spread(clock), bytes.toLocaleString("en")];
    printRow(name, ...cells);
  }
  await Deno.remove(folder, { recursive: true });
}

async function bundle(file: string): Promise<string> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--minify", "--platform=deno", `--output=${file}`, "index.ts"],
    cwd: FUNCTION,
  }).output();
  if (!success) throw new Error("deno bundle failed");
  return file;
}
