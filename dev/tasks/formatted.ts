import { runCommand } from "../local/run_command.ts";

/**
 * Formats generated text as `deno fmt` formats a file of its kind.
 *
 * @throws {Error} with the message of `deno fmt`, if the text does not parse.
 */
export async function formatted(extension: "json" | "ts", text: string): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: `.${extension}` });
  await Deno.writeTextFile(file, text);
  await runCommand(Deno.execPath(), { args: ["fmt", "--quiet", "--line-width=100", file] });
  return await Deno.readTextFile(file).finally(() => Deno.remove(file));
}
