/**
 * Formats generated text as `deno fmt` would format a file of its kind.
 *
 * @throws {Error} with the message of `deno fmt`, if the text does not parse.
 */
export async function formatted(extension: "json" | "ts", text: string): Promise<string> {
  const format = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--line-width=100", `--ext=${extension}`, "-"],
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = format.output();
  await new Response(text).body?.pipeTo(format.stdin);
  const { success, stdout, stderr } = await output;
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`deno fmt --ext=${extension}: ${decoder.decode(stderr)}`);
}
