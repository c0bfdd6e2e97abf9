import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";

import { CONSOLE_URL, newAdmin, openConsole, openVariant, type Page, signIn } from "./browser.ts";

/** Lets Auth say that it knows these ways to sign in. */
async function withSettings(page: Page, external: Record<string, boolean>, saml_enabled = false) {
  await page.route(
    "**/auth/v1/settings",
    (route) => route.fulfill({ json: { external, saml_enabled } }),
  );
}

describe("the ways to sign in", () => {
  it("are those that the project's Auth knows", async () => {
    const { page } = await openConsole(null);
    await withSettings(page, { email: true, google: true, azure: true, github: false }, true);
    await page.reload();
    await page.getByRole("button", { name: "Continue with Google" }).waitFor();
    await page.getByRole("button", { name: "Continue with Microsoft" }).waitFor();
    await page.getByRole("button", { name: "Continue with single sign-on" }).waitFor();
    assertEquals(await page.getByRole("button", { name: "GitHub" }).count(), 0);
  });

  it("are narrowed by VITE_SIGN_IN", async () => {
    const { page } = await openVariant({ VITE_SIGN_IN: "code, google" }, {
      prepare: (page) => withSettings(page, { email: true, google: true, azure: true }, true),
    });
    await page.getByRole("button", { name: "Continue with Google" }).waitFor();
    await page.getByRole("button", { name: "Send code" }).waitFor();
    assertEquals(await page.getByRole("button", { name: /Microsoft|single sign-on/ }).count(), 0);
    assertEquals(await page.getByLabel("Password").count(), 0);
  });

  it("lead to a provider with a challenge, and a code of somebody else's flow signs nobody in", async () => {
    const { page } = await openConsole(null);
    await withSettings(page, { google: true });
    await page.reload();
    const asked: URL[] = [];
    await page.route("**/auth/v1/authorize**", (route) => {
      asked.push(new URL(route.request().url()));
      const back = asked[0]?.searchParams.get("redirect_to");
      return route.fulfill({ status: 302, headers: { location: `${back}?code=of-another` } });
    });
    await page.getByRole("button", { name: "Continue with Google" }).click();
    await page.getByText("The provider did not sign you in.").waitFor();
    assertEquals(asked[0]?.searchParams.get("code_challenge_method"), "s256");
    // Nothing of it stays in the address.
    assertEquals(page.url().replace(/#\/?$/, ""), CONSOLE_URL);
  });
});

describe("with VITE_AUTH_STORAGE_KEY", () => {
  it("the console has the session of the other application, and offers to end it here only", async () => {
    const { admin } = await newAdmin();
    const { data } = await admin.client.auth.getSession();
    const { page } = await openVariant({ VITE_AUTH_STORAGE_KEY: "sb-platform-auth-token" }, {
      prepare: async (page) => {
        await page.goto(`${CONSOLE_URL}icon.svg`);
        await page.evaluate(
          ([name, session]) => localStorage.setItem(String(name), String(session)),
          ["sb-platform-auth-token", JSON.stringify(data.session)],
        );
      },
    });
    await page.getByRole("button", { name: admin.email }).click();
    await page.getByRole("menuitem", { name: "Sign out", exact: true }).waitFor();
    assertEquals(await page.getByRole("menuitem", { name: "everywhere" }).count(), 0);
  });
});

describe("inside another page", () => {
  const PLATFORM = "http://platform.example";

  /** A page with the console in a frame, which answers it with a session. */
  async function openFramed(ancestor: string, token: string) {
    const opened = await openVariant(ancestor ? { VITE_FRAME_ANCESTOR: ancestor } : {}, {
      around: `${PLATFORM}/`,
      prepare: (page) =>
        page.route(`${PLATFORM}/`, (route) =>
          route.fulfill({
            contentType: "text/html",
            body: `<iframe src="${CONSOLE_URL}variant/" width=900 height=700></iframe><script>
              const frame = document.querySelector("iframe");
              const session = { type: "audit-log-console:session", access_token: "${token}" };
              addEventListener("message", ({ data, source }) => {
                window.said = data;
                source.postMessage(session, "*");
              });
              frame.addEventListener("load", () => frame.contentWindow.postMessage(session, "*"));
            </script>`,
          })),
    });
    return { ...opened, frame: opened.page.frameLocator("iframe") };
  }

  async function newToken() {
    const { admin } = await newAdmin("Framed");
    const { data } = await admin.client.auth.getSession();
    return { admin, token: data.session?.access_token ?? "" };
  }

  it("the console refuses, unless it is built for that page's origin", async () => {
    const { token } = await newToken();
    const { frame } = await openFramed("", token);
    await frame.getByText("does not open inside another page").waitFor();
  });

  it("of that origin, the console takes the session from it, and needs no storage", async () => {
    const { admin, token } = await newToken();
    const { frame } = await openFramed(PLATFORM, token);
    await frame.getByText("No entries").waitFor();
    await frame.getByText(admin.email).waitFor();
  });

  it("of another origin, the console takes nothing from it and tells it nothing", async () => {
    const { token } = await newToken();
    const { page, frame } = await openFramed("http://another.example", token);
    await frame.getByText("Loading your session from the page around this one").waitFor();
    assertEquals(await page.evaluate("window.said ?? null"), null);
  });
});

describe("a link with a session in it", () => {
  it("neither signs in nor is asked about, also beside a flow that has begun here", async () => {
    const { admin: stranger } = await newAdmin();
    const { data } = await stranger.client.auth.getSession();
    const { page } = await openConsole(null);
    await page.evaluate(
      `localStorage.setItem("audit-log-console-auth-token-code-verifier", '"a-verifier"')`,
    );
    const calls: string[] = [];
    page.on("request", (request) => calls.push(request.url()));
    await page.goto("about:blank");
    await page.goto(
      `${CONSOLE_URL}#access_token=${data.session?.access_token}&refresh_token=${data.session?.refresh_token}` +
        "&expires_in=3600&token_type=bearer",
    );
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assert(!calls.some((url) => /\/auth\/v1\/(user|token)/.test(url)), calls.join("\n"));
    const { admin } = await newAdmin();
    await signIn(page, admin);
  });
});
