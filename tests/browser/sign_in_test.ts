import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  addMember,
  client,
  createApiKey,
  get,
  newOrganization,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import {
  chooseOrganization,
  CONSOLE_URL,
  goTo,
  newAdmin,
  openAsAdmin,
  openConsole,
  type Page,
  row,
  setVisibility,
  signIn,
  today,
} from "./browser.ts";

async function signOut(page: Page, email: string, how = "Sign out"): Promise<void> {
  await page.getByRole("button", { name: email }).click();
  await page.getByRole("menuitem", { name: how, exact: true }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
}

/** Names of what the browser keeps of a session. */
function keptSessions(page: Page): Promise<string[]> {
  return page.evaluate(`Object.keys(localStorage).filter((name) => name.endsWith("-auth-token"))`);
}

describe("signing in", () => {
  it("takes the first press, right after the page has loaded, and lasts until one signs out", async () => {
    const { admin } = await newAdmin();
    const { page } = await openConsole(null);
    await page.goto(CONSOLE_URL, { waitUntil: "commit" });
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByLabel("Password", { exact: true }).fill(admin.password);
    const box = await page.getByRole("button", { name: "Sign in" }).boundingBox();
    // Not click(), which waits until nothing moves.
    if (box) await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await page.getByRole("button", { name: admin.email }).waitFor();
    await page.reload();
    await signOut(page, admin.email);
    await page.reload();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assertEquals(await keptSessions(page), []);
  });

  it("with a forgotten password takes a new one, by the code that was sent", async () => {
    const { admin } = await newAdmin();
    const { page } = await openConsole(null);
    await page.getByRole("button", { name: "Forgot your password?" }).click();
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByRole("button", { name: "Send code" }).click();
    await page.getByText(`If ${admin.email} has an account`).waitFor();
    // As Auth keeps a code, GoTrue and Supabase Lite each in its way; the message goes nowhere here.
    await sql`
      update auth.users
      set recovery_token = substring(recovery_token from '^pkce_|') || encode(
        case length(substring(recovery_token from '[^_]*$'))
          when 56 then sha224(convert_to(${admin.email} || '123456', 'UTF8'))
          else sha256(convert_to(${admin.email} || '123456', 'UTF8'))
        end, 'hex')
      where id = ${admin.id}`;
    await page.getByLabel("Code").fill("654321");
    await page.getByLabel("New password", { exact: true }).fill("another password");
    await page.getByRole("button", { name: "Set password" }).click();
    await page.getByText("The code is wrong, or it has expired.").waitFor();
    await page.getByLabel("Code").fill("123456");
    await page.getByRole("button", { name: "Set password" }).click();
    await page.getByRole("button", { name: admin.email }).waitFor();
    await signOut(page, admin.email);
    await signIn(page, { ...admin, password: "another password" });
  });

  it("shows nothing of the person who was signed in before", async () => {
    const { page, admin } = await openAsAdmin("Of the first person");
    const { admin: next } = await newAdmin();
    await page.getByText("Of the first person").first().waitFor();
    await signOut(page, admin.email);
    await page.route("**/rest/v1/**", (route) => route.abort());
    await signIn(page, next);
    await page.getByText("No answer from the server").waitFor();
    assert(!(await page.content()).includes("Of the first person"));
  });

  it("again is asked for when the session has ended, and goes on where one was", async () => {
    const { page, admin } = await openAsAdmin();
    await goTo(page, "Seals");
    // The project's keys were changed: no token of before is good any more.
    await page.evaluate(`for (const [name, value] of Object.entries(localStorage)) {
      if (!name.endsWith("-auth-token")) continue;
      const session = JSON.parse(value);
      session.access_token += "x";
      session.refresh_token = "x";
      localStorage.setItem(name, JSON.stringify(session));
    }`);
    await page.reload();
    await page.getByText(/^(Your session has ended|You were signed out)/).waitFor();
    await signIn(page, admin);
    await page.getByRole("heading", { name: "Seals" }).waitFor();
  });
});

describe("signing out", () => {
  it("alone leaves the sessions of other browsers; everywhere ends them, and they tell why", async () => {
    const { admin } = await newAdmin();
    const here = await openConsole(admin);
    const elsewhere = await openConsole(admin);
    await signOut(here.page, admin.email);
    const check = elsewhere.page.waitForResponse("**/auth/v1/user");
    await elsewhere.page.reload();
    assertEquals((await check).status(), 200);
    await signIn(here.page, admin);
    await signOut(here.page, admin.email, "Sign out everywhere");
    // Someone looks at the other one again.
    await setVisibility(elsewhere.page, "visible");
    await elsewhere.page.getByText("You were signed out elsewhere. Sign in again.").waitFor();
    assertEquals(await keptSessions(elsewhere.page), []);
  });

  it("and another person in, in one tab, leaves nothing of the first in the other", async () => {
    const { page, admin } = await openAsAdmin("Of the first person");
    const { admin: next } = await newAdmin("Of the next");
    await goTo(page, "API keys");
    await row(page, "test").waitFor();
    await page.getByRole("button", { name: "Create key" }).click();
    const another = await page.context().newPage();
    await another.goto(CONSOLE_URL);
    await signOut(another, admin.email);
    await page.getByText("Your session has ended. Sign in again.").waitFor();
    await signIn(another, next);
    await page.getByRole("button", { name: next.email }).waitFor();
    await page.getByText("You do not administer the organization in the address").waitFor();
    assert(!(await page.content()).includes("Of the first person"));
    assertEquals(await page.getByRole("dialog").count(), 0);
    await page.getByRole("link", { name: "Of the next" }).click();
    await page.getByText("No entries").waitFor();
  });
});

describe("organizations", () => {
  it("a member is told whom to ask, and sees nothing of the organization but its name", async () => {
    const { organization } = await newAdmin("Analytical Engines");
    const member = await signUp();
    await addMember(organization.id, member, "member");
    const { page } = await openConsole(member, `#/${organization.id}/keys`);
    await page.getByText("Ask an administrator of Analytical Engines").waitFor();
    assertEquals(await page.getByRole("navigation").count(), 0);
    assertEquals(await page.getByRole("main").getByRole("link").count(), 0);
  });

  it("one chooses among several, and the choice is remembered", async () => {
    const { admin } = await newAdmin("Analytical Engines");
    const second = await newOrganization(admin, "Difference Engines");
    await createApiKey(admin, second.id, "of the second");
    const { page } = await openConsole(admin);
    await chooseOrganization(page, "Difference Engines");
    await goTo(page, "API keys");
    await row(page, "of the second").waitFor();
    // Another visit, without anything in the address.
    await page.goto("about:blank");
    await page.goto(CONSOLE_URL);
    await goTo(page, "API keys");
    await row(page, "of the second").waitFor();
  });

  it("shows nothing of the organization before while the log of the next is read", async () => {
    const { admin } = await newAdmin();
    const first = await newOrganization(admin, "Difference Engines");
    await writeEntries(first.id, [
      { created_at: new Date().toISOString(), agent_name: "of the first" },
    ]);
    const { page } = await openConsole(admin);
    await page.getByText("of the first").waitFor();
    await page.route("**/rpc/read_audit_log", () => {});
    await chooseOrganization(page, "Test");
    await page.getByText("Loading entries").waitFor();
    assert(!(await page.content()).includes("of the first"));
  });

  it("shows nothing of one that the person does not administer, not even by its address", async () => {
    const { organization: other } = await newAdmin("The other one");
    const { admin, organization } = await newAdmin("One's own");
    await addMember(other.id, admin, "member");
    await writeEntries(other.id, [{ created_at: new Date().toISOString(), agent_name: "secret" }]);
    const { page } = await openConsole(admin);
    for (const screen of ["log", "keys", "access", "seals"]) {
      await page.goto(`${CONSOLE_URL}#/${other.id}/${screen}`);
      await page.getByText("You do not administer the organization in the address").waitFor();
      assert(!/secret|The other one/.test(await page.content()));
    }
    await page.getByRole("link", { name: "One's own" }).click();
    await page.getByText("No entries").waitFor();
    assert(page.url().includes(organization.id));
  });

  it("says so when one has ceased to be an administrator", async () => {
    const { page, organization: { id } } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    await client("service_role").from("organization_members").delete()
      .eq("organization_id", id).throwOnError();
    await goTo(page, "API keys");
    await page.getByText("You do not administer this organization any more.").waitFor();
    await page.reload();
    await page.getByText("You administer no organization").waitFor();
  });
});

describe("without a connection", () => {
  it("a banner says so, and goes away with what it was about", async () => {
    const { page, organization } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    await page.context().setOffline(true);
    await page.getByText("You are offline.").waitFor();
    await goTo(page, "API keys");
    await page.getByText("No answer from the server").waitFor();
    await page.context().setOffline(false);
    await page.getByText("You are offline.").waitFor({ state: "hidden" });
    await row(page, "test").waitFor();
    await page.getByText("No answer from the server").waitFor({ state: "hidden" });
    assertEquals((await get(organization.token)).status, 200);
  });

  it("a screen that got no answer is read again by itself", async () => {
    const { page } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    await page.route("**/rpc/read_audit_log", (route) => route.abort(), { times: 2 });
    await page.reload();
    await page.getByText("No answer from the server").waitFor();
    await page.getByText("No entries").waitFor();
    await page.getByText("No answer from the server").waitFor({ state: "hidden" });
  });

  it("a session that Auth cannot renew outlasts the outage", async () => {
    const { page } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    // It has expired in the meantime, and the server takes the expired token for none.
    await page.route("**/auth/v1/**", (route) => route.abort());
    await page.route("**/rest/v1/**", (route) =>
      route.fulfill({
        status: 401,
        json: { code: "42501", message: "permission denied", details: null, hint: null },
      }));
    await goTo(page, "API keys");
    await page.getByText("Your session could not be renewed").waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.getByRole("button", { name: "Try again" }).click();
    await row(page, "test").waitFor();
  });
});

describe("a link to the console", () => {
  /** What ends an address in which Auth, a stranger or an earlier version might say something. */
  async function endings(): Promise<string[]> {
    const { admin: stranger, organization } = await newAdmin("The stranger's");
    const { data } = await stranger.client.auth.getSession();
    const session = new URLSearchParams({
      access_token: data.session?.access_token ?? "",
      refresh_token: data.session?.refresh_token ?? "",
      expires_in: "3600",
      token_type: "bearer",
    });
    return [
      `#${session}`,
      `#${session}&type=magiclink`,
      `#${session}&type=recovery`,
      `?${session}`,
      `#/${organization.id}/keys?${session}`,
      `?code=${crypto.randomUUID()}`,
      `?token_hash=${"0".repeat(56)}&type=magiclink`,
      "#error=access_denied&error_code=otp_expired&error_description=Your+key+has+leaked",
      `#/${organization.id}/create_api_key?name=x`,
      "#/../../auth/v1/logout",
      "#__proto__/constructor",
    ];
  }

  it("signs nobody in", async () => {
    const { page } = await openConsole(null);
    const calls: string[] = [];
    page.on("request", (request) => {
      // How people sign in here, it may ask.
      if (request.url().endsWith("/auth/v1/settings")) return;
      if (/\/(auth|rest)\/v1\//.test(request.url())) calls.push(request.url());
    });
    for (const ending of await endings()) {
      await page.goto("about:blank");
      await page.goto(`${CONSOLE_URL}${ending}`);
      await page.getByRole("button", { name: "Sign in" }).waitFor();
      assertEquals(await page.evaluate("localStorage.length"), 0, ending);
    }
    assertEquals(calls, []);
  });

  it("signs nobody out or into another account, and neither makes nor revokes a key", async () => {
    const { page, admin, organization } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    const session = await page.evaluate("JSON.stringify({ ...localStorage })");
    const calls: string[] = [];
    page.on("request", (request) => {
      const isCheck = request.url().endsWith("/auth/v1/user") && request.method() === "GET";
      if (/\/auth\/v1\/|\/(create|revoke|rotate)_api_key/.test(request.url()) && !isCheck) {
        calls.push(request.url());
      }
    });
    for (const ending of await endings()) {
      await page.goto("about:blank");
      await page.goto(`${CONSOLE_URL}${ending}`);
      await page.getByRole("button", { name: admin.email }).waitFor();
      await page.getByText(/No entries|You do not administer the organization/).first().waitFor();
      assertEquals(await page.evaluate("JSON.stringify({ ...localStorage })"), session, ending);
      assert(!(await page.content()).includes("The stranger's"), ending);
      assert(!(await page.content()).includes("has leaked"), ending);
    }
    assertEquals(calls, []);
    assertEquals((await get(organization.token, `start=${today()}&end=${today()}`)).status, 200);
  });
});
