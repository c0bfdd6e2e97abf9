import { fileURLToPath } from "node:url";
import { runProgram } from "../run_program.ts";

const DATA = fileURLToPath(new URL("../../local/data/collectors", import.meta.url));

/**
 * The folder for programs of others, with one that a script has built there, now or earlier. `null`, and one line that
 * says what is lacking, if it cannot.
 */
export async function built(name: string, script: string): Promise<string | null> {
  const folder = `${DATA}/${name}`;
  if (await Deno.stat(`${folder}/built`).then(() => true, () => false)) return folder;
  await Deno.mkdir(folder, { recursive: true });
  const { code, stderr } = await runProgram("sh", { args: ["-ec", script], cwd: folder });
  if (code === 0) {
    await Deno.writeTextFile(`${folder}/built`, "");
    return folder;
  }
  console.log(`Left out: ${name}, which could not be built: ${stderr.trim().split("\n").at(-1)}`);
  return null;
}
