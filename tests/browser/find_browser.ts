const CANDIDATES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Path of a Chromium or Chrome; installs Debian's where there is none and this process may. */
export async function findBrowser(): Promise<string> {
  const found = await findInstalled();
  if (found) return found;
  if (Deno.build.os === "linux" && Deno.uid() === 0) {
    console.log("Installing Debian's chromium …");
    await run("apt-get", "update", "-qq");
    await run("apt-get", "install", "-qq", "--no-install-recommends", "chromium");
    const installed = await findInstalled();
    if (installed) return installed;
  }
  throw new Error(
    "No Chromium found. Install it (apt-get install chromium), or name it: CHROMIUM=…",
  );
}

async function findInstalled(): Promise<string | null> {
  const named = Deno.env.get("CHROMIUM");
  if (named) return named;
  for (const folder of (Deno.env.get("PATH") ?? "").split(":")) {
    for (const name of CANDIDATES) {
      const path = `${folder}/${name}`;
      if (await Deno.stat(path).then((file) => file.isFile, () => false)) return path;
    }
  }
  return null;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, {
    args,
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
  }).output();
  if (!success) throw new Error(`${command} ${args[0]}: ${new TextDecoder().decode(stderr)}`);
}
