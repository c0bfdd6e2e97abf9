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
 * Runs test files side by side: those that need a stack and those that need a browser on two stacks each, because all of
 * them mostly wait, and those with stacks of their own, the slow ones last.
 */
export async function runTestFiles(files: TestFile[], options: string[] = []): Promise<void> {
  const having = (...needs: TestFile["needs"][]) =>
    files.filter((file) => needs.includes(file.needs));
  const shared = having("nothing", "a stack", "a local stack");
  const browser = having("a stack and a browser");
  const own = having("stacks of its own").sort((one, other) => +one.isSlow - +other.isSlow);
  const isOfProject = Deno.env.has("SUPABASE_URL");
  const needsStack = ({ needs }: TestFile) =>
    needs === "a stack and a browser" || !isOfProject && /^a .*stack$/.test(needs);
  // A project is tested by one at a time.
  const groups = [...isOfProject ? [shared] : halves(shared), ...halves(browser), own]
    .filter(({ length }) => length > 0);
  // Before two runs look for it, and both install it.
  if (browser.length > 0) await findBrowser();
  const runs = groups.map(async (group, n) => {
    await using stack = group.some(needsStack) ? await startTemporaryStack() : null;
    await runTests(stack, [...group.map(({ path }) => path), ...options], n > 0);
  });
  for (const result of await Promise.allSettled(runs)) {
    if (result.status === "rejected") throw result.reason;
  }
}

function halves(files: TestFile[]): TestFile[][] {
  return [0, 1].map((half) => files.filter((_, n) => n % 2 === half));
}
