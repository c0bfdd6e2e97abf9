import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  createApiKey,
  get,
  newOrganization,
  revokeApiKey,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import {
  CONSOLE_URL,
  daysAgo,
  newAdmin,
  openConsole,
  openScreen,
  sealDays,
  WIDTHS,
} from "./browser.ts";

/** The compressed size that the first load may have. */
const MAX_BYTES = 290_000;

/** The test takes pictures at these widths. */
const PICTURED = [320, 1440];

/** These states have other elements on a phone: cards, or a dialog instead of a panel. */
const OTHER_ON_PHONES = ["sign-in", "log", "log-entry", "keys", "access", "seals"];

async function compressedSize(body: ArrayBuffer): Promise<number> {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

describe("the page", () => {
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
    const html = await (await fetch(CONSOLE_URL)).text();
    const names = [...html.matchAll(/"\.\/(assets\/[^"]+)"/g)].map(([, name]) => name);
    assertEquals(names.length, 2);
    const { page } = await openConsole(null);
    await page.evaluate("document.fonts.ready");
    const fonts = await page.evaluate<{ name: string; size: number }[]>(
      `performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".woff2"))
        .map(({ name, encodedBodySize: size }) => ({ name, size }))`,
    );
    assertEquals(fonts.length, 1);
    let size = fonts[0]?.size ?? 0;
    let source = "";
    for (const name of names) {
      const body = await (await fetch(CONSOLE_URL + name)).arrayBuffer();
      size += await compressedSize(body);
      source += new TextDecoder().decode(body);
    }
    console.log(`The first load: ${size} bytes, compressed`);
    assert(size <= MAX_BYTES, `${size} bytes`);
    assertStringIncludes(source, Deno.env.get("SUPABASE_PUBLISHABLE_KEY") ?? "?");
    assert(!source.includes(Deno.env.get("SUPABASE_SECRET_KEY") ?? "?"));
  });
});

/** Opens the sign-in, or a screen of an organization with something of everything. `check` adds to `found`. */
async function openScreens(screen = "") {
  const { admin, organization: { id, token } } = await newAdmin("Analytical Engines");
  await newOrganization(admin, "Difference Engines");
  await createApiKey(admin, id, "A name as long as it may be ".repeat(4).slice(0, 100));
  await revokeApiKey(admin, await createApiKey(admin, id, "old"));
  for (let i = 0; i < 5; i++) await get(token);
  // The second page has three rows, because more make axe slow and prove nothing.
  await writeEntries(
    id,
    Array.from({ length: 53 }, (_, n) => ({
      created_at: new Date(Date.now() - n * 2 * 3_600_000).toISOString(),
      action: n % 3 ? "message_created" as const : "agent_added" as const,
      user_email: n < 52 ? "ada@example.com" : `${"very.".repeat(12)}long@example.com`,
    })),
  );
  await sealDays(id, daysAgo(5), daysAgo(1));
  await sql`
    update audit_log_private.sealed_days set altered_at = now()
    where organization_id = ${id}
      and day = (select min(day) from audit_log_private.sealed_days where organization_id = ${id})`;
  const person = screen ? admin : null;
  const view = await openConsole(person, `#/${id}/${screen}`, { reducedMotion: "reduce" });
  const { page, complaints: found } = view;

  /** Checks a state in light colours at each width, then in dark ones. `open` opens what floats over the page. */
  async function check(name: string, open?: () => Promise<void>) {
    const note = (where: string, wrong: string[]) =>
      found.push(...wrong.map((what) => `${name} ${where}: ${what}`));
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      if (open) {
        await view.key("Escape");
        await open();
      }
      if (PICTURED.includes(width)) await view.takePicture(`${name}-light-${width}`);
      const pixels = await view.overflow();
      if (pixels > 0) note(`at ${width}`, [`${pixels} pixels too wide`]);
      if (width === 320 && OTHER_ON_PHONES.includes(name)) {
        note("on a phone", await view.violations());
      }
    }
    note("in light colours", await view.violations());
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator("html[data-mantine-color-scheme=dark]").waitFor();
    await view.takePicture(`${name}-dark-${WIDTHS.at(-1)}`);
    // Other colours make no other elements.
    note("in dark colours", await view.violations(["color-contrast", "link-in-text-block"]));
    await page.emulateMedia({ colorScheme: "light" });
  }
  return { view, page, admin, id, found, check };
}

describe("axe-core finds no fault in light or dark colours, and nothing is too wide from 320 pixels on, in each state of", () => {
  it("the sign-in", async () => {
    const { view, page, admin, found, check } = await openScreens();
    await check("sign-in");
    await view.press("Forgot your password?");
    await page.getByLabel("E-mail").fill("nobody@example.com");
    await check("password-code");
    await view.press("Send code");
    await page.getByLabel("Code").waitFor();
    await check("password-new");
    await view.press("Back to sign-in");
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByLabel("Password", { exact: true }).fill("wrong");
    await view.press("Sign in", "E-mail or password is wrong.");
    await check("sign-in-refused");
    await view.signIn(admin);
    await page.getByRole("heading", { name: "Log" }).waitFor();
    await page.goto(`${CONSOLE_URL}#/${crypto.randomUUID()}/log`);
    await view.shows("You do not administer the organization in the address");
    await check("not-administered");
    await view.signOut(admin.email);
    await view.signIn(await signUp());
    await view.shows("Ask an administrator of your organization");
    await check("nothing");
    assertEquals(found, []);
  });

  it("the log", async () => {
    const { view, page, admin, id, found, check } = await openScreens("log?page=2");
    await view.shows("51–53 of 53 entries");
    await page.getByRole("alert").waitFor();
    await check("log");
    await check("organizations", async () => {
      await page.getByRole("combobox", { name: "Organization" }).click();
      await page.getByRole("option", { name: "Difference Engines" }).waitFor();
    });
    await check("account", () => view.press(admin.email, "Sign out everywhere"));
    await check("log-days", async () => {
      await view.press(/^Days/);
      await view.button(/^1 /).first().waitFor();
    });
    await check("log-filter", async () => {
      await view.press("Filter");
      await page.getByRole("textbox", { name: "Person" }).waitFor();
    });
    await view.key("Escape");
    await page.getByRole("row").getByRole("link").first().click();
    await view.entry.getByText("Platform agent sid").waitFor();
    await check("log-entry");
    await page.getByRole("tab", { name: "JSON" }).click();
    await page.getByRole("group", { name: "JSON" }).waitFor();
    await check("log-entry-json");
    await view.closeEntry();
    await view.press("Export");
    await page.getByRole("dialog", { name: "Export" }).getByText("CSV", { exact: true }).click();
    await check("log-export");
    await view.closeDialog();
    await view.press("Follow", "Following.");
    await check("log-following");
    await page.goto(`${CONSOLE_URL}#/${id}/log?page=2`);
    await view.shows("51–53 of 53 entries");
    await page.context().setOffline(true);
    await view.press("Refresh");
    await page.getByText("No answer from the server").first().waitFor();
    await check("log-offline");
    await page.context().setOffline(false);
    await page.getByText("You are offline").waitFor({ state: "hidden" });
    await page.goto(`${CONSOLE_URL}#/${id}/log?start=2020-01-01&end=2020-01-02`);
    await page.getByRole("heading", { name: "No entries" }).waitFor();
    await check("log-empty");
    await page.goto(`${page.url()}&entry=${id}&at=2020-01-01T00:00:00.000Z`);
    await page.getByRole("heading", { name: "No such entry" }).waitFor();
    await check("log-no-entry");
    assertEquals(found, []);
  });

  it("the keys, the access and the seals", async () => {
    const { view, page, admin, found, check } = await openScreens("log");
    await view.shows("1–50 of 53 entries");
    await view.goTo("API keys");
    const used = "5 requests, 5 today";
    await view.row(used).waitFor();
    await check("keys");
    await check("keys-menu", async () => {
      await view.row(used).getByRole("button", { name: /^Actions/ }).click();
      await page.getByRole("menuitem", { name: "Rotate …" }).waitFor();
    });
    await view.key("Escape");
    await view.openMenu(used, "Rotate …");
    await check("key-rotate");
    await view.closeDialog();
    await view.openMenu(used, "Revoke …");
    await check("key-revoke");
    await view.closeDialog();
    await view.press("Create key");
    const name = page.getByRole("dialog").getByRole("textbox", { name: "Name" });
    await name.press("Enter");
    await view.shows("Give the key a name.");
    await check("key-create");
    await name.fill("SIEM");
    await name.press("Enter");
    await page.getByRole("group", { name: "Token" }).waitFor();
    await check("key-token");
    await page.evaluate("history.back()");
    await view.shows("If you leave now");
    await check("key-token-leaving");
    await view.press("Stay");
    await page.getByRole("checkbox").check();
    await view.press(/^Close$/);
    await page.getByRole("searchbox").fill("nothing like this");
    await page.getByRole("heading", { name: "No such key" }).waitFor();
    await check("keys-none");

    await view.goTo("Access");
    await view.row(admin.email).waitFor();
    await check("access");

    await view.goTo("Seals");
    await page.getByRole("alert").waitFor();
    await check("seals");
    assertEquals(found, []);
  });
});
