// Needs a stack and a browser. Slow.

import { assertEquals } from "@std/assert";
import { beforeAll, it } from "@std/testing/bdd";
import { buildVariant, CONSOLE_URL, newAdmin, openPage, type Page } from "../helpers/browser.ts";
import { storedSession, VARIANT_URL } from "../helpers/browser.ts";

const STORAGE_KEY = "sb-platform-auth-token";
let serveVariant: Awaited<ReturnType<typeof buildVariant>>;
beforeAll(async () => {
  serveVariant = await buildVariant({
    VITE_SIGN_IN: "code, google",
    VITE_AUTH_STORAGE_KEY: STORAGE_KEY,
  });
});

/** Makes Auth offer some ways to sign in, and serves the console that is built with other choices. */
async function prepare(page: Page): Promise<void> {
  const external = { email: true, google: true, azure: true, github: false };
  const json = { external, saml_enabled: true };
  await page.route("**/auth/v1/settings", (route) => route.fulfill({ json }));
  await serveVariant(page);
}

async function open(url: string) {
  const view = await openPage(url, { prepare });
  return { view, page: view.page };
}

it("the ways to sign in are those that Auth offers, and do not move the form when they come. The console sends a provider a challenge. A code from somebody else's sign-in signs nobody in", async () => {
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

it("the ways to sign in include a provider, after which the console shows the same screen again", async () => {
  const { admin, id } = await newAdmin();
  const { data } = await admin.client.auth.getSession();
  const { view, page } = await open(`${CONSOLE_URL}#/${id}/seals`);
  await page.route("**/auth/v1/authorize**", (route) => {
    const back = new URL(route.request().url()).searchParams.get("redirect_to");
    return route.fulfill({ status: 302, headers: { location: `${back}?code=of-the-provider` } });
  });
  await page.route("**/auth/v1/token?grant_type=pkce", (route) => {
    const { auth_code, code_verifier } = route.request().postDataJSON();
    assertEquals([auth_code, typeof code_verifier], ["of-the-provider", "string"]);
    return route.fulfill({ json: data.session });
  });
  await view.press("Continue with Google");
  await page.getByRole("heading", { name: "Integrity", level: 1 }).waitFor();
  await view.button(admin.email).waitFor();
  assertEquals(page.url(), `${CONSOLE_URL}#/${id}/seals`);
});

it("the ways to sign in include the identity provider of a domain (SAML). An unknown domain is explained", async () => {
  const { view, page } = await open(CONSOLE_URL);
  await page.route("**/auth/v1/sso", (route) => {
    const { domain, code_challenge_method } = route.request().postDataJSON();
    assertEquals(code_challenge_method, "s256");
    if (domain === "bank.example") {
      return route.fulfill({ json: { url: "https://idp.example/" } });
    }
    const json = { error_code: "sso_provider_not_found", message: "No SSO provider assigned" };
    return route.fulfill({ status: 404, json });
  });
  await page.route("https://idp.example/", (route) => route.fulfill({ body: "Their page" }));
  await view.press("Continue with single sign-on");
  await page.getByLabel(/^Domain/).fill("nowhere.example");
  await view.press("Continue", "This domain has no identity provider.");
  await page.getByLabel(/^Domain/).fill("ada@bank.example");
  await view.press("Continue", "Their page");
});

it("the ways to sign in are narrowed by VITE_SIGN_IN. With VITE_AUTH_STORAGE_KEY, the console has the session of the other application, and offers to end it here only", async () => {
  const { view, page } = await open(VARIANT_URL);
  await view.button("Continue with Google").waitFor();
  await view.button("Send code").waitFor();
  assertEquals(await view.button(/Microsoft|single sign-on/).count(), 0);
  assertEquals(await page.getByLabel("Password").count(), 0);
  const { admin } = await newAdmin();
  const storageState = await storedSession(admin, STORAGE_KEY);
  const signedIn = await openPage(VARIANT_URL, { prepare, storageState });
  await signedIn.press(admin.email);
  await signedIn.page.getByRole("menuitem", { name: "Sign out", exact: true }).waitFor();
  assertEquals(await signedIn.page.getByRole("menuitem", { name: "everywhere" }).count(), 0);
});
