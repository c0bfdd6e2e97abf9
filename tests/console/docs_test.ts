// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import contract from "../../docs/openapi.json" with { type: "json" };
import { problem, type ProblemCode } from "../../supabase/functions/public-audit-log/problem.ts";
import { API_URL, AUDIT_LOG_URL, buildVariant, CONSOLE_URL } from "../helpers/browser.ts";
import { getProblem, openConsole, openPage, openScreen, type Problem } from "../helpers/browser.ts";
import { VARIANT_URL } from "../helpers/browser.ts";

const DOCS_URL = `${CONSOLE_URL}docs/`;
const PAGES = ["quick-start", "api", "following", "integrating", "verifying"]
  .map((name) => `${DOCS_URL}${name}.html`);

async function textOf(url: string): Promise<string> {
  const response = await fetch(url);
  assertEquals(response.status, 200, url);
  return await response.text();
}

it("the pages for the customer's developers are accessible in light and dark, fit a phone, load no script and nothing from elsewhere", async () => {
  for (const url of PAGES) {
    const view = await openPage(url);
    await view.assertAccessible(`docs-${url.slice(DOCS_URL.length, -".html".length)}`);
    assertEquals([...view.origins], [new URL(CONSOLE_URL).origin]);
    assertEquals(await view.page.locator("script, [style]").count(), 0);
    assertEquals(await view.page.getByRole("heading", { level: 1 }).count(), 1);
  }
});

it("the pages for the customer's developers have only links that lead somewhere: to pages, to anchors, to files", async () => {
  const dead: string[] = [];
  for (const url of PAGES) {
    for (const [, href = ""] of (await textOf(url)).matchAll(/ href="([^"]+)"/g)) {
      const { origin, pathname, hash } = new URL(href, url);
      if (origin !== new URL(CONSOLE_URL).origin) continue;
      const response = await fetch(`${origin}${pathname}`);
      const text = await response.text();
      const isThere = response.ok && (!hash || text.includes(` id="${hash.slice(1)}"`));
      if (!isThere) dead.push(`${url}: ${href}`);
    }
  }
  assertEquals(dead, []);
});

it("the pages for the customer's developers and the contract have this installation's addresses, and no other installation's, no repository's and no token", async () => {
  for (const url of PAGES) {
    const text = await textOf(url);
    const strange =
      /….supabase.co|project-ref|console.example.com|github.com|deno task|tests\/|\.md\b/;
    assertEquals(text.match(strange)?.[0], undefined, url);
    assertEquals(text.match(/pck_\w{8,}/)?.[0], undefined, url);
  }
  const beside = JSON.parse(await textOf(`${CONSOLE_URL}openapi.json`));
  assertEquals(beside.servers, [{ url: `${API_URL}/functions/v1` }]);
  assertEquals(Object.keys(beside.paths), Object.keys(contract.paths));
  assertEquals(beside.components.schemas, contract.components.schemas);
  assertEquals(JSON.stringify(beside).includes("project-ref"), false);
  const quickStart = await textOf(`${DOCS_URL}quick-start.html`);
  assertStringIncludes(quickStart, `AUDIT_LOG_URL=${AUDIT_LOG_URL}`);
  const install = `npm install --global ${CONSOLE_URL}public-audit-log.tgz`;
  const integrating = await textOf(`${DOCS_URL}integrating.html`);
  assertStringIncludes(integrating, install);
  const [ofOneVersion = ""] = integrating.match(/public-audit-log-[\d.]+\.tgz/) ?? [];
  const [newest, named] = await Promise.all(
    ["public-audit-log.tgz", ofOneVersion].map((name) => textOf(`${CONSOLE_URL}${name}`)),
  );
  assertEquals(named, newest);
  const prepare = await buildVariant({
    VITE_PUBLIC_AUDIT_LOG_URL: "https://logs.example/audit",
    VITE_CONSOLE_URL: VARIANT_URL,
  });
  const { page } = await openPage(`${VARIANT_URL}docs/quick-start.html`, { prepare });
  await page.getByText("AUDIT_LOG_URL=https://logs.example/audit").waitFor();
  await page.goto(`${VARIANT_URL}openapi.json`);
  const { servers, paths } = JSON.parse(await page.locator("body").innerText());
  assertEquals(servers, [{ url: "https://logs.example" }]);
  const ours = Object.keys(contract.paths);
  assertEquals(
    Object.keys(paths),
    ours.map((path) => path.replace("/public-audit-log", "/audit")),
  );
});

it("the pages for the customer's developers are where each error of the API leads: to the row of its code, to the page, and to the contract", async () => {
  const context = { requestId: crypto.randomUUID(), consoleUrl: CONSOLE_URL };
  const { description } = contract.components.schemas.Problem.properties.code;
  const codes = description.match(/program: (.*?)\. /)?.[1]?.split(", ") ?? [];
  for (const code of codes) {
    const error = problem(code as ProblemCode, context);
    const { type }: Problem = await error.json();
    const [page = "", anchor] = type.split("#");
    assertStringIncludes(await textOf(page), `<tr id="${anchor}">`);
    const links = error.headers.get("Link")?.matchAll(/<(.*?)>/g) ?? [];
    const targets = Array.from(links, ([, target]) => target);
    assertEquals(targets, [page, `${CONSOLE_URL}openapi.json`]);
  }
  const { code } = await getProblem(401, "pck_wrong");
  assert(codes.includes(code));
});

it("the pages for the customer's developers are found by the browser's search and printed whole: also the programs that are folded", async () => {
  const view = await openPage(`${DOCS_URL}following.html`);
  const { page } = view;
  assert(await page.getByText("package main").isHidden());
  await page.getByText("follow.go", { exact: true }).click();
  assert(await page.getByText("package main").isVisible());
  // The browser finds a text that an address names as its search does.
  await page.goto("about:blank");
  await page.goto(`${DOCS_URL}following.html#:~:text=await%20fetch`);
  await page.getByText("await fetch").waitFor();
  await page.emulateMedia({ media: "print" });
  for (const part of ["urllib.request", "await fetch", "package main"]) {
    assert(await page.getByText(part).first().isVisible(), part);
  }
  assert(await page.getByRole("navigation").isHidden());
});

it("the pages for the customer's developers are one press away from the sign-in page and from the settings, and lead back", async () => {
  const { page } = await openConsole(null);
  await page.getByRole("link", { name: "Documentation" }).click();
  await page.getByRole("heading", { name: "Quick start" }).waitFor();
  await page.getByRole("link", { name: "Console" }).click();
  await page.getByLabel("E-mail").waitFor();
  const { view } = await openScreen("settings");
  await view.page.getByRole("link", { name: "Read the log from an application" }).click();
  await view.page.getByRole("navigation").getByRole("link", { name: "The API" }).click();
  await view.page.getByText("On this page", { exact: true }).click();
  await view.page.getByRole("link", { name: "Errors" }).first().click();
  assertMatch(view.page.url(), /docs[/]api.html#errors$/);
});
