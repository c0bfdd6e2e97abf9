import { assertEquals } from "@std/assert";
import { beforeAll, describe, it } from "@std/testing/bdd";
import { Buffer } from "node:buffer";
import { buildConsole, type ServeConsole } from "../../local/console.ts";
import { API_URL, PUBLISHABLE_KEY } from "../helpers.ts";
import {
  CONSOLE_URL,
  newAdmin,
  openConsole,
  openPage,
  type Page,
  storedSession,
  type ViewOptions,
} from "./browser.ts";

/** Lets Auth offer these ways to sign in. */
function withSettings(external: Record<string, boolean>, saml_enabled = false): ViewOptions {
  const json = { external, saml_enabled };
  return {
    prepare: (page) => page.route("**/auth/v1/settings", (route) => route.fulfill({ json })),
  };
}

const STORAGE_KEY = "sb-platform-auth-token";
const PLATFORM = "http://platform.example";

let narrowed: ServeConsole;
let framed: ServeConsole;
beforeAll(async () => {
  narrowed = await build({ VITE_SIGN_IN: "code, google", VITE_AUTH_STORAGE_KEY: STORAGE_KEY });
  framed = await build({ VITE_FRAME_ANCESTOR: PLATFORM });
});

async function build(choices: Record<string, string>): Promise<ServeConsole> {
  const outDir = await Deno.makeTempDir();
  const project = { apiUrl: API_URL, publishableKey: PUBLISHABLE_KEY };
  const serve = await buildConsole({ ...project, outDir, choices });
  await Deno.remove(outDir, { recursive: true });
  return serve;
}

/** Opens a console that was built with other choices, or a page that has it in a frame. */
async function openVariant(
  serve: ServeConsole,
  { prepare, ...options }: ViewOptions = {},
  url = `${CONSOLE_URL}variant/`,
) {
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

describe("the ways to sign in", () => {
  it("are those that the project's Auth offers", async () => {
    const settings = { email: true, google: true, azure: true, github: false };
    const view = await openConsole(null, "", withSettings(settings, true));
    for (const way of ["Google", "Microsoft", "single sign-on"]) {
      await view.button(`Continue with ${way}`).waitFor();
    }
    assertEquals(await view.button("GitHub").count(), 0);
  });

  it("are narrowed by VITE_SIGN_IN", async () => {
    const settings = { email: true, google: true, azure: true };
    const view = await openVariant(narrowed, withSettings(settings, true));
    await view.button("Continue with Google").waitFor();
    await view.button("Send code").waitFor();
    assertEquals(await view.button(/Microsoft|single sign-on/).count(), 0);
    assertEquals(await view.page.getByLabel("Password").count(), 0);
  });

  it("lead to a provider with a challenge, and a code of somebody else's flow signs nobody in", async () => {
    const view = await openConsole(null, "", withSettings({ google: true }));
    const asked: URL[] = [];
    await view.page.route("**/auth/v1/authorize**", (route) => {
      asked.push(new URL(route.request().url()));
      const back = asked[0]?.searchParams.get("redirect_to");
      return route.fulfill({ status: 302, headers: { location: `${back}?code=of-another` } });
    });
    await view.press("Continue with Google", "The provider did not sign you in.");
    assertEquals(asked[0]?.searchParams.get("code_challenge_method"), "s256");
    // The answer does not stay in the address.
    assertEquals(view.page.url().replace(/#\/?$/, ""), CONSOLE_URL);
  });
});

describe("with VITE_AUTH_STORAGE_KEY", () => {
  it("the console has the session of the other application, and offers to end it here only", async () => {
    const { admin } = await newAdmin();
    const view = await openVariant(narrowed, {
      storageState: await storedSession(admin, STORAGE_KEY),
    });
    await view.press(admin.email);
    await view.page.getByRole("menuitem", { name: "Sign out", exact: true }).waitFor();
    assertEquals(await view.page.getByRole("menuitem", { name: "everywhere" }).count(), 0);
  });
});

describe("inside another page", () => {
  /** Opens a page with the console in a frame, which answers the console with a person's session. */
  async function openFramed(serve: ServeConsole, origin: string) {
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
    const { page } = await openVariant(serve, {
      prepare: (page) =>
        page.route(`${origin}/`, (route) => route.fulfill({ contentType: "text/html", body })),
    }, `${origin}/`);
    return { admin, page, frame: page.frameLocator("iframe") };
  }

  it("the console refuses, unless it is built for that page's origin", async () => {
    const { frame } = await openFramed(narrowed, PLATFORM);
    await frame.getByText("does not open inside another page").waitFor();
  });

  it("of that origin, the console takes the session from it, and needs no storage", async () => {
    const { admin, frame } = await openFramed(framed, PLATFORM);
    await frame.getByText("No entries").waitFor();
    await frame.getByText(admin.email).waitFor();
  });

  it("of another origin, the console takes nothing from it and tells it nothing", async () => {
    const { page, frame } = await openFramed(framed, "http://another.example");
    await frame.getByText("Loading your session from the page around this one").waitFor();
    assertEquals(await page.evaluate("window.said ?? null"), null);
  });
});
