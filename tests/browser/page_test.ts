import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  createApiKey,
  get,
  newOrganization,
  revokeApiKey,
  runUpkeep,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import {
  closeDialog,
  closeEntry,
  CONSOLE_URL,
  entryPanel,
  goTo,
  newAdmin,
  openAsAdmin,
  openConsole,
  overflow,
  row,
  signIn,
  takePicture,
  violations,
  WIDTHS,
} from "./browser.ts";

/** What the page loads at first may weigh this much, compressed. */
const MAX_BYTES = 290_000;

/** Of these widths there are pictures of each screen. */
const PICTURED = [320, 1440];

async function compressedSize(body: ArrayBuffer): Promise<number> {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}

describe("the page", () => {
  it("speaks to its project only, and the browser lets it speak to nobody else", async () => {
    const { page, origins } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
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

  it("does not open inside another page", async () => {
    const response = await fetch(CONSOLE_URL);
    assertEquals(response.headers.get("Content-Security-Policy"), "frame-ancestors 'none'");
    await response.body?.cancel();
  });

  it("has this policy, whole", async () => {
    const html = await (await fetch(CONSOLE_URL)).text();
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

/** An organization with something of everything, and the checks of each screen in one colour scheme. */
async function openScreens(colorScheme: "light" | "dark") {
  const { admin, organization: { id, token } } = await newAdmin("Analytical Engines");
  await newOrganization(admin, "Difference Engines");
  await createApiKey(admin, id, "A name as long as it may be ".repeat(4).slice(0, 100));
  await revokeApiKey(admin, await createApiKey(admin, id, "old"));
  for (let i = 0; i < 5; i++) await get(token);
  await writeEntries(
    id,
    Array.from({ length: 60 }, (_, n) => ({
      created_at: new Date(Date.now() - n * 2 * 3_600_000).toISOString(),
      action: n % 3 ? "message_created" as const : "agent_added" as const,
      user_email: n ? "ada@example.com" : `${"very.".repeat(12)}long@example.com`,
    })),
  );
  await runUpkeep(sql);
  await sql`
    update audit_log_private.sealed_days set altered_at = now()
    where organization_id = ${id}
      and day = (select min(day) from audit_log_private.sealed_days where organization_id = ${id})`;
  const { page, complaints: found } = await openConsole(null, "", {
    colorScheme,
    reducedMotion: "reduce",
  });
  assertEquals(
    await page.evaluate("getComputedStyle(document.body).colorScheme"),
    colorScheme,
  );
  return {
    page,
    admin,
    id,
    /** What is wrong, as far as it was checked. */
    found,
    button: (name: string | RegExp) => page.getByRole("button", { name }),
    /** Checks a state; what floats over the page is opened at each width anew. */
    check: async (name: string, open?: () => Promise<void>) => {
      // Colours change no widths, and a phone's cards have those of the table.
      for (const width of colorScheme === "light" ? WIDTHS : [1440]) {
        await page.setViewportSize({ width, height: 900 });
        if (open) {
          await page.keyboard.press("Escape");
          await open();
        }
        if (PICTURED.includes(width)) {
          await takePicture(page, `${name}-${colorScheme}-${width}`);
        }
        const pixels = await overflow(page);
        if (pixels > 0) found.push(`${name}: ${pixels} of ${width} pixels too wide`);
        // Between these, nothing else is shown.
        if (colorScheme === "light" && width > 320 && width < 1920) continue;
        for (const rule of await violations(page)) found.push(`${name} at ${width}: ${rule}`);
      }
    },
  };
}

for (const colorScheme of ["light", "dark"] as const) {
  describe(`in ${colorScheme} colours, for all (axe-core) and from 320 pixels on, is`, () => {
    it("signing in", async () => {
      const { page, admin, found, button, check } = await openScreens(colorScheme);
      await check("sign-in");
      await button("Forgot your password?").click();
      await page.getByLabel("E-mail").fill("nobody@example.com");
      await check("password-code");
      await button("Send code").click();
      await page.getByLabel("Code").waitFor();
      await check("password-new");
      await button("Back to sign-in").click();
      await page.getByLabel("E-mail").fill(admin.email);
      await page.getByLabel("Password", { exact: true }).fill("wrong");
      await button("Sign in").click();
      await page.getByText("E-mail or password is wrong.").waitFor();
      await check("sign-in-refused");
      await signIn(page, admin);
      await page.getByRole("heading", { name: "Log" }).waitFor();
      await page.goto(`${CONSOLE_URL}#/${crypto.randomUUID()}/log`);
      await page.getByText("You do not administer the organization in the address").waitFor();
      await check("not-administered");
      await button(admin.email).click();
      await page.getByRole("menuitem", { name: "Sign out", exact: true }).click();
      await signIn(page, await signUp());
      await page.getByText("Ask an administrator of your organization").waitFor();
      await check("nothing");
      assertEquals(found, []);
    });

    it("the log, in each state", async () => {
      const { page, admin, id, found, button, check } = await openScreens(colorScheme);
      await signIn(page, admin);
      await page.getByText("1–50 of").waitFor();
      await check("log");
      await check("organizations", async () => {
        await page.getByRole("combobox", { name: "Organization" }).click();
        await page.getByRole("option", { name: "Difference Engines" }).waitFor();
      });
      await check("account", async () => {
        await button(admin.email).click();
        await page.getByRole("menuitem", { name: "Sign out everywhere" }).waitFor();
      });
      await check("log-days", async () => {
        await button(/^Days/).click();
        await page.getByRole("button", { name: /^1 / }).first().waitFor();
      });
      await check("log-filter", async () => {
        await button("Filter").click();
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
      await button("Export").click();
      await page.getByRole("dialog", { name: "Export" }).getByText("CSV", { exact: true }).click();
      await check("log-export");
      await closeDialog(page);
      await button("Follow").click();
      await page.getByText("Following.").waitFor();
      await check("log-following");
      await button("Stop following").click();
      await page.context().setOffline(true);
      await button("Refresh").click();
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

    it("the keys and the seals, in each state", async () => {
      const { page, admin, found, button, check } = await openScreens(colorScheme);
      await signIn(page, admin);
      await goTo(page, "API keys");
      await row(page, "5 requests, 5 today").waitFor();
      await check("keys");
      await check("keys-menu", async () => {
        await row(page, "5 requests, 5 today").getByRole("button", { name: /^Actions/ }).click();
        await page.getByRole("menuitem", { name: "Rotate …" }).waitFor();
      });
      await page.getByRole("menuitem", { name: "Rotate …" }).click();
      await button("Rotate key").waitFor();
      await check("key-rotate");
      await closeDialog(page);
      await row(page, "5 requests, 5 today").getByRole("button", { name: /^Actions/ }).click();
      await page.getByRole("menuitem", { name: "Revoke …" }).click();
      await button("Revoke key").waitFor();
      await check("key-revoke");
      await closeDialog(page);
      await button("Create key").click();
      const name = page.getByRole("dialog").getByRole("textbox", { name: "Name" });
      await name.press("Enter");
      await page.getByText("A name is needed").waitFor();
      await check("key-create");
      await name.fill("SIEM");
      await name.press("Enter");
      await page.getByRole("group", { name: "Token" }).waitFor();
      await check("key-token");
      await page.evaluate("history.back()");
      await page.getByText("If you leave now").waitFor();
      await check("key-token-leaving");
      await button("Stay").click();
      await page.getByRole("checkbox").check();
      await button(/^Close$/).click();
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
}
