import { runTests } from "./run_tests.ts";

const { passed, failed } = await runTests(null, Deno.args.length ? Deno.args : ["tests/faults"]);
console.log(`${passed} passed, ${failed} failed`);
Deno.exit(failed ? 1 : 0);
