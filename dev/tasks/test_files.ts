import { statSync } from "node:fs";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findBrowser } from "../local/find_browser.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { runTests } from "./run_tests.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What a test file may need. A local stack may be attacked; any other may be a hosted project. */
const NEEDS = [
  "nothing",
  "a stack",
  "a local stack",
  "a stack and a browser",
  "stacks of its own",
] as const;

export interface TestFile {
  path: string;
  needs: typeof NEEDS[number];
  isSlow: boolean;
}

/**
 * Reads what test files need from their first line, such as `// Needs a stack. Slow.`
 *
 * @param paths files and folders
 * @throws {SyntaxError} if a file does not say it.
 */
export async function findTestFiles(paths: string[]): Promise<TestFile[]> {
  const found: string[] = [];
  for (const path of paths) {
    if (statSync(join(ROOT, path)).isFile()) found.push(path);
    else for await (const file of glob(`${path}/**/*_test.ts`, { cwd: ROOT })) found.push(file);
  }
  return found.sort().map((path) => {
    const [line = ""] = Deno.readTextFileSync(join(ROOT, path)).split("\n");
    const [, said, slow] = line.match(/^\/\/ Needs ([a-z ]+)\.( Slow\.)?/) ?? [];
    const needs = NEEDS.find((name) => name === said);
    if (needs) return { path, needs, isSlow: slow !== undefined };
    const lines = NEEDS.map((name) => `"// Needs ${name}."`).join(" or ");
    throw new SyntaxError(`${path} does not begin with ${lines}`);
  });
}

/**
 * Runs test files. One stack serves half of those that need one. Beside its tests run those of the other half, those with
 * a browser, two at a time, and those with stacks of their own, the quick ones first, because all of these mostly wait.
 */
export async function runTestFiles(files: TestFile[], options: string[] = []): Promise<void> {
  const having = (...needs: TestFile["needs"][]) =>
    files.filter((file) => needs.includes(file.needs));
  const shared = having("nothing", "a stack", "a local stack");
  const isOfProject = Deno.env.has("SUPABASE_URL");
  const browser = having("a stack and a browser");
  const own = having("stacks of its own");
  const slow = own.filter(({ isSlow }) => isSlow);
  const quick = own.filter(({ isSlow }) => !isSlow);
  // A project is tested by one at a time.
  const [first = [], second = []] = isOfProject ? [shared] : halves(shared);
  const isAlone = [first, second, browser, slow, quick].filter((of) => of.length > 0).length === 1;
  const run = async (chosen: TestFile[], hasStack: boolean, isBeside: boolean) => {
    if (chosen.length === 0) return;
    await using stack = hasStack ? await startTemporaryStack() : null;
    await runTests(stack, [...chosen.map(({ path }) => path), ...options], isBeside);
  };
  // Before two runs look for it, and both install it.
  if (browser.length > 0) await findBrowser();
  const [some = [], others = []] = halves(browser);
  const beside = [
    run(second, needsStack(second), true),
    run(some, true, !isAlone),
    run(others, true, true),
    run(quick, false, !isAlone).then(() => run(slow, false, !isAlone)),
  ];
  const ended = Promise.allSettled(beside);
  await run(first, needsStack(first) && !isOfProject, false);
  if (!isAlone && beside.length > 0) console.log("# Tests that began with those above …");
  for (const result of await ended) if (result.status === "rejected") throw result.reason;
}

function needsStack(files: TestFile[]): boolean {
  return files.some(({ needs }) => needs !== "nothing");
}

function halves(files: TestFile[]): TestFile[][] {
  return [0, 1].map((half) => files.filter((_, n) => n % 2 === half));
}
