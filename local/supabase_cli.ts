const VERSION = "3.1.0";
const ROOT = new URL("..", import.meta.url);

/**
 * Runs the real Supabase CLI in this repository and resolves to its output. The commands used here need no
 * Docker. Runs through `npx` if there is one, else through Deno.
 *
 * @throws {Error} with the CLI's error message, if it fails or does not know a key of config.toml.
 */
export async function supabase(...args: string[]): Promise<string> {
  const specifier = `supabase@${VERSION}`;
  const command = await hasNpx()
    ? new Deno.Command(NPX, { args: ["--yes", specifier, ...args], ...OPTIONS })
    : new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--allow-all",
        "--no-lock",
        "--node-modules-dir=none",
        `npm:${specifier}`,
        ...args,
      ],
      ...OPTIONS,
    });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  const output = decoder.decode(stdout) + decoder.decode(stderr);
  const unknownKeys = output.match(/^.*keys this version .* does not recognize.*$/m)?.[0];
  if (unknownKeys) throw new Error(unknownKeys);
  if (success) return decoder.decode(stdout);
  const cause = output.match(/^.*(?:ERROR|SQLSTATE|[Ff]ailed).*$/m)?.[0] ?? output;
  throw new Error(`supabase ${args[0]} ${args[1]} failed: ${cause.trim()}`);
}

const NPX = Deno.build.os === "windows" ? "npx.cmd" : "npx";
const OPTIONS = {
  cwd: ROOT,
  // The databases are on loopback. Without this mode, the CLI prints a warning to standard output.
  env: { DO_NOT_TRACK: "1", PGSSLMODE: "disable" },
  stdin: "null",
} as const;

async function hasNpx(): Promise<boolean> {
  try {
    return (await new Deno.Command(NPX, { args: ["--version"], ...OPTIONS }).output()).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
