import { fileURLToPath } from "node:url";
import { DOMParser } from "npm:@xmldom/xmldom@0.9.12";
import { runCommand } from "../local/run_command.ts";
import type { TemporaryStack } from "../local/temporary_stack.ts";
import { stdFlags } from "./std.ts";

/** Of all tests that were run, and of the checks of `deno task ok`. */
export const counts = { passed: 0, failed: 0, skipped: 0 };

export function exitWithCounts(): never {
  const { passed, failed, skipped } = counts;
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
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  const output = isBeside ? "piped" : "inherit";
  // `deno task check` checks the types.
  const flags = ["--allow-all", "--no-check", `--junit-path=${report}`, ...await stdFlags()];
  const needsBrowser = args.some((argument) => argument.startsWith("tests/browser"));
  const process = new Deno.Command(Deno.execPath(), {
    args: ["test", ...flags, ...args],
    cwd: fileURLToPath(new URL("..", import.meta.url)),
    env: {
      ...needsBrowser && { CHROMIUM: await (browser ??= findBrowser()) },
      ...stack && {
        SUPABASE_URL: stack.apiUrl,
        SUPABASE_DB_URL: stack.databaseUrl,
        SUPABASE_PUBLISHABLE_KEY: stack.publishableKey,
        SUPABASE_SECRET_KEY: stack.secretKey,
      },
    },
    stdout: output,
    stderr: output,
  }).spawn();
  if (isBeside) {
    const printed = await Promise.all([process.stderr.text(), process.stdout.text()]);
    console.log(`# ${args.join(" ")}\n${printed.join("")}`);
  }
  const { success } = await process.status;
  const { passed, failed, skipped } = countTests(await Deno.readTextFile(report));
  await Deno.remove(report);
  counts.passed += passed;
  // A file that does not compile, or a leak, fails without a test.
  counts.failed += success ? failed : Math.max(failed, 1);
  counts.skipped += skipped;
  if (!success && stack) console.log(stack.faults.join(""));
}

/** Looked for once, because two runs at a time must not install it both. */
let browser: Promise<string> | undefined;

/** Returns the path of a Chromium or Chrome. Installs Debian's if there is none and this process may. */
async function findBrowser(): Promise<string> {
  const find = "command -v chromium || command -v chromium-browser || command -v google-chrome";
  const install = Deno.build.os === "linux" && Deno.uid() === 0
    ? "apt-get update -qq && apt-get install -qq --no-install-recommends chromium"
    : "echo 'There is no Chromium: install it, or name it with CHROMIUM=…' && false";
  const script = `${find} || { { ${install}; } >&2 && ${find}; }`;
  return Deno.env.get("CHROMIUM") || (await runCommand("sh", { args: ["-c", script] })).trim();
}

/** Counts the tests of a JUnit report, which also lists their groups. */
export function countTests(report: string): typeof counts {
  // Of a run that ended before its tests did, as when a file does not compile.
  if (report === "") return { passed: 0, failed: 0, skipped: 0 };
  const document = new DOMParser().parseFromString(report, "text/xml");
  const cases = Array.from(document.getElementsByTagName("testcase"));
  const names = cases.map((test) => test.getAttribute("name") ?? "");
  const leaves = cases.filter((_, n) => !names.some((name) => name.startsWith(`${names[n]} > `)));
  const having = (tag: string) =>
    leaves.filter((test) => test.getElementsByTagName(tag).length > 0).length;
  const [failed, skipped] = [having("failure"), having("skipped")];
  return { passed: leaves.length - failed - skipped, failed, skipped };
}
