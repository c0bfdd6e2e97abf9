import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { Buffer } from "node:buffer";
import { buildConsole, type ServeConsole } from "../../local/console.ts";
import { API_URL, PUBLISHABLE_KEY } from "../helpers.ts";
import {
  CONSOLE_URL,
  newAdmin,
  openConsole,
  openPage,
  type Page,
  type PageOptions,
  press,
  storedSession,
} from "./browser.ts";

/** Lets Auth say that it knows these ways to sign in. */
function withSettings(external: Record<string, boolean>, saml_enabled = false): PageOptions {
  const json = { external, saml_enabled };
  return {
    prepare: (page) => page.route("**/auth/v1/settings", (route) => route.fulfill({ json })),
  };
}

/** The consoles that were built with other choices: each build takes seconds. */
const variants = new Map<string, Promise<ServeConsole>>();

async function buildVariant(choices: Record<string, string>): Promise<ServeConsole> {
  const outDir = await Deno.makeTempDir();
  const project = { apiUrl: API_URL, publishableKey: PUBLISHABLE_KEY };
  const serve = await buildConsole({ ...project, outDir, choices });
  await Deno.remove(outDir, { recursive: true });
  return serve;
}

/** Opens the console as it is built with other choices, or a page that has it in a frame. */
async function openVariant(
  choices: Record<string, string>,
  { prepare, ...options }: PageOptions = {},
  url = `${CONSOLE_URL}variant/`,
) {
  const name = JSON.stringify(choices);
  const building = variants.get(name) ?? buildVariant(choices);
  variants.set(name, building);
  const serve = await building;
  async function serveVariant(page: Page) {
    await page.route(`${CONSOLE_URL}variant/**`, async (route) => {
      const response = serve(new URL(route.request().url()).pathname.slice("/variant".length));
      if (!response) return route.fulfill({ status: 404 });
      await route.fulfill({
        contentType: response.headers.get("Content-Type") ?? "",
        body: Buffer.from(await response.arrayBuffer()),
      });
    });
    await prepare?.(page);
  }
  return await openPage(url, { ...options, prepare: serveVariant });
}

const NARROWED = {
  VITE_SIGN_IN: "code, google",
  VITE_AUTH_STORAGE_KEY: "sb-platform-auth-token",
};

describe("the ways to sign in", () => {
  it("are those that the project's Auth knows", async () => {
    const settings = { email: true, google: true, azure: true, github: false };
    const { page } = await openConsole(null, "", withSettings(settings, true));
    for (const way of ["Google", "Microsoft", "single sign-on"]) {
      await page.getByRole("button", { name: `Continue with ${way}` }).waitFor();
    }
    assertEquals(await page.getByRole("button", { name: "GitHub" }).count(), 0);
  });

  it("are narrowed by VITE_SIGN_IN", async () => {
    const settings = { email: true, google: true, azure: true };
    const { page } = await openVariant(NARROWED, withSettings(settings, true));
    await page.getByRole("button", { name: "Continue with Google" }).waitFor();
    await page.getByRole("button", { name: "Send code" }).waitFor();
    assertEquals(await page.getByRole("button", { name: /Microsoft|single sign-on/ }).count(), 0);
    assertEquals(await page.getByLabel("Password").count(), 0);
  });

  it("lead to a provider with a challenge, and a code of somebody else's flow signs nobody in", async () => {
    const { page } = await openConsole(null, "", withSettings({ google: true }));
    const asked: URL[] = [];
    await page.route("**/auth/v1/authorize**", (route) => {
      asked.push(new URL(route.request().url()));
      const back = asked[0]?.searchParams.get("redirect_to");
      return route.fulfill({ status: 302, headers: { location: `${back}?code=of-another` } });
    });
    await press(page, "Continue with Google", "The provider did not sign you in.");
    assertEquals(asked[0]?.searchParams.get("code_challenge_method"), "s256");
    // Nothing of it stays in the address.
    assertEquals(page.url().replace(/#\/?$/, ""), CONSOLE_URL);
  });
});

describe("with VITE_AUTH_STORAGE_KEY", () => {
  it("the console has the session of the other application, and offers to end it here only", async () => {
    const { admin } = await newAdmin();
    const { page } = await openVariant(NARROWED, {
      storageState: await storedSession(admin, NARROWED.VITE_AUTH_STORAGE_KEY),
    });
    await press(page, admin.email);
    await page.getByRole("menuitem", { name: "Sign out", exact: true }).waitFor();
    assertEquals(await page.getByRole("menuitem", { name: "everywhere" }).count(), 0);
  });
});

describe("inside another page", () => {
  const PLATFORM = "http://platform.example";
  const FRAMED = { VITE_FRAME_ANCESTOR: PLATFORM };

  /** Opens a page with the console in a frame, which answers the console with a person's session. */
  async function openFramed(choices: Record<string, string>, origin: string) {
    const { admin } = await newAdmin();
    const { data } = await admin.client.auth.getSession();
    const body = `<iframe src="${CONSOLE_URL}variant/" width=900 height=700></iframe><script>
      const frame = document.querySelector("iframe");
      const access_token = "${data.session?.access_token}";
      const session = { type: "audit-log-console:session", access_token };
      addEventListener("message", ({ data, source }) => {
        window.said = data;
        source.postMessage(session, "*");
      });
      frame.addEventListener("load", () => frame.contentWindow.postMessage(session, "*"));
    </script>`;
    const { page } = await openVariant(choices, {
      prepare: (page) =>
        page.route(`${origin}/`, (route) => route.fulfill({ contentType: "text/html", body })),
    }, `${origin}/`);
    return { admin, page, frame: page.frameLocator("iframe") };
  }

  it("the console refuses, unless it is built for that page's origin", async () => {
    const { frame } = await openFramed(NARROWED, PLATFORM);
    await frame.getByText("does not open inside another page").waitFor();
  });

  it("of that origin, the console takes the session from it, and needs no storage", async () => {
    const { admin, frame } = await openFramed(FRAMED, PLATFORM);
    await frame.getByText("No entries").waitFor();
    await frame.getByText(admin.email).waitFor();
  });

  it("of another origin, the console takes nothing from it and tells it nothing", async () => {
    const { page, frame } = await openFramed(FRAMED, "http://another.example");
    await frame.getByText("Loading your session from the page around this one").waitFor();
    assertEquals(await page.evaluate("window.said ?? null"), null);
  });
});
