import { it as test } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { runProgram } from "../run_program.ts";

const DATA = fileURLToPath(new URL("../../local/data/collectors", import.meta.url));

/**
 * Installs a package of Python, unless an earlier run has. Returns the folder of its programs, and `it` for tests that
 * use them. Where pip fails, these tests are skipped, and one line says why.
 */
export async function installed(requirement: string) {
  const cwd = `${DATA}/${requirement}`;
  await Deno.mkdir(cwd, { recursive: true });
  const script = `[ ! -e done ] || exit 0
    python3 -m venv .
    bin/pip install --quiet '${requirement}'
    touch done`;
  const { code, stderr } = await runProgram("sh", { args: ["-ec", script], cwd });
  if (code === 0) return { bin: `${cwd}/bin`, it: test };
  console.log(`Skipped: ${requirement} was not installed: ${stderr.trim().split("\n").at(-1)}`);
  return { bin: `${cwd}/bin`, it: test.skip };
}

export function example(path: string): string {
  return fileURLToPath(new URL(`../../examples/${path}`, import.meta.url));
}
