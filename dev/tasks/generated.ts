import { runCommand } from "../local/run_command.ts";

/** Writes generated files. With --check, it fails unless they are there as they would be written. */
export async function writeOrCheck(task: string, files: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    if (!Deno.args.includes("--check")) {
      await Deno.writeTextFile(name, text);
      console.log(`Written: ${name}`);
    } else if (await Deno.readTextFile(name).catch(() => "") !== text) {
      console.error(`${name} is out of step: deno task ${task}`);
      Deno.exitCode = 1;
    }
  }
}

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
