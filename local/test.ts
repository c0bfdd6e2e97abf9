import { runTests } from "./run_tests.ts";
import { startTestStack } from "./test_stack.ts";

if (!await main()) Deno.exit(1);

async function main(): Promise<boolean> {
  const named = Deno.env.get("SUPABASE_URL");
  console.log(named ? `Testing ${named}` : "Starting a stack of the tests' own:");
  await using stack = named ? null : await startTestStack();
  const { passed, failed } = await runTests(stack, Deno.args);
  if (failed) console.log(stack?.log.join("\n"));
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0;
}
