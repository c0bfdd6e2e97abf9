import { runCommand } from "../local/run_command.ts";

/** Installs what the entrypoints import, in a folder. */
export async function denoInstall(
  cwd: string,
  flags: string[],
  entrypoints: string[],
  deno = Deno.execPath(),
): Promise<void> {
  const args = ["install", "--quiet", ...flags, "--entrypoint", ...entrypoints];
  // Today's Deno trusts the system's certificates by default.
  await runCommand(deno, { args, cwd, env: { DENO_TLS_CA_STORE: "mozilla,system" } });
}
