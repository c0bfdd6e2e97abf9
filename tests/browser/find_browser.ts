/** Returns the path of a Chromium or Chrome. Installs Debian's if there is none and this process may. */
export async function findBrowser(): Promise<string> {
  const found = Deno.env.get("CHROMIUM") ?? await findInstalled();
  if (found) return found;
  if (Deno.build.os === "linux" && Deno.uid() === 0) {
    console.log("Installing Debian's chromium …");
    await run("apt-get", "update", "-qq");
    await run("apt-get", "install", "-qq", "--no-install-recommends", "chromium");
    return await findInstalled();
  }
  throw new Error(
    "No Chromium found. Install it (apt-get install chromium), or name it: CHROMIUM=…",
  );
}

async function findInstalled(): Promise<string> {
  const names = "chromium chromium-browser google-chrome google-chrome-stable";
  const find = `for name in ${names}; do command -v $name && break; done; true`;
  return (await run("sh", "-c", find)).trim();
}

async function run(command: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, {
    args,
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
  }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`${command} ${args[0]}: ${new TextDecoder().decode(stderr)}`);
}
