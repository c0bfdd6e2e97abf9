import { assertEquals, assertStringIncludes } from "@std/assert";
import { beforeAll, describe, it } from "@std/testing/bdd";
import {
  buildVariant,
  CONSOLE_URL,
  newAdmin,
  openPage,
  type Page,
  storedSession,
  VARIANT_URL,
} from "./browser.ts";

const STORAGE_KEY = "sb-platform-auth-token";
const PLATFORM = "https://platform.example";
let serveVariant: Awaited<ReturnType<typeof buildVariant>>;
beforeAll(async () => {
  serveVariant = await buildVariant({
    VITE_SIGN_IN: "code, google",
    VITE_AUTH_STORAGE_KEY: STORAGE_KEY,
    VITE_FRAME_ANCESTOR: PLATFORM,
  });
});

/** Makes Auth offer some ways to sign in, and serves the console that is built with other choices. */
async function prepare(page: Page): Promise<void> {
  const external = { email: true, google: true, azure: true, github: false };
  const json = { external, saml_enabled: true };
  await page.route("**/auth/v1/settings", (route) => route.fulfill({ json }));
  await serveVariant(page);
}

describe("the ways to sign in", () => {
  it("are those that Auth offers, and do not move the form when they come. The console sends a provider a challenge. A code from somebody else's sign-in signs nobody in", async () => {
    const asked = Promise.withResolvers<void>();
    const view = await openPage(CONSOLE_URL, {
      prepare: async (page) => {
        await prepare(page);
        await page.route("**/auth/v1/settings", async (route) => {
          await asked.promise;
          await route.fallback();
        });
      },
    });
    const field = view.page.getByLabel("Password", { exact: true });
    const before = await field.boundingBox();
    asked.resolve();
    for (const way of ["Google", "Microsoft", "single sign-on"]) {
      await view.button(`Continue with ${way}`).waitFor();
    }
    assertEquals(await field.boundingBox(), before);
    assertEquals(await view.button("GitHub").count(), 0);
    await view.page.route("**/auth/v1/authorize**", (route) => {
      const { searchParams } = new URL(route.request().url());
      assertEquals(searchParams.get("code_challenge_method"), "s256");
      const location = `${searchParams.get("redirect_to")}?code=of-another`;
      return route.fulfill({ status: 302, headers: { location } });
    });
    await view.press("Continue with Google", "The provider did not sign you in.");
    // The answer does not stay in the address.
    assertEquals(view.page.url().replace(/#\/?$/, ""), CONSOLE_URL);
  });

  it("are narrowed by VITE_SIGN_IN", async () => {
    const view = await openPage(VARIANT_URL, { prepare });
    await view.button("Continue with Google").waitFor();
    await view.button("Send code").waitFor();
    assertEquals(await view.button(/Microsoft|single sign-on/).count(), 0);
    assertEquals(await view.page.getByLabel("Password").count(), 0);
  });
});

describe("with VITE_AUTH_STORAGE_KEY", () => {
  it("the console has the session of the other application, and offers to end it here only", async () => {
    const { admin } = await newAdmin();
    const storageState = await storedSession(admin, STORAGE_KEY);
    const view = await openPage(VARIANT_URL, { prepare, storageState });
    await view.press(admin.email);
    await view.page.getByRole("menuitem", { name: "Sign out", exact: true }).waitFor();
    assertEquals(await view.page.getByRole("menuitem", { name: "everywhere" }).count(), 0);
  });
});

describe("the console in a frame", () => {
  function openSite(url: string, body: string) {
    return openPage(url, {
      prepare: async (page) => {
        await page.route(url, (route) => route.fulfill({ contentType: "text/html", body }));
        // Removes the header that keeps other pages from framing the console.
        await page.route(CONSOLE_URL, async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, headers: { "Content-Type": "text/html" } });
        });
        await prepare(page);
      },
    });
  }

  /**
   * Opens a page of another origin with the console in a frame. It sends the console a person's session, or this
   * token first.
   */
  async function openFramed(consoleUrl: string, origin: string, wrongToken?: string) {
    const { admin } = await newAdmin();
    const { data } = await admin.client.auth.getSession();
    const body = `<iframe src="${consoleUrl}" width=900 height=700></iframe><script>
      const frame = document.querySelector("iframe");
      const tokens = ${JSON.stringify([wrongToken, data.session?.access_token])}.filter(Boolean);
      function send() {
        const access_token = tokens.length > 1 ? tokens.shift() : tokens[0];
        frame.contentWindow.postMessage({ type: "audit-log-console:session", access_token }, "*");
      }
      addEventListener("message", ({ data }) => {
        window.said = data;
        send();
      });
      if (${!wrongToken}) frame.addEventListener("load", send);
    </script>`;
    const { page } = await openSite(`${origin}/`, body);
    return { admin, page, frame: page.frameLocator("iframe") };
  }

  it("takes the session from a page of that origin and says if it is not valid, needs no storage, exports a file, and shows what it may not copy, selected", async () => {
    const header = btoa(JSON.stringify({ alg: "HS256", typ: "JWT" }));
    const wrong = `${header}.${btoa('{"exp":4102444800}').replaceAll("=", "")}.${"x".repeat(43)}`;
    const { page, frame } = await openFramed(VARIANT_URL, PLATFORM, wrong);
    await frame.getByText("a session that has ended or is not valid").waitFor();
    await frame.getByRole("button", { name: "Try again" }).click();
    await frame.getByText("No entries").waitFor();
    await frame.getByRole("button", { name: "Copy link" }).click();
    const field = frame.getByLabel("The browser refused. Copy this:");
    const link = await field.inputValue();
    assertStringIncludes(link, `${VARIANT_URL}#/`);
    const selected = await field.evaluate((field) => String(field.ownerDocument.getSelection()));
    assertEquals(selected, link);
    await frame.getByRole("button", { name: "Export" }).click();
    const download = page.waitForEvent("download");
    await frame.getByRole("button", { name: "Export NDJSON" }).click();
    assertStringIncludes((await download).suggestedFilename(), "audit-log_");
  });

  it("is a part of the page that docs/operating.md shows: tabs of chosen screens, copies that work, and links to that page", async () => {
    const { admin, id } = await newAdmin();
    const { data: { session } } = await admin.client.auth.getSession();
    const guide = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
    const example = guide.match(/```html\n(<iframe.*?)```/s)?.[1] ?? "";
    const body = `<script>
      const ORGANIZATION_ID = "${id}";
      const data = ${JSON.stringify({ session })};
      const supabase = { auth: { getSession: async () => ({ data }), onAuthStateChange() {} } };
    </script>${example.replace("https://console.example.com/", VARIANT_URL)}`;
    const settings = `${PLATFORM}/settings`;
    const { page } = await openSite(settings, body);
    const frame = page.frameLocator("iframe");
    await frame.getByText("No entries").waitFor();
    assertEquals(await frame.getByRole("link").allInnerTexts(), ["Log", "Seals"]);
    assertEquals(await frame.getByRole("banner").count(), 0);
    assertEquals(await frame.getByText(admin.email).count(), 0);
    await frame.getByRole("link", { name: "Seals" }).click();
    await frame.getByText("Nothing to seal").waitFor();
    await page.waitForURL(`${settings}#/${id}/seals`);
    const deep = `${settings}#/${id}/log?start=2026-03-01&end=2026-03-02`;
    await page.evaluate(`location.href = "${deep}"`);
    await frame.getByText("2026-03-01 – 2026-03-02").waitFor();
    await page.reload();
    await frame.getByText("2026-03-01 – 2026-03-02").waitFor();
    await frame.getByRole("button", { name: "Copy link" }).click();
    await frame.getByText("Copied").waitFor();
    assertEquals(await page.evaluate("navigator.clipboard.readText()"), deep);
    await frame.locator("html").evaluate((_, address) => location.hash = address, `#/${id}/keys`);
    await page.waitForURL(`${settings}#/${id}/log`);
  });

  it("says after ten seconds that the page around it gives no session, and asks it again", async () => {
    const body = `<iframe src="${VARIANT_URL}"></iframe>
      <script>addEventListener("message", () => window.asked = (window.asked ?? 0) + 1)</script>`;
    const { page } = await openSite(`${PLATFORM}/`, body);
    const frame = page.frameLocator("iframe");
    await frame.getByText("The page around this one gives no session.").waitFor();
    assertEquals(await page.evaluate("window.asked"), 1);
    await frame.getByRole("button", { name: "Try again" }).click();
    await frame.getByText("Loading your session").waitFor();
    await page.waitForFunction("window.asked === 2");
  });

  it("does not open unless it was built for the origin of a page around it, takes nothing from another, and tells it nothing", async () => {
    const { frame: refused } = await openFramed(CONSOLE_URL, PLATFORM);
    await refused.getByText("does not open inside another page").waitFor();
    const { page, frame } = await openFramed(VARIANT_URL, "http://another.example");
    await frame.getByText("Loading your session from the page around this one").waitFor();
    assertEquals(await page.evaluate("window.said ?? null"), null);
  });
});
