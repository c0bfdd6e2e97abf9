import { startTemporaryStack } from "../local/temporary_stack.ts";
import { counts, exitWithCounts } from "./run_tests.ts";
import { findTestFiles, runTestFiles } from "./test_files.ts";
import { databaseTypes, TYPES_FILE } from "./types.ts";

const ROOT = new URL("../..", import.meta.url);

await main();
exitWithCounts();

async function main(): Promise<void> {
  // Otherwise the tests would attack the project that it names.
  Deno.env.delete("SUPABASE_URL");
  await check("format, lint, types", () => task("check"));
  await check("OpenAPI document is in step", () => task("openapi", "--check"));
  await check("generated database types are in step with the migrations", async () => {
    await using stack = await startTemporaryStack();
    if (await databaseTypes(stack.databaseUrl) === await Deno.readTextFile(TYPES_FILE)) return;
    throw new Error("database.types.ts is out of step with the migrations: deno task types");
  });
  await check(
    "the tests run to their end",
    async () => await runTestFiles(await findTestFiles(["tests"])),
  );
}

async function check(name: string, run: () => Promise<void>): Promise<void> {
  console.log(`# ${name}`);
  try {
    await run();
    counts.passed++;
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
