import { fileURLToPath } from "node:url";
import type { StackInfo } from "../local/stack.ts";
import { stdFlags } from "./std.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

export function closingLine({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`;
}

export const CLOSING_LINE = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/;

/** Runs `deno test` against a stack, or without one against the project that the environment names. */
export async function runTests(stack: StackInfo | null, args: string[]): Promise<TestCounts> {
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  const command = new Deno.Command(Deno.execPath(), {
    args: [
      "test",
      "--allow-all",
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
