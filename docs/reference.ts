/** With a lockfile of its own: a start downloads it when its reference page is first asked for. */
const REDOCLY = "npm:@redocly/cli@2.77.0";

/** Where openapi.json says that `deno task start` is. */
const DEFAULT_API_URL = "http://127.0.0.1:54321";

/**
 * Renders openapi.json as one page for people, which loads nothing from elsewhere; `apiUrl` is where
 * the local stack is.
 */
export async function renderReference(apiUrl: string): Promise<string> {
  const folder = await Deno.makeTempDir();
  const document = await Deno.readTextFile(new URL("openapi.json", import.meta.url));
  const [source, file] = [`${folder}/openapi.json`, `${folder}/index.html`];
  await Deno.writeTextFile(source, document.replaceAll(DEFAULT_API_URL, apiUrl));
  await redocly("build-docs", source, "--inlineBundle", `--output=${file}`);
  const page = await Deno.readTextFile(file);
  await Deno.remove(folder, { recursive: true });
  // Only its logo would be loaded from elsewhere. Without it, its place stays empty.
  return page.replaceAll(/https:\/\/cdn\.redoc\.ly\/[\w./-]*/g, "data:,");
}

/**
 * Runs the Redocly CLI in this repository and resolves to what it printed.
 *
 * @throws {Error} with what it said, if it fails.
 */
export async function redocly(...args: string[]): Promise<string> {
  const options = ["--allow-all", "--no-config", "--lock=docs/redocly.lock", "--frozen"];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...options, REDOCLY, ...args],
    cwd: new URL("..", import.meta.url),
    env: { REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`redocly ${args[0]}: ${decoder.decode(stdout)}${decoder.decode(stderr)}`);
}
