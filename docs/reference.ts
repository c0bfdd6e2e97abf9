import root from "../deno.json" with { type: "json" };

/** Renders openapi.json as one page for people, which loads nothing from elsewhere. */
export async function renderReference(): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".html" });
  await redocly("build-docs", "docs/openapi.json", "--inlineBundle", `--output=${file}`);
  const page = await Deno.readTextFile(file);
  await Deno.remove(file);
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
    args: ["run", "--allow-all", root.imports["@redocly/cli"], ...args],
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
