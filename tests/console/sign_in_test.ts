// Needs a stack and a browser. Slow.

import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { serveOnLoopback } from "../helpers/loopback.ts";
import { addMember, API_URL, CONSOLE_URL, createApiKey, get } from "../helpers/browser.ts";
import { insertEntries, newAdmin, newOrganization, openConsole } from "../helpers/browser.ts";
import { openPage, openScreen, type Page, type Person, runUpkeep } from "../helpers/browser.ts";
import { SESSION, sql, until, View, writeEntries } from "../helpers/browser.ts";

/** As after a change of the project's keys, which makes all older tokens invalid. */
async function endSession(page: Page): Promise<void> {
  await page.evaluate(`localStorage["${SESSION}"] =
    localStorage["${SESSION}"].replaceAll(/("(access|refresh)_token":")/g, "$1x")`);
}

/** Plants the code 123456 as Auth stores it, GoTrue and Supabase Lite each in its way. The message goes nowhere here. */
async function plantCode({ id, email }: Person): Promise<void> {
  await sql`
    update auth.users
    set recovery_token = substring(recovery_token from '^pkce_|') || encode(
      case length(substring(recovery_token from '[^_]*$'))
        when 56 then sha224(convert_to(${email} || '123456', 'UTF8'))
        else sha256(convert_to(${email} || '123456', 'UTF8'))
      end, 'hex')
    where id = ${id}`;
}

describe("signing in", () => {
  it("works at the first press after the page has loaded. The session survives a reload, and lasts until the person signs out. If it ends by itself, the next sign-in leads back to the same screen", async () => {
    const { admin } = await newAdmin();
    const view = await openConsole(null);
    const { page } = view;
    await page.goto(CONSOLE_URL, { waitUntil: "commit" });
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByLabel("Password", { exact: true }).fill(admin.password);
    const box = await view.button("Sign in").boundingBox();
    // click() would wait until nothing moves.
    if (box) await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await view.goTo("Integrity");
    await endSession(page);
    await page.reload();
    await view.shows(/^(Your session has ended|You were signed out)/);
    await view.signIn(admin);
    await page.getByRole("heading", { name: "Integrity" }).waitFor();
    await page.reload();
    await view.signOut(admin.email);
    await page.reload();
    await view.button("Sign in").waitFor();
    assertEquals(await view.session(), null);
  });

  it("works where the console is on another port than the API", async () => {
    const { admin } = await newAdmin();
    await using host = serveOnLoopback(({ url }) =>
      fetch(CONSOLE_URL + new URL(url).pathname.slice(1))
    );
    const view = await openPage(`${host.url}/`);
    await view.signIn(admin);
    await view.goTo("Integrity");
    await view.signOut(admin.email);
    assertEquals([...view.origins].toSorted(), [API_URL, host.url].toSorted());
    assertEquals(view.complaints, []);
  });

  it("works with a new password after the person has set it with the code that was sent, in accessible steps", async () => {
    const { admin } = await newAdmin();
    const view = await openConsole(null);
    await view.assertAccessible("sign-in");
    await view.page.getByLabel("E-mail").fill(admin.email);
    await view.press("Forgot your password?");
    await view.assertAccessible("password-code");
    // What was typed before is kept.
    assertEquals(await view.page.getByLabel("E-mail").inputValue(), admin.email);
    await view.press("Send code", `If ${admin.email} has an account`);
    await view.press("Send another code");
    const again = view.page.waitForRequest("**/auth/v1/recover**");
    await view.press("Send code", new RegExp(`If ${admin.email} has|too many attempts`));
    assertEquals((await again).postDataJSON().email, admin.email);
    await plantCode(admin);
    await view.page.getByLabel("Code").fill("654321");
    await view.page.getByLabel("New password", { exact: true }).fill("another password");
    await view.press("Set password", "The code is wrong, or it has expired.");
    await view.assertAccessible("password-new");
    await view.page.getByLabel("Code").fill("123456");
    await view.press("Set password");
    await view.signOut(admin.email);
    await view.signIn(admin, view.page.getByText("E-mail or password is wrong."));
    await view.assertAccessible("sign-in-refused");
    await view.signIn({ ...admin, password: "another password" });
  });
});

it("a session that ends by itself is renewed by a sign-in over the screen, whose forms keep all that was typed", async () => {
  const { view, page, admin, id } = await openScreen("log", async ({ id }) => {
    await insertEntries(sql, id, "2026-03-01", 1);
    await runUpkeep(sql);
  });
  const field = (name: string | RegExp) => page.getByRole("textbox", { name }).last();
  const forms: [screen: string, type: () => Promise<void>, typed: () => Promise<string>][] = [
    ["keys", async () => {
      await view.openMenu("test", "Rotate …");
      await view.choose("The old key expires", "In 24 hours");
    }, () => page.getByLabel("The old key expires").inputValue()],
    ["seals", async () => {
      await view.press("Check a saved seal");
      await field("Saved seal").fill("1:");
    }, () => field("Saved seal").inputValue()],
    ["log", async () => {
      await view.press("Export");
      await page.getByText("CSV", { exact: true }).click();
    }, () => page.getByRole("dialog").getByRole("button").last().innerText()],
    ["streams/new", async () => {
      await page.getByRole("radio", { name: "Splunk" }).check();
      await page.getByLabel(/^Address of/).fill("https://splunk.example.com");
    }, () => page.getByLabel(/^Address of/).inputValue()],
  ];
  for (const [screen, type, typed] of forms) {
    await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
    await type();
    const before = await typed();
    await endSession(page);
    // A check that is under way still has the old tokens.
    await until(async () => {
      await view.setVisibility("visible");
      return await page.getByText(/^(Your session has ended|You were signed out)/).isVisible();
    });
    assertEquals(await page.getByRole("main").count(), 1);
    await view.signIn(admin);
    assertEquals(await typed(), before, screen);
    await page.reload();
  }
  await view.goTo("Access");
  await view.press("Create key");
  await field("Name").fill("SIEM");
  await endSession(page);
  await view.key("Enter");
  await view.signIn(admin);
  await field("Name").press("Enter");
  await view.shows("The token is shown only once.");
});

it("signing in with a code from a message works for a person with an account, and makes no account for others", async () => {
  const { admin } = await newAdmin();
  const stranger = `${crypto.randomUUID()}@example.com`;
  for (const email of [stranger, admin.email]) {
    const view = await openConsole(null);
    const { page } = view;
    await view.press("E-mail me a code instead");
    await page.getByLabel("E-mail").fill(email);
    await view.press("Send code", `If ${email} has an account here`);
    if (email === stranger) continue;
    await plantCode(admin);
    await page.getByLabel("Code").fill("654321");
    await view.press("Sign in", "The code is wrong, or it has expired.");
    await page.getByLabel("Code").fill("123456");
    await view.press("Sign in", "No entries");
  }
  assertEquals((await sql`select from auth.users where email = ${stranger}`).length, 0);
});

// Supabase Lite has none: these are the answers of Supabase Auth.
it("a second factor is asked for before anything is read, in an accessible form that explains a wrong code", async () => {
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

describe("signing out, from an accessible menu", () => {
  it("ends the session of this browser only. Signing out everywhere ends all, and the other browsers say why and make no key", async () => {
    const { admin, id } = await newAdmin();
    const here = await openConsole(null);
    await here.signIn(admin);
    await here.assertAccessible("account", () => here.press(admin.email, "Sign out everywhere"));
    await here.key("Escape");
    const elsewhere = await openConsole(admin, `#/${id}/keys`);
    const third = await openConsole(admin, `#/${id}/keys`);
    await here.signOut(admin.email);
    const check = elsewhere.page.waitForResponse("**/auth/v1/user");
    await elsewhere.page.reload();
    assertEquals((await check).status(), 200);
    await here.signIn(admin);
    await here.signOut(admin.email, "Sign out everywhere");
    // A person looks at the other browser again.
    await elsewhere.setVisibility("visible");
    await elsewhere.shows("You were signed out elsewhere. Sign in again.");
    assertEquals(await elsewhere.session(), null);
    // A browser that was open all the time makes no key, although its token has not expired.
    await third.press("Create key");
    await third.page.getByRole("dialog").getByLabel("Name").fill("after the end");
    await third.key("Enter");
    await third.shows("You were signed out elsewhere. Sign in again.");
    const keys = await sql`
      select name from audit_log_private.api_keys where organization_id = ${id}`;
    assertEquals([...keys], [{ name: "test" }]);
  });

  it("leaves nothing of the first person in any tab when another signs in", async () => {
    const { admin, id } = await newAdmin("Of the first person");
    const { admin: next } = await newAdmin("Of the next");
    const first = await openConsole(admin, `#/${id}/keys`);
    await first.press("Create key");
    const second = new View(await first.page.context().newPage());
    await second.page.goto(CONSOLE_URL);
    await second.shows("Of the first person");
    await second.signOut(admin.email);
    await first.shows("Your session has ended. Sign in again.");
    await second.page.route("**/rest/v1/**", (route) => route.abort());
    await second.signIn(next);
    await second.shows("No answer from the server");
    await first.shows("You may not read the organization in the address");
    for (const { page } of [first, second]) {
      assert(!(await page.content()).includes("Of the first person"));
    }
    assertEquals(await first.page.getByRole("dialog").count(), 0);
    await first.page.getByRole("link", { name: "Open one that you may read" }).click();
    await first.shows("No entries");
  });
});

describe("organizations, accessible in each state", () => {
  it("the console opens the one chosen last, and shows nothing of the one before or of one that the person may not read, but gives them a request to send", async () => {
    const { admin, id: first } = await newAdmin("Analytical Engines");
    const second = await newOrganization(admin, "Difference Engines");
    const { id: other } = await newAdmin("The other one");
    await addMember(other, admin, "member");
    await createApiKey(admin, second.id, "of the second");
    const created_at = new Date().toISOString();
    await writeEntries(first, [{ created_at, agent_name: "of the first" }]);
    await writeEntries(other, [{ created_at, agent_name: "secret" }]);
    const view = await openConsole(admin, `#/${first}/log`);
    const { page } = view;
    await view.shows("of the first");
    await page.route("**/rpc/read_audit_log", () => {});
    await view.choose("Organization", "Difference Engines");
    await view.shows("Loading entries");
    assert(!(await page.content()).includes("of the first"));
    // Another visit, without anything in the address.
    await page.goto("about:blank");
    await page.goto(CONSOLE_URL);
    await view.goTo("Access");
    await view.row("of the second").waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.goto(`${CONSOLE_URL}#/${other}/keys`);
    await view.shows("Ask an administrator of it, or whoever sent you the link");
    assert(!/secret|The other one/.test(await page.content()));
    await view.assertAccessible("not-administered");
    assertEquals(
      await view.copy("a request to send"),
      `Please let ${admin.email} read the audit log of organization ${other}: ${CONSOLE_URL}`,
    );
    await page.getByRole("link", { name: "Open one that you may read" }).click();
    await view.goTo("Access");
    await view.row("of the second").waitFor();
  });

  it("a person who becomes a member is told so and whom to ask, and then sees only the organization's name", async () => {
    const { view, page, id } = await openScreen("log");
    await view.shows("No entries");
    await sql`
      update audit_log.organization_members set role = 'member' where organization_id = ${id}`;
    await view.goTo("Access");
    await view.shows("You may not do this in the organization any more.");
    await page.reload();
    await view.shows("You may not read any organization's log. Ask an administrator of Test");
    assertEquals(await page.getByRole("navigation").count(), 0);
    assertEquals(await page.getByRole("main").getByRole("link").count(), 0);
    await view.assertAccessible("nothing");
    await sql`delete from audit_log.organization_members where organization_id = ${id}`;
    await page.reload();
    await view.shows("Ask an administrator of your organization");
  });
});

describe("without a connection", () => {
  it("an accessible message stays, and no form can be sent, until the connection is back, and screens are read again by themselves", async () => {
    const { view, page } = await openScreen("log", undefined, {
      prepare: (page) =>
        page.route("**/rpc/read_audit_log", (route) => route.abort(), { times: 2 }),
    });
    const noAnswer = page.getByText("No answer from the server");
    await noAnswer.waitFor();
    await view.shows("No entries");
    await noAnswer.waitFor({ state: "hidden" });
    // A link that has the focus loads its screen.
    const loaded = page.waitForResponse("**/assets/keys_and_streams-*.js");
    await page.getByRole("link", { name: "Access" }).focus();
    await (await loaded).finished();
    await page.context().setOffline(true);
    await view.goTo("Access");
    await noAnswer.waitFor();
    await view.assertAccessible("offline");
    await page.context().setOffline(false);
    await view.row("test").waitFor();
    await noAnswer.waitFor({ state: "hidden" });
    await view.press("Create key");
    await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill("SIEM");
    await page.context().setOffline(true);
    assert(await view.button("You are offline").isDisabled());
    await view.close();
    await view.shows("You are offline. What you see was read before");
    await view.assertAccessible("offline-read");
    await page.context().setOffline(false);
    await page.getByText("You are offline.").waitFor({ state: "hidden" });
  });

  it("a session that Auth cannot renew outlasts the outage", async () => {
    const { view, page } = await openScreen("log");
    await view.shows("No entries");
    // The session expires during an outage of Auth, and the server refuses its token.
    await page.route("**/auth/v1/**", (route) => route.abort());
    const refusal = { code: "42501", message: "permission denied", details: null, hint: null };
    await page.route("**/rest/v1/**", (route) => route.fulfill({ status: 401, json: refusal }));
    await view.goTo("Access");
    await view.shows("The server did not renew your session");
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await view.press("Try again");
    await view.row("test").waitFor();
  });
});

describe("a link to the console", () => {
  /** Endings of an address that look like messages of Auth, a stranger or an earlier version. */
  async function endings(): Promise<string[]> {
    const { admin: stranger, id } = await newAdmin("The stranger's");
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
      `#/${id}/keys?${session}`,
      `?code=${crypto.randomUUID()}`,
      `?token_hash=${"0".repeat(56)}&type=magiclink`,
      "#error=access_denied&error_code=otp_expired&error_description=Your+key+has+leaked",
      `#/${id}/create_api_key?name=x`,
      "#/../../auth/v1/logout",
      "#__proto__/constructor",
    ];
  }

  it("signs nobody in, also when a sign-in has begun in this browser", async () => {
    const view = await openConsole(null);
    const { page } = view;
    const calls = await follow(page, (tab) => tab.button("Sign in").waitFor());
    // It may ask for the ways to sign in.
    assertEquals(calls.filter((call) => /\/(auth|rest)\/v1\/(?!settings$)/.test(call)), []);
    await page.evaluate(`localStorage.setItem("${SESSION}-code-verifier", '"a-verifier"')`);
    const [withSession] = await endings();
    await page.goto("about:blank");
    const isAsked = page.waitForRequest(/\/auth\/v1\/(user|token)/, { timeout: 20_000 });
    await page.goto(`${CONSOLE_URL}${withSession}`);
    const { admin } = await newAdmin();
    await view.signIn(admin);
    assert((await isAsked).url().includes("grant_type=password"));
  });

  it("signs nobody out or into another account, and neither makes nor revokes a key", async () => {
    const { view, page, admin, token } = await openScreen("log");
    await view.shows("No entries");
    const calls = await follow(page, async (tab) => {
      await tab.button(admin.email).waitFor();
      await tab.page.getByText(/No entries|You may not read the organization/).first().waitFor();
    });
    const changes =
      /(?<!GET .*)\/auth\/v1\/user|\/auth\/v1\/(?!user$)|\/(create|revoke|rotate)_api_key/;
    assertEquals(calls.filter((call) => changes.test(call)), []);
    assertEquals((await get(token)).status, 200);
  });

  /** Follows each of these links in a tab of its own, which stores nothing. Returns the requests of all tabs. */
  async function follow(page: Page, look: (tab: View) => Promise<unknown>): Promise<string[]> {
    const calls: string[] = [];
    const stored = "JSON.stringify({ ...localStorage })";
    const before = await page.evaluate(stored);
    for (const ending of await endings()) {
      const tab = new View(await page.context().newPage());
      tab.page.on("request", (request) => calls.push(`${request.method()} ${request.url()}`));
      await tab.page.goto(`${CONSOLE_URL}${ending}`);
      await look(tab);
      assertEquals(await tab.page.evaluate(stored), before, ending);
      assert(!/The stranger's|has leaked/.test(await tab.page.content()), ending);
      await tab.page.close();
    }
    return calls;
  }
});
