import process from "node:process";
import { stripVTControlCharacters } from "node:util";
import type { TemporaryStack } from "../local/temporary_stack.ts";
import { stdFlags } from "./std.ts";

/** Of all tests that were run, and of the checks of `deno task ok`. */
export const counts = { passed: 0, failed: 0, skipped: 0 };

/** In milliseconds: a run of tests that takes longer waits for something that does not come. */
const LONGEST_RUN = 30 * 60_000;

export function exitWithCounts(): never {
  const { passed, skipped } = counts;
  const failed = passed + counts.failed === 0 ? 1 : counts.failed;
  console.log(`${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`);
  Deno.exit(failed ? 1 : 0);
}

/**
 * Runs `deno test` against a stack, or without one against the project that the environment names. Beside other
 * tests, it prints what was printed when it has ended. If tests fail, it prints the faults of the stack's function.
 */
export async function runTests(
  stack: TemporaryStack | null,
  args: string[],
  isBeside = false,
): Promise<void> {
  // `deno task check` checks the types.
  const flags = ["--allow-all", "--no-check", ...await stdFlags()];
  const tests = new Deno.Command(Deno.execPath(), {
    args: ["test", ...flags, ...args],
    cwd: new URL("../..", import.meta.url),
    env: {
      ...stack && {
        SUPABASE_URL: stack.apiUrl,
        SUPABASE_DB_URL: stack.databaseUrl,
        SUPABASE_PUBLISHABLE_KEY: stack.publishableKey,
        SUPABASE_SECRET_KEY: stack.secretKey,
      },
    },
    stdout: "piped",
    stderr: isBeside ? "piped" : "inherit",
    signal: AbortSignal.timeout(LONGEST_RUN),
  }).spawn();
  const errors = isBeside ? tests.stderr.text() : "";
  let printed = "";
  for await (const text of tests.stdout.pipeThrough(new TextDecoderStream())) {
    printed += text;
    if (!isBeside) process.stdout.write(text);
  }
  if (isBeside) console.log(`# ${args.join(" ")}\n${await errors}${printed}`);
  const { success } = await tests.status;
  const isFiltered = args.some((argument) => argument.startsWith("--filter"));
  const { passed, failed, skipped } = countTests(printed, success, isFiltered);
  counts.passed += passed;
  counts.failed += failed;
  counts.skipped += skipped;
  if (!success && stack) console.log(stack.faults.join(""));
}

/**
 * Counts by the last line that `deno test` prints: its tests and their steps. So a group counts as one, beside the tests
 * in it, and it fails when one of them fails.
 */
export function countTests(printed: string, success: boolean, isFiltered = false): typeof counts {
  // The last such line, because a test may print one, too. A run that ends before its tests do prints none.
  const lines = stripVTControlCharacters(printed).match(/^(ok|FAILED) \| \d+ passed .*$/gm);
  const line = lines?.at(-1) ?? "";
  const count = (outcome: string) => {
    const [, tests, steps] = line.match(`(\\d+) ${outcome}(?: \\((\\d+) step)?`) ?? [];
    return Number(tests ?? 0) + Number(steps ?? 0);
  };
  const [passed, failed, skipped] = [count("passed"), count("failed"), count("ignored")];
  // A file that does not compile, or a leak, fails without a test. A run in which no test ran has shown nothing, unless
  // a filter has left its tests to another run.
  const isFailure = !success || !isFiltered && passed + failed === 0;
  return { passed, failed: isFailure ? Math.max(failed, 1) : failed, skipped };
}
