import { fileURLToPath } from "node:url";
import type { StackInfo } from "../local/stack.ts";
import { stdFlags } from "./std.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

export function add(counts: TestCounts, more: TestCounts): void {
  counts.passed += more.passed;
  counts.failed += more.failed;
  counts.skipped += more.skipped;
}

export function closingLine({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`;
}

const CLOSING_LINE = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/;

/** Runs `deno test` against a stack, or without one against the project that the environment names. */
export async function runTests(stack: StackInfo | null, args: string[]): Promise<TestCounts> {
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  const command = new Deno.Command(Deno.execPath(), {
    args: [
      "test",
      "--allow-all",
      // `deno task check` checks the types.
      "--no-check",
      `--junit-path=${report}`,
      ...await stdFlags(),
      ...args,
    ],
    cwd: ROOT,
    env: stack
      ? {
        SUPABASE_URL: stack.apiUrl,
        SUPABASE_DB_URL: stack.databaseUrl,
        SUPABASE_PUBLISHABLE_KEY: stack.publishableKey,
        SUPABASE_SECRET_KEY: stack.secretKey,
      }
      : {},
  });
  const { success } = await command.spawn().status;
  const counts = count(await Deno.readTextFile(report));
  await Deno.remove(report);
  // A file that does not compile, or a leak, fails without a test.
  if (!success && counts.failed === 0) counts.failed = 1;
  return counts;
}

/** Runs `deno task test` beside other tests, and prints what it printed when it has ended. */
export async function testBeside(...args: string[]): Promise<TestCounts> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["task", "test", ...args],
    cwd: ROOT,
    stdout: "piped",
    stderr: "piped",
  });
  const { stdout, stderr } = await command.output();
  const [printed = "", errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  console.log(`# ${args.join(" ")}\n${errors}${printed}`);
  const [passed, failed, skipped] = printed.match(CLOSING_LINE)?.slice(1).map(Number) ?? [0, 1];
  return { passed: passed || 0, failed: failed || 0, skipped: skipped || 0 };
}

/** Counts the tests of a JUnit report, which also lists their groups. */
function count(xml: string): TestCounts {
  const cases = Array.from(
    xml.matchAll(/<testcase name="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs),
    ([, name = "", body = ""]) => ({
      name,
      failed: body.includes("<failure"),
      skipped: body.includes("<skipped"),
    }),
  );
  const leaves = cases.filter(({ name }) =>
    !cases.some((other) => other.name.startsWith(`${name} &gt; `))
  );
  const failed = leaves.filter((leaf) => leaf.failed).length;
  const skipped = leaves.filter((leaf) => leaf.skipped).length;
  return { passed: leaves.length - failed - skipped, failed, skipped };
}
