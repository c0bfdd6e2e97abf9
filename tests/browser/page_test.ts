import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { PUBLISHABLE_KEY, SECRET_KEY } from "../api.ts";
import { CONSOLE_URL, openConsole, openScreen } from "./browser.ts";

/** The compressed size that the first load may have. */
const MAX_BYTES = 290_000;

async function compressedSize(body: ArrayBuffer): Promise<number> {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

describe("the console's page", () => {
  it("speaks to its project only, and its policy, which the browser obeys, allows nothing else", async () => {
    const { view, page } = await openScreen("log");
    await view.shows("No entries");
    const { origin } = new URL(CONSOLE_URL);
    assertEquals([...view.origins], [origin]);
    const response = await fetch(CONSOLE_URL);
    assertEquals(response.headers.get("Content-Security-Policy"), "frame-ancestors 'none'");
    const policy =
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
      `font-src 'self'; connect-src ${origin}; base-uri 'none'; form-action 'none'; ` +
      "require-trusted-types-for 'script'; trusted-types default";
    assertStringIncludes(await response.text(), `content="${policy}"`);
    const blocked = await page.evaluate<string>(`new Promise((resolve) => {
      addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
      fetch("http://127.0.0.1:1/").catch(() => {});
    })`);
    assertEquals(blocked, "connect-src");
  });

  it("contains only the publishable key, and weighs at most 290 kB compressed, with its typeface", async () => {
    const { page } = await openConsole(null);
    await page.evaluate("document.fonts.ready");
    const names = await page.evaluate<string[]>(
      `performance.getEntriesByType("resource").map(({ name }) => name)`,
    );
    const assets = names.filter((name) => name.includes("/assets/"));
    assertEquals(assets.map((name) => name.split(".").at(-1)).sort(), ["css", "js", "woff2"]);
    let size = 0;
    let source = "";
    for (const asset of assets) {
      const body = await (await fetch(asset)).arrayBuffer();
      size += await compressedSize(body);
      source += new TextDecoder().decode(body);
    }
    console.log(`The first load: ${size} bytes, compressed`);
    assert(size <= MAX_BYTES, `${size} bytes`);
    assertStringIncludes(source, PUBLISHABLE_KEY);
    assert(!source.includes(SECRET_KEY));
  });
});
