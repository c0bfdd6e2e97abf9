// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { CONSOLE_URL, openPage, openScreen, PUBLISHABLE_KEY } from "../helpers/browser.ts";
import { SECRET_KEY } from "../helpers/browser.ts";
import { serveOnLoopback } from "../helpers/loopback.ts";

/** The compressed sizes of what the sign-in form needs, of the first screen's scripts, and of all that it loads. */
const MAX_FORM_BYTES = 150_000;
const MAX_SCRIPT_BYTES = 238_000;
const MAX_BYTES = 285_000;

/** Fetches a file of the console. Returns its text, and its size when compressed. */
async function weigh(url: string) {
  const body = await (await fetch(url)).arrayBuffer();
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  const size = (await new Response(stream).arrayBuffer()).byteLength;
  return { url, text: new TextDecoder().decode(body), size };
}

const sum = (files: { size: number }[]) => files.reduce((total, { size }) => total + size, 0);

it("the console's page contains only the publishable key, speaks to its project only, and its policy, which the browser obeys, allows nothing else. It loads at most 238 kB of scripts, compressed, until the log shows, and 285 kB with styles and one file of its typeface. It keeps the rest when a part does not load, and offers once to try again", async () => {
  const { view, page } = await openScreen("log");
  await view.shows("No entries");
  await page.evaluate("document.fonts.ready");
  const assets = await page.evaluate<string[]>(
    `performance.getEntriesByType("resource").map(({ name }) => name)
      .filter((name) => name.includes("/assets/"))`,
  );
  assertEquals(assets.filter((name) => name.endsWith(".woff2")).length, 1);
  const files = await Promise.all([CONSOLE_URL, ...assets].map(weigh));
  const scripts = sum(files.filter(({ url }) => url.endsWith(".js")));
  console.log(`Until the log shows: ${sum(files)} bytes, compressed, ${scripts} of scripts`);
  assert(scripts <= MAX_SCRIPT_BYTES && sum(files) <= MAX_BYTES, `${scripts}, ${sum(files)}`);
  const source = files.map(({ text }) => text).join("");
  assertStringIncludes(source, PUBLISHABLE_KEY);
  assert(!source.includes(SECRET_KEY));

  const { origin } = new URL(CONSOLE_URL);
  assertEquals([...view.origins], [origin]);
  const response = await fetch(CONSOLE_URL);
  assertEquals(response.headers.get("Content-Security-Policy"), "frame-ancestors 'none'");
  const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
    `font-src 'self'; connect-src ${origin}; base-uri 'none'; form-action 'none'; ` +
    "require-trusted-types-for 'script'; trusted-types default";
  assertStringIncludes(await response.text(), `content="${policy}"`);
  const blocked = await page.evaluate<string>(`new Promise((resolve) => {
    addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
    fetch("http://127.0.0.1:1/").catch(() => {});
  })`);
  assertEquals(blocked, "connect-src");

  await page.route("**/assets/usage-*.js", (route) => route.abort());
  await view.goTo("Access");
  await page.getByRole("link", { name: "Readers" }).click();
  await view.shows("A part of the console did not load.");
  assertEquals(await view.button("Try again").count(), 1);
  await page.unrouteAll();
  await view.press("Try again", "Who read the log of");
});

it("the console's page does not open in a frame: the header that it is served with forbids this, and without the header the page refuses by itself", async () => {
  const headers = { "Content-Type": "text/html" };
  await using site = serveOnLoopback(() =>
    new Response(`<iframe src="${CONSOLE_URL}"></iframe>`, { headers })
  );
  const { page, complaints } = await openPage(site.url);
  assertStringIncludes(complaints.join(), "frame-ancestors 'none'");
  await page.route(CONSOLE_URL, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers });
  });
  await page.reload();
  await page.frameLocator("iframe").getByText("does not open inside another page").waitFor();
});

it("the console's page signs in with at most 150 kB, compressed: with its HTML and the files that this names, and no other", async () => {
  const html = await weigh(CONSOLE_URL);
  const named = Array.from(html.text.matchAll(/assets[/][^"]+/g), ([path]) => CONSOLE_URL + path);
  const size = sum([html, ...await Promise.all(named.map(weigh))]);
  console.log(`Until the form is usable: ${size} bytes, compressed`);
  assert(size <= MAX_FORM_BYTES, `${size} bytes`);
  const view = await openPage(CONSOLE_URL, {
    prepare: (page) =>
      page.route(
        ({ href }) => href.includes("/assets/") && !named.includes(href),
        (route) => route.abort(),
      ),
  });
  const wrong = { email: "nobody@example.com", password: "wrong-password" };
  await view.signIn(wrong, view.page.getByText("E-mail or password is wrong."));
});
