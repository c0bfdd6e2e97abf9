import { findBrowser } from "./browser.ts";
import { runTests } from "./run_tests.ts";
import { startTestStack } from "./test_stack.ts";

Deno.env.set("CHROMIUM", await findBrowser());
console.log("Starting a stack for the tests:");
await using stack = await startTestStack();
const { passed, failed } = await runTests(stack, ["tests/browser", ...Deno.args]);
console.log(`${passed} passed, ${failed} failed`);
if (failed) Deno.exitCode = 1;
