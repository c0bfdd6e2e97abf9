import { fileURLToPath, pathToFileURL } from "node:url";
import { startEdgeFunction } from "../local/edge_function.ts";
import { addKeys, addOrganization, insertEntries } from "../tests/project.ts";
import { processorTime } from "./processes.ts";
import { byTurns, median, printHead, printRow, spread } from "./report.ts";
import { type BenchOptions, startBenchStack } from "./stack.ts";

const DAY = "2026-03-01";
const FUNCTION = fileURLToPath(new URL("../supabase/functions/public-audit-log", import.meta.url));

/**
 * Measures the function from the start of its process to its first answer, beside an empty function: as its files
 * are, and as one file (docs/operating.md). Without V8's code cache, which a new machine does not have.
 */
export async function measureCold({ rounds }: BenchOptions): Promise<void> {
  await using stack = await startBenchStack();
  const { id } = await addOrganization(stack.sql);
  await insertEntries(stack.sql, id, DAY, 1000);
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/empty.ts`, `Deno.serve(() => new Response("[]"));\n`);
  const files = Array.from(Deno.readDirSync(FUNCTION), ({ name }) => `${FUNCTION}/${name}`);
  const subjects = {
    empty: [`${folder}/empty.ts`],
    "as its files are": [`${FUNCTION}/index.ts`, ...files.filter((file) => !/index/.test(file))],
    "as one file": [await bundle(`${folder}/bundle.js`)],
  };
  const measured = await byTurns(rounds, Object.values(subjects), async ([main = ""]) => {
    const [key] = await addKeys(stack.sql, id, 1);
    const startedAt = performance.now();
    await using edgeFunction = await startEdgeFunction({
      ...stack,
      main: pathToFileURL(main),
      flags: ["--no-code-cache"],
      log: (line) => line.includes('"error"') && console.log(line),
    });
    const url = `http://127.0.0.1:${edgeFunction.port}/public-audit-log?start=${DAY}&end=${DAY}`;
    const response = await fetch(url, { headers: { Authorization: `Bearer ${key?.token}` } });
    await response.bytes();
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    const wall = performance.now() - startedAt;
    return { wall, processor: await processorTime(edgeFunction.pid) };
  });
  console.log("\nFrom the start of the process to the first answer, in milliseconds");
  printHead("the function", "processor", "wall", "processor, above empty", "bytes to upload");
  const empty = measured.get(subjects.empty)?.map(({ processor }) => processor);
  for (const [name, files] of Object.entries(subjects)) {
    const figures = measured.get(files) ?? [];
    const processor = figures.map(({ processor }) => processor);
    const above = median(processor) - median(empty);
    const bytes = files.reduce((sum, file) => sum + Deno.statSync(file).size, 0);
    const wall = figures.map(({ wall }) => wall);
    printRow(name, spread(processor), spread(wall), above.toFixed(0), bytes);
  }
  await Deno.remove(folder, { recursive: true });
}

/** Writes the function as one file, as docs/operating.md does. Returns the file. */
async function bundle(file: string): Promise<string> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--minify", "--platform=deno", `--output=${file}`, "index.ts"],
    cwd: FUNCTION,
  }).output();
  if (!success) throw new Error("deno bundle failed");
  return file;
}
