import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PostgrestError } from "@supabase/supabase-js";
import jsQr from "npm:jsqr@1.4.0";
import { renderSVG } from "npm:uqr@0.1.2";
import { generateKeyPairSync } from "node:crypto";
import { supabaseAuthProgram } from "../../local/supabase_auth.ts";
import { startTemporaryStack, type TemporaryStack } from "../../local/temporary_stack.ts";
import { type Loopback, serveOnLoopback } from "../loopback.ts";
import { call, newOrganization, signUp } from "../people.ts";
import { totp } from "../totp.ts";
import { openPage, openScreen, type Page } from "./browser.ts";

// Tests what Supabase Lite cannot do: a provider, SAML, a second factor, and mails that are really sent.

if (supabaseAuthProgram()) {
  describe("with a Supabase Auth", test);
} else {
  console.log("Most of supabase_auth_test.ts is not run: SUPABASE_AUTH_BIN names no Supabase Auth");
}

/** The address of the person who has signed in at the provider. */
let atProvider = "";

/** Answers as a provider (OpenID Connect). */
function provide(request: Request): Response {
  const { pathname, searchParams } = new URL(request.url);
  if (pathname.endsWith("/auth")) {
    const back = new URL(searchParams.get("redirect_uri") ?? "");
    back.searchParams.set("code", "of-the-provider");
    back.searchParams.set("state", searchParams.get("state") ?? "");
    return Response.redirect(back);
  }
  if (pathname.endsWith("/token")) {
    return Response.json({ access_token: "token", token_type: "bearer" });
  }
  return Response.json({ sub: atProvider, email: atProvider, email_verified: true, name: "Ada" });
}

function test() {
  let stack: TemporaryStack;
  let provider: Loopback;
  beforeAll(async () => {
    provider = serveOnLoopback(provide);
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    stack = await startTemporaryStack({
      authSettings: {
        GOTRUE_EXTERNAL_KEYCLOAK_ENABLED: "true",
        GOTRUE_EXTERNAL_KEYCLOAK_CLIENT_ID: "console",
        GOTRUE_EXTERNAL_KEYCLOAK_SECRET: "secret",
        GOTRUE_EXTERNAL_KEYCLOAK_URL: provider.url,
        GOTRUE_SAML_ENABLED: "true",
        GOTRUE_SAML_PRIVATE_KEY: privateKey.export({ type: "pkcs1", format: "der" })
          .toString("base64"),
      },
    });
  });
  afterAll(async () => {
    await provider[Symbol.asyncDispose]();
    await stack[Symbol.asyncDispose]();
  });

  async function open() {
    const view = await openPage(`${stack.apiUrl}/`);
    await view.button("E-mail me a code instead").waitFor();
    return { view, page: view.page };
  }

  /** The code in the last mail to an address. */
  function mailed(email: string): string {
    const text = stack.mails.findLast(({ to }) => to === email)?.text ?? "";
    return text.match(/code: (\d{6})/)?.[1] ?? "";
  }

  it("a code from a mail signs in a person with an account, and makes no account for others", async () => {
    const { email } = await signUp(stack);
    for (const address of ["nobody@example.com", email]) {
      const { view, page } = await open();
      await view.press("E-mail me a code instead");
      await page.getByLabel("E-mail").fill(address);
      await view.press("Send code", `If ${address} has an account here`);
      if (address !== email) continue;
      await page.getByLabel("Code").fill("000000");
      await view.press("Sign in", "The code is wrong, or it has expired.");
      await page.getByLabel("Code").fill(mailed(email));
      await view.press("Sign in", "You may not read any organization");
    }
    assertEquals(mailed("nobody@example.com"), "");
  });

  it("a provider signs a person in, and the console shows the same screen again", async () => {
    const admin = await signUp(stack);
    const { id } = await newOrganization(admin, "Test", stack);
    atProvider = admin.email;
    const { view, page } = await open();
    await page.goto(`${stack.apiUrl}/#/${id}/seals`);
    await view.press("Continue with Keycloak");
    await page.getByRole("heading", { name: "Seals", level: 1 }).waitFor();
    await view.button(admin.email).waitFor();
    assertEquals(page.url(), `${stack.apiUrl}/#/${id}/seals`);
  });

  it("a domain leads to its identity provider (SAML), and an unknown domain is explained", async () => {
    const metadata = `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata"
      entityID="https://idp.example/"><IDPSSODescriptor
      protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><SingleSignOnService
      Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso"
      /></IDPSSODescriptor></EntityDescriptor>`;
    const made = await fetch(`${stack.apiUrl}/auth/v1/admin/sso/providers`, {
      method: "POST",
      headers: { apikey: stack.secretKey, Authorization: `Bearer ${stack.secretKey}` },
      body: JSON.stringify({ type: "saml", metadata_xml: metadata, domains: ["bank.example"] }),
    });
    assertEquals(made.status, 201, await made.text());
    const { view, page } = await open();
    await view.press("Continue with single sign-on");
    await page.getByLabel(/^Domain/).fill("nowhere.example");
    await view.press("Continue", "This domain has no identity provider.");
    const asked = Promise.withResolvers<string>();
    await page.route("https://idp.example/**", (route) => {
      asked.resolve(route.request().url());
      return route.fulfill({ body: "The identity provider" });
    });
    await page.getByLabel(/^Domain/).fill("ada@bank.example");
    await view.press("Continue");
    assert(new URL(await asked.promise).searchParams.has("SAMLRequest"));
  });

  it("a second factor can be added, is asked for from then on, and the database requires it", async () => {
    const admin = await signUp(stack);
    const { id: organization_id } = await newOrganization(admin, "Test", stack);
    const { view, page } = await open();
    await view.signIn(admin);
    await view.pressInMenu(admin.email, "Second factor …");
    await view.press("Add an app");
    const key = await page.getByRole("group", { name: "Key" }).innerText();
    await page.getByLabel("Code").fill(totp(key));
    await view.press(/^Add$/);
    await view.button("Remove").waitFor();
    await view.key("Escape");
    await view.signOut(admin.email);
    await view.signIn(admin, page.getByText("Type the code that your authenticator app shows"));
    const refused = () => call(admin, "list_api_keys", { organization_id });
    assertEquals((await assertRejects(refused, PostgrestError)).code, "42501");
    await page.getByLabel("Code").fill("000000");
    await view.press("Verify", "The code is wrong.");
    await page.getByLabel("Code").fill(totp(key));
    await view.press("Verify", "No entries");
  });
}

/** Scans a QR code as it is seen, and returns its text. */
async function scan(image: ReturnType<Page["getByRole"]>): Promise<string | undefined> {
  const picture = (await image.screenshot()).toString("base64");
  const [pixels, width, height] = await image.page().evaluate<[number[], number, number]>(
    `(async () => {
      const image = new Image();
      image.src = "data:image/png;base64,${picture}";
      await image.decode();
      const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
      context.drawImage(image, 0, 0);
      const { data, width, height } = context.getImageData(0, 0, image.width, image.height);
      return [Array.from(data), width, height];
    })()`,
  );
  // Not all apps read a code whose colours are inverted.
  const options = { inversionAttempts: "dontInvert" } as const;
  // A camera does not tell black from dark grey.
  const seen = Uint8ClampedArray.from(pixels, (value) => value < 128 ? 0 : 255);
  return jsQr.default(seen, width, height, options)?.data;
}

// Without a Supabase Auth, these are its answers.
describe("a second factor", () => {
  it("can be scanned on a light and on a dark page, and is removed by two presses, never by one", async () => {
    const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
    const factor = {
      id: "1",
      factor_type: "totp",
      status: "verified",
      friendly_name: "phone",
      created_at: "2026-01-01T00:00:00Z",
    };
    let factors = [factor];
    const { view, page, admin } = await openScreen("log");
    await page.route("**/auth/v1/user", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), factors } });
    });
    await page.route("**/auth/v1/factors**", async (route) => {
      if (route.request().method() === "DELETE") factors = [];
      const uri = `otpauth://totp/127.0.0.1:${admin.email}?issuer=127.0.0.1&secret=${secret}`;
      // As Auth draws it: black squares up to the edge, on nothing.
      const qr_code = renderSVG(uri, { border: 0, whiteColor: "transparent" });
      const totp = { qr_code, secret, uri };
      await route.fulfill({ json: { id: "2", type: "totp", totp } });
    });
    await view.pressInMenu(admin.email, "Second factor …");
    // The second press of a slip, where the first was, keeps it.
    await view.button("Remove").dblclick();
    assertEquals(factors.length, 1);
    await view.press("Remove");
    assertEquals(await view.focused(), "Keep it");
    await view.press("Keep it");
    await view.press("Remove");
    await view.press("Remove it for good", "You have no second factor yet.");
    await view.press("Add an app");
    const image = page.getByRole("img", { name: "The key as a QR code" });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
      assertStringIncludes(await scan(image) ?? "", `secret=${secret}`, colorScheme);
    }
    await view.close();
    assertEquals(await view.focused(), admin.email);
  });
});
