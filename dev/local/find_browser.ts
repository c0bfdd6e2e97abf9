import { runCommand } from "./run_command.ts";

/** Returns the path of a Chromium or Chrome. Installs Debian's if there is none and this process may. */
export async function findBrowser(): Promise<string> {
  const find = "command -v chromium || command -v chromium-browser || command -v google-chrome";
  const install = Deno.build.os === "linux" && Deno.uid() === 0
    ? "apt-get update -qq && apt-get install -qq --no-install-recommends chromium"
    : "echo 'There is no Chromium: install it, or name it with CHROMIUM=…' && false";
  const script = `${find} || { { ${install}; } >&2 && ${find}; }`;
  return Deno.env.get("CHROMIUM") || (await runCommand("sh", { args: ["-c", script] })).trim();
}
