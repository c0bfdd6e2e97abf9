import { databaseTypes, TYPES_FILE } from "./types.ts";
import { add, closingLine, runTests } from "./run_tests.ts";
import { startTemporaryStack, type TemporaryStack } from "../local/temporary_stack.ts";

const ROOT = new URL("..", import.meta.url);

const counts = { passed: 0, failed: 0, skipped: 0 };
await main();
console.log(closingLine(counts));
Deno.exit(counts.failed ? 1 : 0);

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
  const others = testOthers();
  await test(stack, "tests/pure", "tests/stack", "tests/local");
  await test(stack, "tests/clients");
  await test(stack, "tests/attacks");
  console.log("# tests/browser, then tests/faults, which began with the tests above …");
  await others;
}

async function test(stack: TemporaryStack, ...folders: string[]): Promise<void> {
  console.log(`# ${folders.join(" ")}`);
  const tested = await runTests(stack, folders);
  if (tested.failed) console.log(stack.faults.join(""));
  add(counts, tested);
}

async function testOthers(): Promise<void> {
  await using stack = await startTemporaryStack();
  add(counts, await runTests(stack, ["tests/browser"], true));
  add(counts, await runTests(null, ["tests/faults"], true));
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
