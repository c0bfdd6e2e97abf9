import { runCommand } from "./run_command.ts";

const SPECIFIER = "supabase@3.1.0";
const OPTIONS = {
  cwd: new URL("../..", import.meta.url),
  // The databases are on loopback. Without this mode, the CLI prints a warning to standard output.
  env: { DO_NOT_TRACK: "1", PGSSLMODE: "disable" },
} as const;

let found: Promise<string[]> | undefined;

/**
 * Runs the real Supabase CLI in this repository, and returns its output. The commands used here need no Docker.
 *
 * @throws {Error} with all that it wrote, if it fails.
 */
export async function supabase(...args: string[]): Promise<string> {
  const [program = "", ...prefix] = await findSupabase();
  return await runCommand(program, { args: [...prefix, ...args], ...OPTIONS });
}

/**
 * Finds the command that npx installs, or that Deno runs where there is no npx. Once: npx takes a second, and longer if
 * it has to download it.
 */
export function findSupabase(): Promise<string[]> {
  const args = ["--yes", `--package=${SPECIFIER}`, "--call=command -v supabase"];
  return found ??= runCommand("npx", { args, ...OPTIONS }).then(
    (path) => [path.trim()],
    (error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      const flags = ["--allow-all", "--no-lock", "--node-modules-dir=none"];
      return [Deno.execPath(), "run", ...flags, `npm:${SPECIFIER}`];
    },
  );
}
