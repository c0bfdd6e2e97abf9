import { counts, exitWithCounts } from "./run_tests.ts";
import { findTestFiles, runTestFiles } from "./test_files.ts";

// Otherwise the tests would attack the project that it names.
Deno.env.delete("SUPABASE_URL");

/** What every change has to pass. Each counts as one, beside each test. */
const CHECKS: Record<string, () => Promise<void>> = {
  "format, lint, types": () => task("check"),
  "OpenAPI document is in step": () => task("openapi", "--check"),
  "generated database types are in step with the migrations": () => task("types", "--check"),
  "the tests run to their end": async () => await runTestFiles(await findTestFiles(["tests"])),
};

for (const [name, run] of Object.entries(CHECKS)) {
  console.log(`# ${name}`);
  try {
    await run();
    counts.passed++;
  } catch (error) {
    counts.failed++;
    console.log(`FAILED ${name}: ${error instanceof Error ? error.message : error}`);
  }
}
exitWithCounts();

async function task(...args: string[]): Promise<void> {
  const cwd = new URL("../..", import.meta.url);
  const command = new Deno.Command(Deno.execPath(), { args: ["task", ...args], cwd });
  const { success } = await command.spawn().status;
  if (!success) throw new Error(`deno task ${args[0]} found errors`);
}
