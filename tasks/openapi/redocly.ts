/** With a lockfile of its own, beside this file. */
const REDOCLY = "npm:@redocly/cli@2.77.0";

/**
 * Runs the Redocly CLI in this repository and resolves to what it printed.
 *
 * @throws {Error} with what it said, if it fails.
 */
export async function redocly(...args: string[]): Promise<string> {
  const options = ["--allow-all", "--no-config", "--lock=tasks/openapi/redocly.lock", "--frozen"];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...options, REDOCLY, ...args],
    cwd: new URL("../..", import.meta.url),
    env: { REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`redocly ${args[0]}: ${decoder.decode(stdout)}${decoder.decode(stderr)}`);
}
