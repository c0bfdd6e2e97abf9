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
  closeDialog,
  closeEntry,
  CONSOLE_URL,
  daysAgo,
  entryPanel,
  goTo,
  newAdmin,
  openConsole,
  openMenu,
  openScreen,
  overflow,
  press,
  row,
  sealDays,
  shows,
  signIn,
  takePicture,
  violations,
  WIDTHS,
} from "./browser.ts";

/** What the page loads at first may weigh this much, compressed. */
const MAX_BYTES = 290_000;

/** Of these widths there are pictures of each screen. */
const PICTURED = [320, 1440];

/** On a phone these have other elements than on a desktop: cards, a dialog instead of a panel. */
const OTHER_ON_PHONES = ["sign-in", "log", "log-entry", "keys", "access", "seals"];

async function compressedSize(body: ArrayBuffer): Promise<number> {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

describe("the page", () => {
  it("speaks to its project only, and the browser lets it speak to nobody else", async () => {
    const { page, origins } = await openScreen("log");
    await shows(page, "No entries");
    assertEquals([...origins], [new URL(CONSOLE_URL).origin]);
    const blocked = await page.evaluate<string[]>(`new Promise((resolve) => {
      const blocked = [];
      addEventListener("securitypolicyviolation", (event) => {
        blocked.push(event.effectiveDirective);
        if (blocked.length === 4) resolve(blocked.toSorted());
      });
      setTimeout(() => resolve(blocked.toSorted()), 5000);
      fetch("http://127.0.0.1:1/").catch(() => {});
      document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:1/x.png" }));
      const style = document.createElement("style");
      style.textContent = "body { color: red }";
      document.body.append(style);
      try { document.createElement("div").innerHTML = "<b>"; } catch {}
    })`);
    assertEquals(blocked, [
      "connect-src",
      "img-src",
      "require-trusted-types-for",
      "style-src-elem",
    ]);
  });

  it("has this policy, whole, and does not open inside another page", async () => {
    const response = await fetch(CONSOLE_URL);
    assertEquals(response.headers.get("Content-Security-Policy"), "frame-ancestors 'none'");
    const html = await response.text();
    assertEquals(html.match(/Content-Security-Policy"\s+content="([^"]*)"/)?.[1]?.split("; "), [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self' data:",
      "font-src 'self'",
      `connect-src ${new URL(CONSOLE_URL).origin}`,
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types default",
    ]);
  });

  it("has no key in it but the publishable one, and weighs at most 290 kB compressed, with its typeface", async () => {
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

/** An organization with something of everything, and the checks of its screens. */
async function openScreens() {
  const { admin, organization: { id, token } } = await newAdmin("Analytical Engines");
  await newOrganization(admin, "Difference Engines");
  await createApiKey(admin, id, "A name as long as it may be ".repeat(4).slice(0, 100));
  await revokeApiKey(admin, await createApiKey(admin, id, "old"));
  for (let i = 0; i < 5; i++) await get(token);
  // The second page has three rows: more would make axe slow and prove nothing.
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
  const { page, complaints: found } = await openConsole(null, "", { reducedMotion: "reduce" });

  /** Checks a state in light colours at each width, then in dark ones; opens what floats over the page at each. */
  async function check(name: string, open?: () => Promise<void>) {
    const note = (where: string, wrong: string[]) =>
      found.push(...wrong.map((what) => `${name} ${where}: ${what}`));
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      if (open) {
        await page.keyboard.press("Escape");
        await open();
      }
      if (PICTURED.includes(width)) await takePicture(page, `${name}-light-${width}`);
      const pixels = await overflow(page);
      if (pixels > 0) note(`at ${width}`, [`${pixels} pixels too wide`]);
      if (width === 320 && OTHER_ON_PHONES.includes(name)) {
        note("on a phone", await violations(page));
      }
    }
    note("in light colours", await violations(page));
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator("html[data-mantine-color-scheme=dark]").waitFor();
    await takePicture(page, `${name}-dark-${WIDTHS.at(-1)}`);
    // Other colours make no other elements.
    note("in dark colours", await violations(page, ["color-contrast", "link-in-text-block"]));
    await page.emulateMedia({ colorScheme: "light" });
  }
  return { page, admin, id, found, check };
}

describe("axe-core finds nothing, light or dark, and nothing is too wide from 320 pixels on, in each state of", () => {
  it("the sign-in", async () => {
    const { page, admin, found, check } = await openScreens();
    await check("sign-in");
    await press(page, "Forgot your password?");
    await page.getByLabel("E-mail").fill("nobody@example.com");
    await check("password-code");
    await press(page, "Send code");
    await page.getByLabel("Code").waitFor();
    await check("password-new");
    await press(page, "Back to sign-in");
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByLabel("Password", { exact: true }).fill("wrong");
    await press(page, "Sign in", "E-mail or password is wrong.");
    await check("sign-in-refused");
    await signIn(page, admin);
    await page.getByRole("heading", { name: "Log" }).waitFor();
    await page.goto(`${CONSOLE_URL}#/${crypto.randomUUID()}/log`);
    await shows(page, "You do not administer the organization in the address");
    await check("not-administered");
    await press(page, admin.email);
    await page.getByRole("menuitem", { name: "Sign out", exact: true }).click();
    await signIn(page, await signUp());
    await shows(page, "Ask an administrator of your organization");
    await check("nothing");
    assertEquals(found, []);
  });

  it("the log", async () => {
    const { page, admin, id, found, check } = await openScreens();
    await signIn(page, admin);
    await page.getByRole("heading", { name: "Log" }).waitFor();
    await page.goto(`${CONSOLE_URL}#/${id}/log?page=2`);
    await shows(page, "51–53 of 53 entries");
    await page.getByRole("alert").waitFor();
    await check("log");
    await check("organizations", async () => {
      await page.getByRole("combobox", { name: "Organization" }).click();
      await page.getByRole("option", { name: "Difference Engines" }).waitFor();
    });
    await check("account", async () => {
      await press(page, admin.email, "Sign out everywhere");
    });
    await check("log-days", async () => {
      await press(page, /^Days/);
      await page.getByRole("button", { name: /^1 / }).first().waitFor();
    });
    await check("log-filter", async () => {
      await press(page, "Filter");
      await page.getByRole("textbox", { name: "Person" }).waitFor();
    });
    await page.keyboard.press("Escape");
    await page.getByRole("row").getByRole("link").first().click();
    await entryPanel(page).getByText("Platform agent sid").waitFor();
    await check("log-entry");
    await page.getByRole("tab", { name: "JSON" }).click();
    await page.getByRole("group", { name: "JSON" }).waitFor();
    await check("log-entry-json");
    await closeEntry(page);
    await press(page, "Export");
    await page.getByRole("dialog", { name: "Export" }).getByText("CSV", { exact: true }).click();
    await check("log-export");
    await closeDialog(page);
    await press(page, "Follow", "Following.");
    await check("log-following");
    await page.goto(`${CONSOLE_URL}#/${id}/log?page=2`);
    await shows(page, "51–53 of 53 entries");
    await page.context().setOffline(true);
    await press(page, "Refresh");
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
    const { page, admin, found, check } = await openScreens();
    await signIn(page, admin);
    await goTo(page, "API keys");
    const used = "5 requests, 5 today";
    await row(page, used).waitFor();
    await check("keys");
    await check("keys-menu", async () => {
      await row(page, used).getByRole("button", { name: /^Actions/ }).click();
      await page.getByRole("menuitem", { name: "Rotate …" }).waitFor();
    });
    await page.keyboard.press("Escape");
    await openMenu(page, used, "Rotate …");
    await check("key-rotate");
    await closeDialog(page);
    await openMenu(page, used, "Revoke …");
    await check("key-revoke");
    await closeDialog(page);
    await press(page, "Create key");
    const name = page.getByRole("dialog").getByRole("textbox", { name: "Name" });
    await name.press("Enter");
    await shows(page, "A name is needed");
    await check("key-create");
    await name.fill("SIEM");
    await name.press("Enter");
    await page.getByRole("group", { name: "Token" }).waitFor();
    await check("key-token");
    await page.evaluate("history.back()");
    await shows(page, "If you leave now");
    await check("key-token-leaving");
    await press(page, "Stay");
    await page.getByRole("checkbox").check();
    await press(page, /^Close$/);
    await page.getByRole("searchbox").fill("nothing like this");
    await page.getByRole("heading", { name: "No such key" }).waitFor();
    await check("keys-none");

    await goTo(page, "Access");
    await row(page, admin.email).waitFor();
    await check("access");

    await goTo(page, "Seals");
    await page.getByRole("alert").waitFor();
    await check("seals");
    assertEquals(found, []);
  });
});
