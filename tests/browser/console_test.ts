import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type { Page } from "playwright-core";
import {
  age,
  client,
  connect,
  createApiKey,
  get,
  getProblem,
  listApiKeys,
  newOrganization,
  type Person,
  revokeApiKey,
  signUp,
  writeEntries,
} from "../helpers.ts";
import {
  CONSOLE_URL,
  launch,
  openConsole,
  overflow,
  signIn,
  takePicture,
  violations,
  WIDTHS,
} from "./browser.ts";

const sql = connect();
const browser = await launch();
afterAll(async () => {
  await browser.close();
  await sql.end();
});

/** A person who administers one organization of their own. */
async function newAdmin(organizationName?: string) {
  const admin = await signUp();
  return { admin, organization: await newOrganization(admin, organizationName) };
}

async function join(person: Person, organizationId: string, role: "admin" | "member") {
  await client("service_role").from("organization_members")
    .insert({ organization_id: organizationId, user_id: person.id, role }).throwOnError();
}

/** Creates a key in the console; its token, while it is shown. */
async function createInConsole(page: Page, name: string): Promise<string> {
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("textbox", { name: /^Name/ }).fill(name);
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
  return await page.getByRole("group", { name: "Token" }).innerText();
}

function closeToken(page: Page): Promise<void> {
  return page.getByRole("button", { name: "I have stored it: close" }).click();
}

/** The row of a key, or of an entry, by something that it shows. */
function row(page: Page, text: string) {
  return page.getByRole("row").filter({ hasText: text });
}

/** Everything that the page could have kept a token in. */
async function traces(page: Page): Promise<string> {
  return await page.evaluate<string>(
    `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state,
      document.cookie, document.documentElement.outerHTML])`,
  );
}

/** Runs a command as somebody who has pasted it into a shell. */
async function shell(command: string, env: Record<string, string> = {}) {
  const { stdout } = await new Deno.Command("bash", { args: ["-c", `${command} -s`], env })
    .output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

describe("signing in", () => {
  it("lasts over a reload, until one signs out", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.reload();
    await page.getByText(admin.email).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Password").waitFor();
    await page.reload();
    await page.getByLabel("Password").waitFor();
    assertEquals(await page.evaluate("localStorage.length"), 0);
  });

  it("with a wrong password says so, and the right one still works", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, null);
    const { page } = opened;
    await page.getByLabel("E-mail").fill(admin.email);
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("E-mail or password is wrong.").waitFor();
    await signIn(page, admin);
  });

  it("tells someone who administers nothing whom to ask", async () => {
    await using opened = await openConsole(browser, await signUp());
    await opened.page.getByText("Ask an administrator of your organization").waitFor();
  });

  it("tells a member whom to ask, and shows nothing of the organization but its name", async () => {
    const { organization } = await newAdmin("Analytical Engines");
    const member = await signUp();
    await join(member, organization.id, "member");
    await using opened = await openConsole(browser, member);
    const { page } = opened;
    await page.goto(`${CONSOLE_URL}#/${organization.id}/keys`);
    await page.getByText("Ask an administrator of Analytical Engines").waitFor();
    assertEquals(await page.getByRole("link").count(), 0);
  });

  it("leads to the organizations that one administers, not to those one only belongs to", async () => {
    const { organization: other } = await newAdmin("Analytical Engines");
    const { admin } = await newAdmin("Difference Engines");
    await join(admin, other.id, "member");
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.goto(`${CONSOLE_URL}#/${other.id}/keys`);
    await page.getByText("in the address. This is Difference Engines.").waitFor();
    assert(!(await page.content()).includes("Analytical Engines"));
  });

  it("lets one choose among several organizations, and keeps the choice over a reload", async () => {
    const { admin } = await newAdmin("Analytical Engines");
    const second = await newOrganization(admin, "Difference Engines");
    await createApiKey(admin, second.id, "of the second");
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("button", { name: /Analytical Engines/ }).click();
    await page.getByRole("option", { name: "Difference Engines" }).click();
    await row(page, "of the second").waitFor();
    await page.reload();
    await row(page, "of the second").waitFor();
  });

  it("shows nothing of another organization, not even by its address", async () => {
    const { organization: other } = await newAdmin();
    const { admin, organization } = await newAdmin();
    await writeEntries(other.id, [{ created_at: new Date().toISOString(), agent_name: "secret" }]);
    await writeEntries(organization.id, [{ created_at: new Date().toISOString() }]);
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.goto(`${CONSOLE_URL}#/${other.id}/log`);
    await page.getByText("You do not administer the organization in the address").waitFor();
    await page.getByText("1 entry").waitFor();
    assert(!(await page.content()).includes("secret"));
    await page.goto(`${CONSOLE_URL}#/${other.id}/keys`);
    await row(page, "Active").waitFor();
    assertEquals(await row(page, "Active").count(), 1);
  });

  it("shows nothing of the person who was signed in before", async () => {
    const { admin } = await newAdmin("Of the first person");
    const { admin: next } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByText("Of the first person").first().waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.route("**/rest/v1/**", (route) => route.abort());
    await signIn(page, next);
    await page.getByText("No answer from the server").waitFor();
    assert(!(await page.content()).includes("Of the first person"));
  });

  it("again is asked for when the session has ended, and goes on where one was", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.goto(`${CONSOLE_URL}#/${organization.id}/log`);
    await page.getByText("No entries").waitFor();
    // The project's keys were changed: no token of before is good any more.
    await page.evaluate(`for (const [name, value] of Object.entries(localStorage)) {
      const session = JSON.parse(value);
      session.access_token += "x";
      session.refresh_token = "x";
      localStorage.setItem(name, JSON.stringify(session));
    }`);
    await page.reload();
    await page.getByText("Your session has ended. Sign in again.").waitFor();
    await signIn(page, admin);
    await page.getByText("No entries").waitFor();
  });
});

describe("a session that Auth cannot renew", () => {
  it("outlasts the outage", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "Active").waitFor();
    // It has expired in the meantime, and the server takes the expired token for none.
    await page.route("**/auth/v1/token**", (route) => route.abort());
    await page.route("**/rest/v1/**", (route) =>
      route.fulfill({
        status: 401,
        json: { code: "42501", message: "permission denied", details: null, hint: null },
      }));
    await page.getByRole("link", { name: "Log" }).click();
    await page.getByText("Your session could not be renewed").waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No entries").waitFor();
  });
});

describe("creating a key", () => {
  it("shows a token that works, as the curl line says it does", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const token = await createInConsole(page, "SIEM");
    assertMatch(token, /^pck_[0-9A-Za-z]{38}$/);
    const curl = await page.getByRole("group", { name: "Try it" }).innerText();
    assertStringIncludes(curl, token);
    assertEquals((await shell(curl)).organization_id, organization.id);
  });

  it("copies the token", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const token = await createInConsole(page, "SIEM");
    await page.getByRole("button", { name: "Copy Token" }).click();
    await page.getByText("Copied.").waitFor();
    assertEquals(await page.evaluate("navigator.clipboard.readText()"), token);
  });

  it("shows the token once: closed, it is nowhere any more", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const token = await createInConsole(page, "SIEM");
    const secret = token.slice(7, -4);
    assertStringIncludes(await traces(page), secret);
    // Not by accident.
    await page.keyboard.press("Escape");
    assertStringIncludes(await traces(page), secret);
    await closeToken(page);
    await row(page, "SIEM").getByText(`${token.slice(0, 7)}…${token.slice(-4)}`).waitFor();
    assert(!(await traces(page)).includes(secret));
  });

  for (
    const [how, leave] of [
      ["reloading", (page: Page) => page.reload()],
      ["leaving and coming back", async (page: Page) => {
        await page.goto(`${CONSOLE_URL}icon.svg`);
        // Not goBack(), which waits for the page to load: it is shown as it was left.
        await page.evaluate("history.back()");
      }],
    ] as const
  ) {
    it(`loses the token by ${how}`, async () => {
      const { admin } = await newAdmin();
      await using opened = await openConsole(browser, admin);
      const { page } = opened;
      const token = await createInConsole(page, "SIEM");
      await leave(page);
      await row(page, "SIEM").waitFor();
      assert(!(await traces(page)).includes(token.slice(7, -4)));
    });
  }

  it("refuses a name that is empty, only spaces, or longer than 100 characters", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("button", { name: "Create key" }).click();
    const name = page.getByRole("textbox", { name: /^Name/ });
    for (
      const [text, error] of [
        ["", "A name is needed"],
        [" \u00a0", "A name is needed"],
        ["x".repeat(101), "At most 100 characters; this has 101."],
      ] as const
    ) {
      await name.fill(text);
      await name.press("Enter");
      await page.getByText(error).waitFor();
    }
    await name.fill("🔑".repeat(100));
    await name.press("Enter");
    await page.getByRole("group", { name: "Token" }).waitFor();
    const [latest] = await listApiKeys(admin, organization.id);
    assertEquals(latest?.name, "🔑".repeat(100));
  });

  it("says in the database's words what is wrong with a name, and takes the corrected one", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("button", { name: "Create key" }).click();
    const name = page.getByRole("textbox", { name: /^Name/ });
    await name.fill("SI\u200bEM");
    await name.press("Enter");
    await page.getByText(
      "The name of an API key has a character that cannot be seen, U+200B: remove it.",
      { exact: true },
    ).waitFor();
    await name.fill("SIEM");
    await name.press("Enter");
    await page.getByRole("group", { name: "Token" }).waitFor();
  });

  it("twice in one go makes one key", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("SIEM");
    const requests: string[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("create_api_key")) requests.push(request.method());
    });
    await page.evaluate(`for (let i = 0; i < 3; i++) document.forms[0].requestSubmit()`);
    await page.getByRole("group", { name: "Token" }).waitFor();
    assertEquals(requests.filter((method) => method === "POST").length, 1);
  });

  it("says so when the answer is lost, and asked again makes no second key", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.route("**/rpc/create_api_key", async (route) => {
      await route.fetch();
      await route.abort();
    }, { times: 1 });
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("SIEM");
    const create = page.getByRole("dialog").getByRole("button", { name: "Create key" });
    await create.click();
    await page.getByText("The key may have been made all the same").waitFor();
    await create.click();
    await page.getByText("An earlier attempt did make this key").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await row(page, "SIEM").waitFor();
    assertEquals(await row(page, "SIEM").count(), 1);
  });

  it("says that it may have been made when the server fails, and does not let go before", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    await page.route("**/rpc/create_api_key", async (route) => {
      asked.resolve();
      await answer.promise;
      await route.fulfill({ status: 503, json: { code: "PGRST002", message: "no database" } });
    }, { times: 1 });
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("SIEM");
    await page.keyboard.press("Enter");
    await asked.promise;
    const lockedCancel = page.getByRole("button", { name: "Cancel", disabled: true });
    await lockedCancel.waitFor();
    await page.keyboard.press("Escape");
    assert(await lockedCancel.isVisible());
    answer.resolve();
    await page.getByText("The key may have been made all the same").waitFor();
  });

  it("succeeds at the second try when the first never arrived", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).fill("SIEM");
    const create = page.getByRole("dialog").getByRole("button", { name: "Create key" });
    await page.context().setOffline(true);
    await create.click();
    await page.getByText("No answer from the server").waitFor();
    await page.context().setOffline(false);
    await create.click();
    await page.getByRole("group", { name: "Token" }).waitFor();
  });

  it("works by keyboard alone, and so does revoking", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "Active").waitFor();
    const tabTo = async (name: RegExp) => {
      for (let i = 0; i < 30; i++) {
        await page.keyboard.press("Tab");
        const focused = await page.evaluate<string>(
          "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText",
        );
        if (name.test(focused)) return;
      }
      throw new Error(`Tab never reaches ${name}`);
    };
    await tabTo(/^Create key$/);
    await page.keyboard.press("Enter");
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Enter");
    await page.getByRole("group", { name: "Token" }).waitFor();
    await tabTo(/^I have stored it/);
    await page.keyboard.press("Enter");
    await row(page, "by keyboard").waitFor();
    await tabTo(/^Revoke by keyboard/);
    await page.keyboard.press("Enter");
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Enter");
    await page.getByText("is revoked: from now on").waitFor();
    await row(page, "by keyboard").getByText("Revoked").waitFor();
  });
});

describe("revoking a key", () => {
  it("asks for its name, takes effect at once, says so, and keeps it listed", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const token = await createInConsole(page, "SIEM");
    await closeToken(page);
    assertEquals((await get(token)).status, 200);
    await row(page, "SIEM").getByRole("button", { name: /^Revoke/ }).click();
    const revoke = page.getByRole("alertdialog").getByRole("button", { name: "Revoke key" });
    assertEquals(await revoke.isDisabled(), true);
    await page.getByRole("textbox").fill("SIEMS");
    assertEquals(await revoke.isDisabled(), true);
    await page.getByRole("textbox").fill("SIEM");
    await revoke.click();
    await page.getByText("“SIEM” is revoked: from now on").waitFor();
    await getProblem(401, token);
    await row(page, "SIEM").getByText("Revoked").waitFor();
    assertEquals(await row(page, "SIEM").getByRole("button").count(), 0);
  });

  it("shows what became of it when the answer is lost", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.route("**/rpc/revoke_api_key", async (route) => {
      await route.fetch();
      await route.abort();
    }, { times: 1 });
    await row(page, "Active").getByRole("button", { name: /^Revoke/ }).click();
    await page.getByRole("textbox").fill("test");
    await page.keyboard.press("Enter");
    await page.getByText("The key may be revoked all the same").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await row(page, "test").getByText("Revoked").waitFor();
    await getProblem(401, organization.token);
  });

  it("takes a name as it looks, with spaces in a row", async () => {
    const { admin, organization } = await newAdmin();
    await createApiKey(admin, organization.id, "a  b   c");
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "a b c").getByRole("button", { name: /^Revoke/ }).click();
    await page.getByRole("textbox").fill("a b");
    await page.keyboard.press("Enter");
    await page.getByRole("textbox").fill("a b c");
    await page.keyboard.press("Enter");
    await page.getByText("is revoked: from now on").waitFor();
  });

  it("says so when it fails, and the key goes on until it succeeds", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "Active").getByRole("button", { name: /^Revoke/ }).click();
    await page.getByRole("textbox").fill("test");
    const revoke = page.getByRole("alertdialog").getByRole("button", { name: "Revoke key" });
    await page.route("**/rpc/revoke_api_key", (route) =>
      route.fulfill({
        status: 503,
        json: { code: "PGRST002", message: "no database", details: null, hint: null },
      }), { times: 1 });
    await revoke.click();
    await page.getByText("The server could not do it (503, PGRST002)").waitFor();
    assertEquals((await get(organization.token)).status, 200);
    await revoke.click();
    await page.getByText("is revoked: from now on").waitFor();
    await getProblem(401, organization.token);
  });
});

describe("the list of keys", () => {
  it("shows who made and revoked a key and when, when it was used, and how much of its limit", async () => {
    const { admin, organization: { id, apiKeyId, token } } = await newAdmin();
    const unused = await createApiKey(admin, id, "unused");
    for (let i = 0; i < 3; i++) await get(token);
    await age(sql, apiKeyId, "20 seconds");
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    const used = row(page, "3 of 60");
    await used.getByText(`by ${admin.email}`).waitFor();
    assertEquals(await used.getByRole("meter").getAttribute("aria-valuenow"), "3");
    const times = await used.getByRole("time").all();
    assertEquals(times.length, 2);
    for (const time of times) {
      const age = Date.now() - Date.parse(await time.getAttribute("datetime") ?? "");
      assert(age > 0 && age < 60_000);
    }
    const revoked = await createApiKey(admin, id, "revoked last");
    const colleague = await signUp();
    await join(colleague, id, "admin");
    await revokeApiKey(colleague, revoked);
    const elsewhere = await newOrganization(admin, "Zzz");
    await createApiKey(admin, elsewhere.id, "elsewhere");
    await page.reload();
    await row(page, "revoked last").getByText(`by ${colleague.email}`).waitFor();
    const names = await page.getByRole("rowheader").allInnerTexts();
    assertEquals(names, ["unused", "test", "revoked last"]);
    await row(page, unused.hint).getByText("never").waitFor();
    await row(page, unused.hint).getByText("0 of 60").waitFor();
  });

  it("refreshes by itself, but not while its tab is hidden", async () => {
    const { admin, organization: { id, token } } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.clock.install();
    await page.reload();
    await row(page, "0 of 60").waitFor();
    await get(token);
    await createApiKey(admin, id, "made elsewhere");
    const requests: string[] = [];
    page.on("request", (request) => {
      if (request.method() === "POST") requests.push(request.url());
    });
    const setVisibility = (state: "hidden" | "visible") =>
      page.evaluate(`
        Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
        document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));`);
    await setVisibility("hidden");
    await page.clock.runFor("00:30");
    assertEquals(requests, []);
    await setVisibility("visible");
    await row(page, "1 of 60").waitFor();
    await row(page, "made elsewhere").waitFor();
    await get(token);
    await page.clock.fastForward("00:10");
    await row(page, "2 of 60").waitFor();
  });

  it("says so when one has ceased to be an administrator", async () => {
    const { admin, organization: { id } } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "Active").waitFor();
    await client("service_role").from("organization_members").delete()
      .eq("organization_id", id).throwOnError();
    await page.getByRole("link", { name: "Log" }).click();
    await page.getByText("You do not administer this organization any more.").waitFor();
    await page.reload();
    await page.getByText("administers no organization").waitFor();
  });

  it("says so when it is empty", async () => {
    const { admin, organization: { apiKeyId } } = await newAdmin();
    await sql`delete from private.api_keys where id = ${apiKeyId}`;
    await using opened = await openConsole(browser, admin);
    await opened.page.getByText("No keys yet.").waitFor();
  });

  it("says so when it cannot be read, and reads it when asked again", async () => {
    const { admin } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await row(page, "Active").waitFor();
    await page.context().setOffline(true);
    await page.getByRole("link", { name: "Log" }).click();
    await page.getByText("No answer from the server").waitFor();
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No entries").waitFor();
  });
});

describe("the log", () => {
  it("has every entry once over its pages, newest first, and the exact total", async () => {
    const { admin, organization: { id } } = await newAdmin();
    const now = Date.parse(`${today()}T00:00:00Z`);
    await writeEntries(
      id,
      Array.from({ length: 120 }, (_, n) => ({
        created_at: new Date(now - n * 1000).toISOString(),
        agent_name: `agent ${n}.`,
      })),
    );
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("link", { name: "Log" }).click();
    const seen: string[] = [];
    for (const pageNumber of ["1", "2", "3"]) {
      await page.getByText("120 entries, newest first").waitFor();
      await page.getByText(`agent ${seen.length}.`, { exact: true }).waitFor();
      assertEquals(await page.getByRole("textbox", { name: "Page" }).inputValue(), pageNumber);
      seen.push(...await page.getByRole("cell").filter({ hasText: /^agent/ }).allInnerTexts());
      await page.getByRole("button", { name: "Older" }).click({ force: true });
    }
    assertEquals(seen, Array.from({ length: 120 }, (_, n) => `agent ${n}.`));
    await page.getByRole("textbox", { name: "Page" }).fill("2");
    await page.keyboard.press("Enter");
    await page.getByText("agent 50.", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Last" }).click();
    await page.getByText("agent 119.", { exact: true }).waitFor();
  });

  it("shows times in the viewer's zone and in UTC, and data with all its digits on demand", async () => {
    const { admin, organization: { id } } = await newAdmin();
    // 23:30 in New York on the day before.
    await sql`
      insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      values (${id}, ${`${today()}T04:30:00.005Z`}, 'feedback_given', 'ada@example.com', 'x',
        '{"exact": 12345678901234567890.10, "__proto__": {"x": 1}, "text": "<b>\\u00e9"}')`;
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("link", { name: "Log" }).click();
    const time = row(page, "ada@example.com").getByRole("time");
    assertMatch(await time.innerText(), /\d 23:30:00\.005 -05:00$|\d 00:30:00\.005 -04:00$/);
    assertEquals(await time.getAttribute("title"), `${today()} 04:30:00.005 UTC`);
    await page.getByRole("button", { name: /^Show data of/ }).click();
    assertEquals(
      await page.getByRole("group", { name: "Data" }).innerText(),
      '{\n  "text": "<b>é",\n  "exact": 12345678901234567890.10,\n  "__proto__": {\n    "x": 1\n  }\n}',
    );
  });

  it("is filtered by days and action, by keyboard, and its curl line shows the same entries", async () => {
    const { admin, organization: { id, token } } = await newAdmin();
    await writeEntries(id, [
      { created_at: "2024-02-28T23:59:59.999Z", agent_name: "before" },
      { created_at: "2024-02-29T00:00:00Z", agent_name: "first" },
      { created_at: "2024-03-01T23:59:59.999Z", agent_name: "last", action: "feedback_given" },
      { created_at: "2024-03-02T00:00:00Z", agent_name: "after" },
    ]);
    await using opened = await openConsole(browser, admin);
    const { page } = opened;
    await page.getByRole("link", { name: "Log" }).click();
    await page.getByRole("spinbutton").first().focus();
    await page.keyboard.type("2024022920240301");
    await page.getByText("2 entries, newest first").waitFor();
    const end = page.getByRole("spinbutton").nth(3);
    await end.focus();
    await page.keyboard.type("20240228");
    await page.getByText("The first day is after the last.").waitFor();
    await end.focus();
    await page.keyboard.type("20240301");
    await page.getByText("The first day is after the last.").waitFor({ state: "hidden" });
    const agents = () => page.getByRole("cell").filter({ hasText: /^(before|first|last|after)$/ });
    assertEquals(await agents().allInnerTexts(), ["last", "first"]);
    await page.getByRole("button", { name: "Show as curl" }).click();
    const curl = () => page.getByRole("group", { name: /through the API/ }).innerText();
    const { total, items } = await shell(await curl(), { AUDIT_LOG_API_KEY: token });
    assertEquals([total, ...items.map((item: { agent_name: string }) => item.agent_name)], [
      2,
      "last",
      "first",
    ]);
    await page.getByRole("button", { name: /Action/ }).click();
    await page.getByRole("option", { name: "feedback_given" }).click();
    await page.getByText("1 entry").waitFor();
    assertEquals(await agents().allInnerTexts(), ["last"]);
    assertEquals((await shell(await curl(), { AUDIT_LOG_API_KEY: token })).total, 1);
  });
});

describe("the page", () => {
  it("speaks to its project only, and the browser lets it speak to nobody else", async () => {
    const { admin, organization } = await newAdmin();
    await using opened = await openConsole(browser, admin);
    const { page, origins } = opened;
    await page.goto(`${CONSOLE_URL}#/${organization.id}/log`);
    await page.getByText("No entries").waitFor();
    assertEquals([...origins], [new URL(CONSOLE_URL).origin]);
    const blocked = await page.evaluate<string[]>(`new Promise((resolve) => {
      const blocked = [];
      addEventListener("securitypolicyviolation", (event) => {
        blocked.push(event.effectiveDirective);
        if (blocked.length === 4) resolve(blocked.toSorted());
      });
      setTimeout(() => resolve(blocked.toSorted()), 5000);
      fetch("http://127.0.0.1:1/").catch(() => {});
      document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:1/x.png" }));
      const style = document.createElement("style");
      style.textContent = "body { color: red }";
      document.body.append(style);
      try { document.createElement("div").innerHTML = "<b>"; } catch {}
    })`);
    assertEquals(blocked, [
      "connect-src",
      "img-src",
      "require-trusted-types-for",
      "style-src-elem",
    ]);
  });

  it("does not open inside another page", async () => {
    const response = await fetch(CONSOLE_URL);
    assertEquals(response.headers.get("Content-Security-Policy"), "frame-ancestors 'none'");
    await response.body?.cancel();
  });

  it("has this policy, whole", async () => {
    const html = await (await fetch(CONSOLE_URL)).text();
    assertEquals(html.match(/Content-Security-Policy"\s+content="([^"]*)"/)?.[1]?.split("; "), [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self'",
      `connect-src ${new URL(CONSOLE_URL).origin}`,
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types default",
    ]);
  });

  it("has no key in it but the publishable one", async () => {
    const html = await (await fetch(CONSOLE_URL)).text();
    const script = html.match(/src="\.\/(assets\/[^"]+\.js)"/)?.[1];
    const source = await (await fetch(CONSOLE_URL + script)).text();
    assertStringIncludes(source, Deno.env.get("SUPABASE_PUBLISHABLE_KEY") ?? "?");
    assert(!source.includes(Deno.env.get("SUPABASE_SECRET_KEY") ?? "?"));
  });
});

for (const colorScheme of ["light", "dark"] as const) {
  describe(`in ${colorScheme} colours`, () => {
    it("every view can be used by all (axe-core), and fits from 320 pixels on", async () => {
      const { admin, organization: { id, token, apiKeyId } } = await newAdmin("Analytical Engines");
      await newOrganization(admin, "Difference Engines");
      await createApiKey(
        admin,
        id,
        "A name of a hundred characters, which is as long as it may be ".repeat(2).slice(0, 100),
      );
      await revokeApiKey(admin, await createApiKey(admin, id, "old"));
      for (let i = 0; i < 5; i++) await get(token);
      await age(sql, apiKeyId, "30 seconds");
      await writeEntries(
        id,
        Array.from({ length: 60 }, (_, n) => ({
          created_at: new Date(Date.now() - n * 3_600_000).toISOString(),
          action: n % 3 ? "message_created" as const : "conversation_created" as const,
          user_email: n ? "ada@example.com" : `${"very.".repeat(12)}long@example.com`,
        })),
      );
      await using opened = await openConsole(browser, null, {
        colorScheme,
        reducedMotion: "reduce",
      });
      const { page, complaints } = opened;
      const found: string[] = [];
      // What floats over the page is opened at each width anew.
      const check = async (name: string, open = () => Promise.resolve()) => {
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 900 });
          await open();
          await takePicture(page, `${colorScheme}-${name}-${width}`);
          const pixels = await overflow(page);
          if (pixels > 0) found.push(`${name}: ${pixels} of ${width} pixels too wide`);
        }
        for (const violation of await violations(page)) found.push(`${name}: ${violation}`);
      };

      await check("sign-in");
      await page.getByLabel("E-mail").fill(admin.email);
      await page.getByLabel("Password").fill("wrong");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("is wrong").waitFor();
      await check("sign-in-refused");
      await signIn(page, admin);
      await row(page, "5 of 60").waitFor();
      await check("keys");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByRole("textbox").press("Enter");
      await page.getByText("A name is needed").waitFor();
      await check("create-key");
      await page.getByRole("textbox").fill("SIEM");
      await page.getByRole("textbox").press("Enter");
      await page.getByRole("group", { name: "Token" }).waitFor();
      await check("token");
      await closeToken(page);
      await row(page, "SIEM").getByRole("button").click();
      await page.getByRole("alertdialog").waitFor();
      await check("revoke-key");
      await page.getByRole("textbox").fill("SIEM");
      await page.getByRole("textbox").press("Enter");
      await page.getByText("is revoked: from now on").waitFor();
      await check("revoked");
      await check("organizations", async () => {
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: /Analytical Engines/ }).click();
        await page.getByRole("option", { name: "Difference Engines" }).waitFor();
      });
      await page.keyboard.press("Escape");
      await page.getByRole("link", { name: "Log" }).click();
      await page.getByText("60 entries").waitFor();
      await check("log");
      await page.getByRole("button", { name: /^Show data of/ }).first().click();
      await page.getByRole("button", { name: "Show as curl" }).click();
      await check("log-details");
      await check("log-calendar", async () => {
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: /Calendar/ }).click();
        await page.getByRole("grid").waitFor();
      });
      await page.keyboard.press("Escape");
      await page.context().setOffline(true);
      await page.getByRole("button", { name: "Refresh" }).click();
      await page.getByText("No answer from the server").waitFor();
      await check("log-failed");
      await page.context().setOffline(false);
      await page.getByRole("spinbutton").first().focus();
      await page.keyboard.type("2020010120200102");
      await page.getByText("No entries").waitFor();
      await check("log-empty");
      await page.getByRole("button", { name: "Sign out" }).click();
      await signIn(page, await signUp());
      await page.getByText("administers no organization").waitFor();
      await check("nothing");
      assertEquals(found, []);
      assertEquals(complaints, []);
    });
  });
}
