// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PostgrestError } from "@supabase/supabase-js";
import { generateKeyPairSync } from "node:crypto";
import { supabaseAuthProgram } from "../../dev/local/supabase_auth.ts";
import { startTemporaryStack, type TemporaryStack } from "../../dev/local/temporary_stack.ts";
import { type Loopback, serveOnLoopback } from "../helpers/loopback.ts";
import { call, newOrganization, signUp } from "../helpers/people.ts";
import { totp } from "../helpers/totp.ts";
import { newAdmin, openConsole, openPage } from "../helpers/browser.ts";

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
    await page.getByRole("heading", { name: "Integrity", level: 1 }).waitFor();
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

  it("a second factor is asked for, and the database requires it", async () => {
    const admin = await signUp(stack);
    const { id: organization_id } = await newOrganization(admin, "Test", stack);
    const { mfa } = admin.client.auth;
    const enrolled = await mfa.enroll({ factorType: "totp" });
    if (enrolled.error) throw enrolled.error;
    const { id: factorId, totp: { secret } } = enrolled.data;
    const verified = await mfa.challengeAndVerify({ factorId, code: totp(secret) });
    assertEquals(verified.error, null);
    assertEquals((await admin.client.auth.signInWithPassword(admin)).error, null);
    const { view, page } = await open();
    await view.signIn(admin, page.getByText("Type the code that your authenticator app shows"));
    const refused = () => call(admin, "list_api_keys", { organization_id });
    assertEquals((await assertRejects(refused, PostgrestError)).code, "42501");
    await page.getByLabel("Code").fill("000000");
    await view.press("Verify", "The code is wrong.");
    await page.getByLabel("Code").fill(totp(secret));
    await view.press("Verify", "No entries");
  });
}

// Without a Supabase Auth, these are its answers.
describe("a second factor", () => {
  it("is asked for before anything is read, in an accessible form that explains a wrong code", async () => {
    const { admin } = await newAdmin();
    const factor = { id: "1", factor_type: "totp", status: "verified", friendly_name: "phone" };
    const view = await openConsole(null);
    const { page } = view;
    await page.route("**/auth/v1/token**", async (route) => {
      const response = await route.fetch();
      const { user, ...session } = await response.json();
      await route.fulfill({
        response,
        json: { ...session, user: { ...user, factors: [factor] } },
      });
    });
    await page.route(
      "**/auth/v1/factors/1/challenge",
      (route) => route.fulfill({ json: { id: "2", type: "totp", expires_at: 4102444800 } }),
    );
    await page.route("**/auth/v1/factors/1/verify", (route) => {
      const json = { error_code: "mfa_verification_failed", message: "Invalid TOTP code entered" };
      return route.fulfill({ status: 422, json });
    });
    const calls = view.recordCalls();
    await view.signIn(admin, page.getByText("Type the code that your authenticator app shows"));
    await page.getByLabel("Code").fill("000000");
    await view.press("Verify", "The code is wrong.");
    await view.assertAccessible("second-factor");
    await page.reload();
    await page.getByLabel("Code").waitFor();
    assertEquals(calls, []);
    await view.press("Sign in as somebody else");
    await view.button("Sign in").waitFor();
  });
});
