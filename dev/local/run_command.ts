/**
 * Runs a program to its end. Returns what it wrote to standard output.
 *
 * @throws {Error} with all that it wrote, if it fails.
 */
export async function runCommand(program: string, options: Deno.CommandOptions): Promise<string> {
  const command = new Deno.Command(program, { stdin: "null", ...options });
  const { success, stdout, stderr } = await command.output();
  const [written = "", errors = ""] = [stdout, stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  if (success) return written;
  throw new Error(`${[program, ...options.args ?? []].join(" ")} failed: ${errors}${written}`);
}
