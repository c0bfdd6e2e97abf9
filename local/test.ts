import { runTests } from "./run_tests.ts";
import { startTestStack } from "./test_stack.ts";

const NAMES = [
  "SUPABASE_URL",
  "SUPABASE_DB_URL",
  "SUPABASE_PUBLISHABLE_KEY",
  "SUPABASE_SECRET_KEY",
];

/** Against a project, those that are about a project, and none that attacks what may be another's. */
const PROJECT_TESTS = [
  "--ignore=tests/start_test.ts,tests/gateway_test.ts,tests/postgrest_test.ts",
  "tests/*_test.ts",
  "tests/clients",
];

if (!await main()) Deno.exit(1);

async function main(): Promise<boolean> {
  const missing = NAMES.filter((name) => !Deno.env.get(name));
  const isNamed = missing.length < NAMES.length;
  if (isNamed && missing.length > 0) {
    console.log(`To test a project of your own, also set: ${missing.join(", ")}`);
    return false;
  }
  console.log(
    isNamed ? `Testing ${Deno.env.get("SUPABASE_URL")}` : "Starting a stack for the tests:",
  );
  await using stack = isNamed ? null : await startTestStack();
  const { passed, failed } = await runTests(
    stack,
    Deno.args.length || stack ? Deno.args : PROJECT_TESTS,
  );
  if (failed && stack) console.log(stack.faults.join(""));
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0;
}
