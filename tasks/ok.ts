import { findBrowser } from "../tests/browser/find_browser.ts";
import { redocly } from "../docs/reference.ts";
import { databaseTypes, TYPES_FILE } from "./types.ts";
import { closingLine, runTests } from "./run_tests.ts";
import { startTemporaryStack, type TemporaryStack } from "../local/temporary_stack.ts";

const counts = { passed: 0, failed: 0, skipped: 0 };
await main();
console.log(closingLine(counts));
Deno.exit(counts.failed ? 1 : 0);

/** Everything that a change has to pass. Each check and each test counts as one. */
async function main(): Promise<void> {
  await check("format, lint, types", () => task("check"));
  await check("OpenAPI document is in step", () => task("openapi", "--check"));
  await check("OpenAPI document is well made", () => redocly("lint", "docs/openapi.json"));
  await using stack = await check("migrations apply to an empty database", startTemporaryStack);
  if (!stack) return;
  await check("generated database types are in step", async () => {
    if (await databaseTypes(stack.databaseUrl) === await Deno.readTextFile(TYPES_FILE)) return;
    throw new Error("database.types.ts is out of step with the migrations: deno task types");
  });
  await tests("tests", stack, ["tests/pure", "tests/stack", "tests/local"]);
  await tests("tests of clients", stack, ["tests/clients"]);
  await tests("tests of attacks", stack, ["tests/attacks"]);
  const browser = await check("a browser for the console's tests", findBrowser);
  if (!browser) return;
  Deno.env.set("CHROMIUM", browser);
  await tests("tests in a browser", stack, ["tests/browser"]);
  await tests("tests of faults, on stacks of their own", null, ["tests/faults"]);
}

async function tests(name: string, stack: TemporaryStack | null, args: string[]): Promise<void> {
  console.log(`# ${name}`);
  const { passed, failed, skipped } = await runTests(stack, args);
  if (failed && stack) console.log(stack.faults.join(""));
  counts.passed += passed;
  counts.failed += failed;
  counts.skipped += skipped;
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
    cwd: new URL("..", import.meta.url),
  });
  const { success } = await command.spawn().status;
  if (!success) throw new Error(`deno task ${args[0]} found errors`);
}
