import { assert, assertEquals } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { createHmac, generateKeyPairSync } from "node:crypto";
import postgres from "postgres";
import { hasSupabaseAuth } from "../../local/supabase_auth.ts";
import { startTemporaryStack, type TemporaryStack } from "../../local/temporary_stack.ts";
import { openPage } from "./browser.ts";

// Tests what Supabase Lite cannot do: a provider, SAML, a second factor, and mails that are really sent.

const PASSWORD = "correct-horse-battery";

if (await hasSupabaseAuth()) {
  describe("with a Supabase Auth", test);
} else {
  console.log("supabase_auth_test.ts is not run: no Supabase Auth on the PATH");
}

/** Starts a provider (OpenID Connect) that signs everybody in as the person of this address. */
function startProvider(email: () => string): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
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
    return Response.json({ sub: email(), email: email(), email_verified: true, name: "Ada" });
  });
}

/** The code of a TOTP key (RFC 6238) in base32, as of now. */
function totp(key: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...key].map((c) => alphabet.indexOf(c).toString(2).padStart(5, "0")).join("");
  const bytes = bits.match(/.{8}/g)?.map((byte) => parseInt(byte, 2)) ?? [];
  const counter = new DataView(new ArrayBuffer(8));
  counter.setBigUint64(0, BigInt(Math.floor(Date.now() / 30_000)));
  const hash = createHmac("sha1", new Uint8Array(bytes)).update(new Uint8Array(counter.buffer))
    .digest();
  const value = hash.readUInt32BE((hash.at(-1) ?? 0) & 15) & 0x7fffffff;
  return String(value % 1_000_000).padStart(6, "0");
}

function test() {
  let stack: TemporaryStack;
  let provider: Deno.HttpServer<Deno.NetAddr>;
  let atProvider = "";
  beforeAll(async () => {
    provider = startProvider(() => atProvider);
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    stack = await startTemporaryStack({
      authSettings: {
        GOTRUE_EXTERNAL_KEYCLOAK_ENABLED: "true",
        GOTRUE_EXTERNAL_KEYCLOAK_CLIENT_ID: "console",
        GOTRUE_EXTERNAL_KEYCLOAK_SECRET: "secret",
        GOTRUE_EXTERNAL_KEYCLOAK_URL: `http://127.0.0.1:${provider.addr.port}`,
        GOTRUE_SAML_ENABLED: "true",
        GOTRUE_SAML_PRIVATE_KEY: privateKey.export({ type: "pkcs1", format: "der" })
          .toString("base64"),
      },
    });
  });
  afterAll(async () => {
    await provider.shutdown();
    await stack[Symbol.asyncDispose]();
  });

  async function post(path: string, key: string, body: unknown): Promise<Response> {
    return await fetch(`${stack.apiUrl}${path}`, {
      method: "POST",
      headers: {
        apikey: stack.publishableKey,
        Authorization: `Bearer ${key}`,
        "Content-Type": "application/json",
        "Content-Profile": "audit_log",
      },
      body: JSON.stringify(body),
    });
  }

  /** A person who administers an organization of their own. */
  async function newAdmin() {
    const email = `${crypto.randomUUID()}@example.com`;
    const account = { email, password: PASSWORD };
    const answer = await post("/auth/v1/signup", stack.publishableKey, account);
    const { user: { id } } = await answer.json();
    const sql = postgres(stack.databaseUrl, { max: 1 });
    const [member] = await sql`
      with organization as (insert into audit_log.organizations (name) values ('Test') returning id)
      insert into audit_log.organization_members (organization_id, user_id, role)
      select id, ${id}, 'admin' from organization returning organization_id`;
    await sql.end();
    return { email, organizationId: String(member?.["organization_id"]) };
  }

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
    const { email } = await newAdmin();
    for (const address of ["nobody@example.com", email]) {
      const { view, page } = await open();
      await view.press("E-mail me a code instead");
      await page.getByLabel("E-mail").fill(address);
      await view.press("Send code", `If ${address} has an account here`);
      if (address !== email) continue;
      await page.getByLabel("Code").fill("000000");
      await view.press("Sign in", "The code is wrong, or it has expired.");
      await page.getByLabel("Code").fill(mailed(email));
      await view.press("Sign in", "No entries");
    }
    assertEquals(mailed("nobody@example.com"), "");
  });

  it("a provider signs a person in, and the console shows the same screen again", async () => {
    const { email, organizationId } = await newAdmin();
    atProvider = email;
    const { view, page } = await open();
    await page.goto(`${stack.apiUrl}/#/${organizationId}/seals`);
    await view.press("Continue with Keycloak");
    await page.getByRole("heading", { name: "Seals", level: 1 }).waitFor();
    await view.button(email).waitFor();
    assertEquals(page.url(), `${stack.apiUrl}/#/${organizationId}/seals`);
  });

  it("a domain leads to its identity provider (SAML), and an unknown domain is explained", async () => {
    const metadata = `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata"
      entityID="https://idp.example/"><IDPSSODescriptor
      protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><SingleSignOnService
      Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso"
      /></IDPSSODescriptor></EntityDescriptor>`;
    const made = await post("/auth/v1/admin/sso/providers", stack.secretKey, {
      type: "saml",
      metadata_xml: metadata,
      domains: ["bank.example"],
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
    const { email, organizationId } = await newAdmin();
    const { view, page } = await open();
    await view.sendPassword({ email, password: PASSWORD });
    await view.press(email);
    await page.getByRole("menuitem", { name: "Second factor" }).click();
    await view.press("Add an app");
    await page.getByRole("img", { name: "The key as a QR code" }).waitFor();
    const key = await page.getByRole("group", { name: "Key" }).innerText();
    await page.getByLabel("Code").fill(totp(key));
    await view.press(/^Add$/);
    await view.button("Remove").waitFor();
    await view.key("Escape");
    await view.signOut(email);
    await view.sendPassword({ email, password: PASSWORD });
    await view.shows("Type the code that your authenticator app shows");
    const token = await page.evaluate<string>(
      `JSON.parse(localStorage.getItem("audit-log-console-auth-token")).access_token`,
    );
    const organization = { organization_id: organizationId };
    const refused = await post("/rest/v1/rpc/list_api_keys", token, organization);
    assertEquals((await refused.json()).code, "42501");
    await page.getByLabel("Code").fill("000000");
    await view.press("Verify", "The code is wrong.");
    await page.getByLabel("Code").fill(totp(key));
    await view.press("Verify", "No entries");
  });
}
