import { it as test } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { runProgram } from "../run_program.ts";

const DATA = fileURLToPath(new URL("../../local/data/collectors", import.meta.url));

/**
 * Builds somebody else's program with a script, unless an earlier run has built it. Returns its folder,
 * and `it` for tests that use it. Where the script fails, these tests are skipped, and one line says why.
 */
export async function built(name: string, script: string) {
  const folder = `${DATA}/${name}`;
  await Deno.mkdir(folder, { recursive: true });
  const once = `[ ! -e built ] || exit 0\n${script}\ntouch built`;
  const { code, stderr } = await runProgram("sh", { args: ["-ec", once], cwd: folder });
  if (code === 0) return { folder, it: test };
  console.log(`Skipped: ${name} could not be built: ${stderr.trim().split("\n").at(-1)}`);
  return { folder, it: test.skip };
}

export function example(path: string): string {
  return fileURLToPath(new URL(`../../examples/${path}`, import.meta.url));
}
