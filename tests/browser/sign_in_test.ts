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
  openConsole,
  openScreen,
  type Page,
  press,
  row,
  setVisibility,
  shows,
  signIn,
} from "./browser.ts";

async function signOut(page: Page, email: string, how = "Sign out"): Promise<void> {
  await press(page, email);
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
    await press(page, "Forgot your password?");
    await page.getByLabel("E-mail").fill(admin.email);
    await press(page, "Send code", `If ${admin.email} has an account`);
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
    await press(page, "Set password", "The code is wrong, or it has expired.");
    await page.getByLabel("Code").fill("123456");
    await press(page, "Set password");
    await signOut(page, admin.email);
    await signIn(page, { ...admin, password: "another password" });
  });

  it("again is asked for when the session has ended, and goes on where one was", async () => {
    const { page, admin } = await openScreen("seals");
    // The project's keys were changed: no token of before is good any more.
    await page.evaluate(`for (const [name, value] of Object.entries(localStorage)) {
      if (!name.endsWith("-auth-token")) continue;
      const session = JSON.parse(value);
      session.access_token += "x";
      session.refresh_token = "x";
      localStorage.setItem(name, JSON.stringify(session));
    }`);
    await page.reload();
    await shows(page, /^(Your session has ended|You were signed out)/);
    await signIn(page, admin);
    await page.getByRole("heading", { name: "Seals" }).waitFor();
  });
});

describe("signing out", () => {
  it("alone leaves the sessions of other browsers; everywhere ends them, and they tell why", async () => {
    const { admin } = await newAdmin();
    const here = await openConsole(null);
    await signIn(here.page, admin);
    const elsewhere = await openConsole(admin);
    await signOut(here.page, admin.email);
    const check = elsewhere.page.waitForResponse("**/auth/v1/user");
    await elsewhere.page.reload();
    assertEquals((await check).status(), 200);
    await signIn(here.page, admin);
    await signOut(here.page, admin.email, "Sign out everywhere");
    // Someone looks at the other one again.
    await setVisibility(elsewhere.page, "visible");
    await shows(elsewhere.page, "You were signed out elsewhere. Sign in again.");
    assertEquals(await keptSessions(elsewhere.page), []);
  });

  it("leaves nothing of the first person in any tab when another signs in", async () => {
    const { admin, organization: { id } } = await newAdmin("Of the first person");
    const { admin: next } = await newAdmin("Of the next");
    const { page } = await openConsole(admin, `#/${id}/keys`);
    await press(page, "Create key");
    const another = await page.context().newPage();
    await another.goto(CONSOLE_URL);
    await shows(another, "Of the first person");
    await signOut(another, admin.email);
    await shows(page, "Your session has ended. Sign in again.");
    await another.route("**/rest/v1/**", (route) => route.abort());
    await signIn(another, next);
    await shows(another, "No answer from the server");
    await shows(page, "You do not administer the organization in the address");
    for (const tab of [page, another]) {
      assert(!(await tab.content()).includes("Of the first person"));
    }
    assertEquals(await page.getByRole("dialog").count(), 0);
    await page.getByRole("link", { name: "Of the next" }).click();
    await shows(page, "No entries");
  });
});

describe("organizations", () => {
  it("a member is told whom to ask, and sees nothing of the organization but its name", async () => {
    const { organization } = await newAdmin("Analytical Engines");
    const member = await signUp();
    await addMember(organization.id, member, "member");
    const { page } = await openConsole(member, `#/${organization.id}/keys`);
    await shows(page, "Ask an administrator of Analytical Engines");
    assertEquals(await page.getByRole("navigation").count(), 0);
    assertEquals(await page.getByRole("main").getByRole("link").count(), 0);
  });

  it("the chosen one is remembered, and shows nothing of the one before", async () => {
    const { admin, organization: first } = await newAdmin("Analytical Engines");
    const second = await newOrganization(admin, "Difference Engines");
    await createApiKey(admin, second.id, "of the second");
    await writeEntries(first.id, [
      { created_at: new Date().toISOString(), agent_name: "of the first" },
    ]);
    const { page } = await openConsole(admin, `#/${first.id}/log`);
    await shows(page, "of the first");
    await page.route("**/rpc/read_audit_log", () => {});
    await chooseOrganization(page, "Difference Engines");
    await shows(page, "Loading entries");
    assert(!(await page.content()).includes("of the first"));
    // Another visit, without anything in the address.
    await page.goto("about:blank");
    await page.goto(CONSOLE_URL);
    await goTo(page, "API keys");
    await row(page, "of the second").waitFor();
  });

  it("shows nothing of one that the person does not administer, not even by its address", async () => {
    const { organization: other } = await newAdmin("The other one");
    const { admin, organization } = await newAdmin("One's own");
    await addMember(other.id, admin, "member");
    await writeEntries(other.id, [{ created_at: new Date().toISOString(), agent_name: "secret" }]);
    const { page } = await openConsole(admin);
    for (const screen of ["log", "keys", "access", "seals"]) {
      await page.goto(`${CONSOLE_URL}#/${other.id}/${screen}`);
      await shows(page, "You do not administer the organization in the address");
      assert(!/secret|The other one/.test(await page.content()));
    }
    await page.getByRole("link", { name: "One's own" }).click();
    await shows(page, "No entries");
    assert(page.url().includes(organization.id));
  });

  it("says so when one has ceased to be an administrator", async () => {
    const { page, organization: { id } } = await openScreen("log");
    await shows(page, "No entries");
    await client("service_role").from("organization_members").delete()
      .eq("organization_id", id).throwOnError();
    await goTo(page, "API keys");
    await shows(page, "You do not administer this organization any more.");
    await page.reload();
    await shows(page, "You administer no organization");
  });
});

describe("without a connection", () => {
  it("a banner says so, and goes away with what it was about", async () => {
    const { page, organization } = await openScreen("log");
    await shows(page, "No entries");
    await page.context().setOffline(true);
    await shows(page, "You are offline.");
    await goTo(page, "API keys");
    await shows(page, "No answer from the server");
    await page.context().setOffline(false);
    await page.getByText("You are offline.").waitFor({ state: "hidden" });
    await row(page, "test").waitFor();
    await page.getByText("No answer from the server").waitFor({ state: "hidden" });
    assertEquals((await get(organization.token)).status, 200);
  });

  it("a screen that got no answer is read again by itself", async () => {
    const { page } = await openScreen("log", undefined, {
      prepare: (page) =>
        page.route("**/rpc/read_audit_log", (route) => route.abort(), { times: 2 }),
    });
    await shows(page, "No answer from the server");
    await shows(page, "No entries");
    await page.getByText("No answer from the server").waitFor({ state: "hidden" });
  });

  it("a session that Auth cannot renew outlasts the outage", async () => {
    const { page } = await openScreen("log");
    await shows(page, "No entries");
    // It has expired in the meantime, and the server takes the expired token for none.
    await page.route("**/auth/v1/**", (route) => route.abort());
    const refusal = { code: "42501", message: "permission denied", details: null, hint: null };
    await page.route("**/rest/v1/**", (route) => route.fulfill({ status: 401, json: refusal }));
    await goTo(page, "API keys");
    await shows(page, "Your session could not be renewed");
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await press(page, "Try again");
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

  /** Follows each of these links in a tab of its own; the requests that the tabs sent. */
  async function follow(page: Page, look: (tab: Page, ending: string) => Promise<unknown>) {
    const calls: string[] = [];
    for (const ending of await endings()) {
      const tab = await page.context().newPage();
      tab.on("request", (request) => calls.push(`${request.method()} ${request.url()}`));
      await tab.goto(`${CONSOLE_URL}${ending}`);
      await look(tab, ending);
      await tab.close();
    }
    return calls;
  }

  it("signs nobody in, also beside a flow that has begun here", async () => {
    const { page } = await openConsole(null);
    const calls = await follow(page, async (tab, ending) => {
      await tab.getByRole("button", { name: "Sign in" }).waitFor();
      assertEquals(await tab.evaluate("localStorage.length"), 0, ending);
    });
    // How people sign in here, it may ask.
    const asked = calls.filter((call) => /\/(auth|rest)\/v1\/(?!settings$)/.test(call));
    assertEquals(asked, []);
    const verifier = "audit-log-console-auth-token-code-verifier";
    await page.evaluate(`localStorage.setItem("${verifier}", '"a-verifier"')`);
    const [withSession] = await endings();
    await page.goto("about:blank");
    const isAsked = page.waitForRequest(/\/auth\/v1\/(user|token)/, { timeout: 20_000 });
    await page.goto(`${CONSOLE_URL}${withSession}`);
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    const { admin } = await newAdmin();
    await signIn(page, admin);
    assert((await isAsked).url().includes("grant_type=password"));
  });

  it("signs nobody out or into another account, and neither makes nor revokes a key", async () => {
    const { page, admin, organization } = await openScreen("log");
    await shows(page, "No entries");
    const session = await page.evaluate("JSON.stringify({ ...localStorage })");
    const calls = await follow(page, async (tab, ending) => {
      await tab.getByRole("button", { name: admin.email }).waitFor();
      await tab.getByText(/No entries|You do not administer the organization/).first().waitFor();
      assertEquals(await tab.evaluate("JSON.stringify({ ...localStorage })"), session, ending);
      assert(!/The stranger's|has leaked/.test(await tab.content()), ending);
    });
    const changes = calls.filter((call) =>
      /\/auth\/v1\/|\/(create|revoke|rotate)_api_key/.test(call) && !/^GET .*\/user$/.test(call)
    );
    assertEquals(changes, []);
    assertEquals((await get(organization.token)).status, 200);
  });
});
