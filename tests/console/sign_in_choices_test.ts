// Needs a stack and a browser. Slow.

import { assertEquals } from "@std/assert";
import { beforeAll, describe, it } from "@std/testing/bdd";
import {
  buildVariant,
  CONSOLE_URL,
  newAdmin,
  openPage,
  type Page,
  storedSession,
  VARIANT_URL,
} from "../helpers/browser.ts";

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
