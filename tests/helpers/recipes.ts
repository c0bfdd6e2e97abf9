import { join } from "node:path";
import { fillIn } from "../../console/docs/fill_in.ts";
import { runProgram } from "./run_program.ts";

const DOCS = new URL("../../docs/", import.meta.url);

/**
 * Runs the commands of a page in docs/ in one shell, with the addresses of the stack, and in a new folder with the
 * files on the page and the key that the environment has. Leaves out commands with an `…`, which a person has to fill
 * in, and those marked `bash`, for other machines or for typing.
 *
 * @throws {Error} with what was printed, if one of them fails.
 */
export async function runRecipes(environment: Record<string, string>, page: string) {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(join(folder, "audit-log.key"), environment["AUDIT_LOG_API_KEY"] ?? "");
  const commands = await unpackRecipes(folder, page);
  const script = commands.map((command) => `${command}\necho; echo "${END}"`).join("\n");
  const { code, stdout, stderr } = await runProgram("bash", {
    args: ["-euo", "pipefail", "-c", script],
    cwd: folder,
    env: environment,
  });
  await Deno.remove(folder, { recursive: true });
  const outputs = stdout.split(`\n${END}\n`).map((output) => output.trim());
  if (code !== 0) {
    throw new Error(`failed: ${commands[outputs.length - 1]}\n${outputs.at(-1)}${stderr}`);
  }
  outputs.pop();
  return {
    outputs,
    /** The output of the first command that contains a text. */
    outputOf(part: string): string {
      const output = outputs[commands.findIndex((command) => command.includes(part))];
      return output ?? `no command has ${part}`;
    },
  };
}

/** Writes the files on a page in docs/ to a folder. Returns the commands on the page. */
export async function unpackRecipes(folder: string, page: string): Promise<string[]> {
  const commands: string[] = [];
  // Tests of adopting have no stack, and no page of theirs names these addresses.
  const stack = Deno.env.get("SUPABASE_URL") ?? "https://stack.example";
  const addresses = {
    auditLogUrl: `${stack}/functions/v1/public-audit-log`,
    consoleUrl: `${stack}/`,
  };
  const text = fillIn(await Deno.readTextFile(new URL(page, DOCS)), addresses);
  for (const [, info = "", block = ""] of text.matchAll(/^ *```(\w.*)\n([^]*?)^ *```$/gm)) {
    const file = info.match(/ title=(\S+)/)?.[1];
    if (file) await Deno.writeTextFile(join(folder, file), block);
    else if (info === "sh" && !block.includes("…")) commands.push(block);
  }
  return commands;
}

const END = "--- end of a command ---";
