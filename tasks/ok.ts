import { databaseTypes, TYPES_FILE } from "./types.ts";
import { counts, exitWithCounts, runTests } from "./run_tests.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";

const ROOT = new URL("..", import.meta.url);
const FAST_FOLDERS = ["tests/pure", "tests/stack", "tests/local"];

await main();
exitWithCounts();

/** Runs everything that a change has to pass. Each check and each test counts as one. */
async function main(): Promise<void> {
  await check("format, lint, types", () => task("check"));
  await check("OpenAPI document is in step", () => task("openapi", "--check"));
  await using stack = await check("migrations apply to an empty database", startTemporaryStack);
  if (!stack) return;
  await check("generated database types are in step", async () => {
    if (await databaseTypes(stack.databaseUrl) === await Deno.readTextFile(TYPES_FILE)) return;
    throw new Error("database.types.ts is out of step with the migrations: deno task types");
  });
  const others = testInBrowsers();
  for (const folders of [FAST_FOLDERS, ["tests/clients"], ["tests/attacks"]]) {
    console.log(`# ${folders.join(" ")}`);
    await runTests(stack, folders);
  }
  console.log("# tests/faults");
  await runTests(null, ["tests/faults"]);
  console.log("# tests/browser, which began with the tests above …");
  await others;
}

/** Runs two files at a time, because a browser mostly waits. */
async function testInBrowsers(): Promise<void> {
  const files = Array.from(Deno.readDirSync(new URL("tests/browser", ROOT)), ({ name }) => name)
    .filter((name) => name.endsWith("_test.ts")).sort().map((name) => `tests/browser/${name}`);
  await Promise.all([0, 1].map(async (half) => {
    await using stack = await startTemporaryStack();
    await runTests(stack, files.filter((_, n) => n % 2 === half), true);
  }));
}

async function check<T>(name: string, run: () => Promise<T>): Promise<T | undefined> {
  console.log(`# ${name}`);
  try {
    const result = await run();
    counts.passed++;
    return result;
  } catch (error) {
    counts.failed++;
    console.log(`FAILED ${name}: ${error instanceof Error ? error.message : error}`);
  }
}

async function task(...args: string[]): Promise<void> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["task", ...args],
    cwd: ROOT,
  });
  const { success } = await command.spawn().status;
  if (!success) throw new Error(`deno task ${args[0]} found errors`);
}
