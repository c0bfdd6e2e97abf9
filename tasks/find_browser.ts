const FIND =
  "for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $name && break; done";
const INSTALL =
  "apt-get update -qq && apt-get install -qq --no-install-recommends chromium >/dev/null";

/** Returns the path of a Chromium or Chrome. Installs Debian's if there is none and this process may. */
export async function findBrowser(): Promise<string> {
  let found = Deno.env.get("CHROMIUM") || await run(FIND);
  if (!found && Deno.build.os === "linux" && Deno.uid() === 0) {
    console.log("Installing Debian's chromium …");
    found = await run(`${INSTALL} && ${FIND}`);
  }
  if (found) return found;
  throw new Error(
    "No Chromium found. Install it (apt-get install chromium), or name it: CHROMIUM=…",
  );
}

async function run(script: string): Promise<string> {
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const { stdout } = await new Deno.Command("sh", { args: ["-c", script], env }).output();
  return new TextDecoder().decode(stdout).trim();
}
