/** With a lockfile of its own: a start downloads it when its reference page is first asked for. */
const REDOCLY = "npm:@redocly/cli@2.77.0";

/** Where openapi.json says that `deno task start` is. */
const DEFAULT_API_URL = "http://127.0.0.1:54321";

/**
 * Renders openapi.json as one page for people, which loads nothing from elsewhere; `apiUrl` is where
 * the local stack is.
 */
export async function renderReference(apiUrl = DEFAULT_API_URL): Promise<string> {
  const folder = await Deno.makeTempDir();
  const document = await Deno.readTextFile(new URL("openapi.json", import.meta.url));
  await Deno.writeTextFile(
    `${folder}/openapi.json`,
    document.replaceAll(DEFAULT_API_URL, apiUrl),
  );
  const file = `${folder}/index.html`;
  await redocly("build-docs", `${folder}/openapi.json`, "--inlineBundle", `--output=${file}`);
  const page = await Deno.readTextFile(file);
  await Deno.remove(folder, { recursive: true });
  // But for a logo; without one, its place stays empty.
  return page.replaceAll(/https:\/\/cdn\.redoc\.ly\/[\w./-]*/g, "data:,");
}

/**
 * Runs the Redocly CLI in this repository and resolves to what it printed.
 *
 * @throws {Error} with what it said, if it fails.
 */
export async function redocly(...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--allow-all",
      "--no-config",
      "--lock=docs/redocly.lock",
      "--frozen",
      REDOCLY,
      ...args,
    ],
    cwd: new URL("..", import.meta.url),
    env: { REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`redocly ${args[0]}: ${decoder.decode(stdout)}${decoder.decode(stderr)}`);
}

if (import.meta.main) {
  const folder = new URL("dist/", import.meta.url);
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(new URL("index.html", folder), await renderReference());
  console.log("Written: docs/dist/index.html");
}
