import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  addMember,
  age,
  createApiKey,
  get,
  getProblem,
  listApiKeys,
  revokeApiKey,
  signUp,
  sql,
} from "../helpers.ts";
import {
  choose,
  CONSOLE_URL,
  goTo,
  newAdmin,
  NO_DATABASE,
  openAsAdmin,
  openConsole,
  overflow,
  type Page,
  recordCalls,
  row,
  setVisibility,
  shell,
  tabTo,
  today,
} from "./browser.ts";

/** The screen of keys of a new organization, which has one named "test". */
async function openKeys(prepare?: (created: Awaited<ReturnType<typeof newAdmin>>) => unknown) {
  const created = await newAdmin();
  await prepare?.(created);
  const { page, complaints } = await openConsole(created.admin);
  await goTo(page, "API keys");
  await row(page, "test").first().waitFor();
  return { page, complaints, ...created };
}

function nameField(page: Page) {
  return page.getByRole("dialog").getByRole("textbox", { name: "Name" });
}

async function startCreating(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "Create key" }).click();
  await nameField(page).fill(name);
}

/** The token that is shown. */
function shownToken(page: Page): Promise<string> {
  return page.getByRole("group", { name: "Token" }).innerText();
}

/** Creates a key in the console; its token, while it is shown. */
async function createInConsole(page: Page, name: string): Promise<string> {
  await startCreating(page, name);
  await nameField(page).press("Enter");
  return await shownToken(page);
}

async function closeToken(page: Page): Promise<void> {
  await page.getByRole("checkbox", { name: /^I have stored/ }).check();
  await page.getByRole("button", { name: "Close", exact: true }).click();
}

async function openMenu(page: Page, key: string, item: "Rotate …" | "Revoke …"): Promise<void> {
  await row(page, key).first().getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: item }).click();
  await page.getByRole("dialog").waitFor();
}

/** Everything that the page could have kept a token in, its memory included. */
async function traces(page: Page): Promise<string> {
  const debuggerSession = await page.context().newCDPSession(page);
  let heap = "";
  debuggerSession.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => heap += chunk);
  await debuggerSession.send("HeapProfiler.collectGarbage");
  await debuggerSession.send("HeapProfiler.takeHeapSnapshot");
  await debuggerSession.detach();
  return heap + await page.evaluate<string>(
    `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state,
      document.cookie, document.documentElement.outerHTML])`,
  );
}

/** Lets a call happen, but not its answer arrive. */
async function loseAnswer(page: Page, call: string): Promise<void> {
  await page.route(`**/rpc/${call}`, async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
}

describe("creating a key", () => {
  it("shows a token that works, as the curl line says it does, and copies it", async () => {
    const { page, organization } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    assertMatch(token, /^pck_[0-9A-Za-z]{38}$/);
    const curl = await page.getByRole("group", { name: "curl" }).innerText();
    assertStringIncludes(curl, token);
    assertEquals(JSON.parse(await shell(curl)).organization_id, organization.id);
    await page.getByRole("button", { name: "Copy token" }).click();
    await page.getByText("Copied").waitFor();
    assertEquals(await page.evaluate("navigator.clipboard.readText()"), token);
  });

  it("says how each collector takes the log, with address and token, and when the first request has come", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    await page.getByText("Waiting for the first request").waitFor();
    for (const collector of ["A file, kept up to date", "Node-RED", "Your own program"]) {
      await choose(page, "Connect", collector);
      const text = await page.getByRole("group", { name: collector }).innerText();
      assertStringIncludes(text, token);
      assertStringIncludes(text, "/functions/v1/public-audit-log");
    }
    await get(token);
    await page.getByText("Connected: last request").waitFor();
    const [red = 255, green = 0, blue = 255] = await page.evaluate<number[]>(
      `getComputedStyle([...document.querySelectorAll("[role=status]")]
        .find(({ innerText }) => innerText.includes("Connected"))).backgroundColor.match(/\\d+/g).map(Number)`,
    );
    assert(green > red && green > blue, `the line is ${[red, green, blue]}`);
  });

  it("shows the token once, until one confirms to have stored it: then it is nowhere any more", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    const secret = token.slice(7, -4);
    // Not by accident.
    await page.keyboard.press("Escape");
    await page.mouse.click(5, 5);
    assertEquals(await page.getByRole("button", { name: "Close", exact: true }).isDisabled(), true);
    assertStringIncludes(await traces(page), secret);
    await closeToken(page);
    await row(page, "SIEM").getByText(`${token.slice(0, 7)}…${token.slice(-4)}`).waitFor();
    assert(!(await traces(page)).includes(secret));
  });

  it("warns when one goes Back while the token is shown, and stays if one wants", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    await page.evaluate("history.back()");
    await page.getByText("If you leave now, the token is lost").waitFor();
    await page.getByRole("button", { name: "Stay" }).click();
    assertEquals(await shownToken(page), token);
    await page.evaluate("history.back()");
    await page.getByRole("button", { name: "Leave without it" }).click();
    await page.getByRole("heading", { name: "Log" }).waitFor();
    assert(!(await traces(page)).includes(token.slice(7, -4)));
  });

  it("warns when one reloads while the token is shown, and loses it then", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    const asked: string[] = [];
    page.once("dialog", (dialog) => {
      asked.push(dialog.type());
      dialog.dismiss();
    });
    await page.evaluate("setTimeout(() => location.reload())");
    while (asked.length === 0) await page.evaluate("new Promise(requestAnimationFrame)");
    assertEquals(asked, ["beforeunload"]);
    assertEquals(await shownToken(page), token);
    page.once("dialog", (dialog) => dialog.accept());
    await page.reload();
    await row(page, "SIEM").waitFor();
    assert(!(await traces(page)).includes(token.slice(7, -4)));
  });

  it("does not show the token any more to who goes to another site and Back", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page, "SIEM");
    page.once("dialog", (dialog) => dialog.accept());
    await page.evaluate("addEventListener('pageshow', (event) => window.isKept = event.persisted)");
    await page.goto("about:blank");
    await page.goBack({ waitUntil: "commit" });
    assert(!(await page.content()).includes(token));
    assertEquals(await page.evaluate("isKept"), true);
  });

  it("sets when it expires", async () => {
    const { page, admin, organization } = await openKeys();
    const day = `${Number(today().slice(0, 4)) + 1}-01-31`;
    for (const [name, expires] of [["never", "Never"], ["a day", "After a day …"]] as const) {
      await startCreating(page, name);
      await choose(page, "Expires", expires);
      if (name === "a day") {
        await page.getByLabel("Last day (UTC)").fill("2020-01-01");
        await page.getByLabel("Last day (UTC)").press("Enter");
        await page.getByText("That day is over").waitFor();
        await page.getByLabel("Last day (UTC)").fill("9999-12-31");
        await page.getByText("At most 5 years ahead").waitFor();
        await page.getByLabel("Last day (UTC)").fill(day);
      }
      await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
      await closeToken(page);
    }
    const keys = await listApiKeys(admin, organization.id);
    const until = (name: string) => keys.find((key) => key.name === name)?.expires_at;
    assertEquals(until("never"), null);
    assertEquals(until("a day")?.slice(0, 19), `${day.slice(0, 5)}02-01T00:00:00`);
    await row(page, "a day").getByText(`${day.slice(0, 5)}02-01`).waitFor();
  });

  it("refuses a name that is empty, only spaces, or longer than 100 characters", async () => {
    const { page, admin, organization } = await openKeys();
    await page.getByRole("button", { name: "Create key" }).click();
    const name = nameField(page);
    for (
      const [text, error] of [
        ["", "A name is needed"],
        [" \u00a0", "A name is needed"],
        ["x".repeat(101), "At most 100 characters; this has 101."],
        [
          "SI\u200bEM",
          "The name of an API key has a character that cannot be seen, U+200B: remove it.",
        ],
      ] as const
    ) {
      await name.fill(text);
      await name.press("Enter");
      await page.getByText(error).waitFor();
    }
    await name.fill("🔑".repeat(100));
    await name.press("Enter");
    await shownToken(page);
    assertEquals((await listApiKeys(admin, organization.id))[0]?.name, "🔑".repeat(100));
  });

  it("warns of a live key with the same name, and lets one make it", async () => {
    const { page } = await openKeys();
    await startCreating(page, " test");
    await page.getByText("A live key has this name already").waitFor();
    await nameField(page).press("Enter");
    await shownToken(page);
  });

  it("twice in one go makes one key", async () => {
    const { page } = await openKeys();
    await startCreating(page, "SIEM");
    const calls = recordCalls(page);
    await page.evaluate(`for (let i = 0; i < 3; i++) document.forms[0].requestSubmit()`);
    await shownToken(page);
    assertEquals(calls.filter((name) => name === "create_api_key").length, 1);
  });

  it("says so when the answer is lost, and asked again makes no second key", async () => {
    const { page } = await openKeys();
    await loseAnswer(page, "create_api_key");
    await startCreating(page, "SIEM");
    await nameField(page).press("Enter");
    await page.getByText("The key may have been made all the same").waitFor();
    await nameField(page).press("Enter");
    await page.getByText("An earlier attempt did make this key").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await row(page, "SIEM").waitFor();
    assertEquals(await row(page, "SIEM").count(), 1);
  });

  it("says that it may have been made when the server fails, and does not let go before", async () => {
    const { page } = await openKeys();
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    await page.route("**/rpc/create_api_key", async (route) => {
      asked.resolve();
      await answer.promise;
      await route.fulfill(NO_DATABASE);
    }, { times: 1 });
    await startCreating(page, "SIEM");
    await nameField(page).press("Enter");
    await asked.promise;
    await page.getByRole("button", { name: "Cancel", disabled: true }).waitFor();
    await page.keyboard.press("Escape");
    // Who leaves now would not see the token.
    await page.evaluate("history.back()");
    await page.getByText("If you leave now, the token is lost").waitFor();
    await page.getByRole("button", { name: "Stay" }).click();
    answer.resolve();
    await page.getByText("The key may have been made all the same").waitFor();
    await nameField(page).press("Enter");
    await shownToken(page);
  });

  it("works by keyboard alone, and so does revoking", async () => {
    const { page } = await openKeys();
    await tabTo(page, /^Create key$/);
    await page.keyboard.press("Enter");
    await nameField(page).waitFor();
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Enter");
    await shownToken(page);
    await tabTo(page, /^I have stored/);
    await page.keyboard.press("Space");
    await tabTo(page, /^Close$/);
    await page.keyboard.press("Enter");
    await row(page, "by keyboard").waitFor();
    await tabTo(page, /^Actions for by keyboard/);
    await page.keyboard.press("Enter");
    await page.getByRole("menuitem", { name: "Rotate …" }).waitFor();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.getByLabel(/^Type its name/).waitFor();
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Enter");
    await page.getByText("is revoked: every request").waitFor();
  });
});

describe("rotating a key", () => {
  it("gives the token of a successor, and the old key works for the overlap", async () => {
    const { page, admin, organization } = await openKeys();
    await openMenu(page, "test", "Rotate …");
    await choose(page, "The old key ends", "In 7 days");
    await page.getByRole("button", { name: "Rotate key" }).click();
    const token = await shownToken(page);
    assertEquals((await get(token)).status, 200);
    assertEquals((await get(organization.token)).status, 200);
    await closeToken(page);
    await row(page, "rotated").getByText("Expires soon").waitFor();
    const old = (await listApiKeys(admin, organization.id)).find(({ successor_id }) =>
      successor_id
    );
    const days = (Date.parse(old?.expires_at ?? "") - Date.now()) / 86_400_000;
    assert(days > 6.9 && days <= 7, `${days} days`);
  });

  it("leaves a key that names its successor and leads to it", async () => {
    const { page } = await openKeys();
    await openMenu(page, "test", "Rotate …");
    await page.getByRole("button", { name: "Rotate key" }).click();
    const token = await shownToken(page);
    await closeToken(page);
    const hint = `${token.slice(0, 7)}…${token.slice(-4)}`;
    await row(page, "rotated to").getByRole("link", { name: hint }).click();
    await page.getByText("1 key", { exact: true }).waitFor();
    await page.getByRole("rowheader").getByText(hint).waitFor();
  });

  it("tells refusals apart by their code, whatever the database's words", async () => {
    const { page } = await openKeys();
    await page.route(
      "**/rpc/rotate_api_key",
      (route) => route.fulfill({ status: 409, json: { code: "23505", message: "rotated" } }),
    );
    await openMenu(page, "test", "Rotate …");
    await page.getByRole("button", { name: "Rotate key" }).click();
    await page.getByText("An earlier attempt did make this key").waitFor();
  });

  it("says so when the answer is lost, and what to do", async () => {
    const { page } = await openKeys();
    await loseAnswer(page, "rotate_api_key");
    await openMenu(page, "test", "Rotate …");
    const rotate = page.getByRole("button", { name: "Rotate key" });
    await rotate.click();
    await page.getByText("The key may have been made all the same").waitFor();
    await rotate.click();
    await page.getByText("rotate that one with overlap 0").waitFor();
  });
});

describe("revoking a key", () => {
  it("says what it will break, asks for the name, takes effect at once, and shows who did it", async () => {
    const { page, admin, organization } = await openKeys(async ({ organization }) => {
      for (let i = 0; i < 3; i++) await get(organization.token);
    });
    await openMenu(page, "test", "Revoke …");
    await page.getByText(
      /^Last used (now|\d+ seconds? ago|\d+ minutes? ago), 3 requests today, last from /,
    )
      .waitFor();
    const revoke = page.getByRole("button", { name: "Revoke key" });
    const name = page.getByLabel(/^Type its name/);
    await name.fill("tests");
    assertEquals(await revoke.isDisabled(), true);
    await name.fill("test");
    await revoke.click();
    await page.getByText("“test” is revoked: every request").waitFor();
    await getProblem(401, organization.token);
    await row(page, "Revoked").getByText(`by ${admin.email}`).first().waitFor();
    assertEquals(await row(page, "Revoked").getByRole("button").count(), 0);
  });

  it("shows what became of it when the answer is lost", async () => {
    const { page, organization } = await openKeys();
    await loseAnswer(page, "revoke_api_key");
    await openMenu(page, "test", "Revoke …");
    await page.getByText("It has never been used.").waitFor();
    await page.getByLabel(/^Type its name/).fill("test");
    await page.keyboard.press("Enter");
    await page.getByText("The key may be revoked all the same").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await row(page, "test").getByText("Revoked").waitFor();
    await getProblem(401, organization.token);
  });

  it("takes a name as it looks, with an accent typed in another way", async () => {
    const { page } = await openKeys(({ admin, organization }) =>
      createApiKey(admin, organization.id, "é  b")
    );
    await openMenu(page, "é b", "Revoke …");
    await page.getByLabel(/^Type its name/).fill("e\u0301   b");
    await page.getByRole("button", { name: "Revoke key" }).click();
    await page.getByText("is revoked: every request").waitFor();
  });
});

describe("the list of keys", () => {
  it("of 400 is searched, filtered, sorted and paged, all of it in the address", async () => {
    const { page, admin, organization } = await openKeys(({ admin, organization }) =>
      sql.begin(async (sql) => {
        await sql`select set_config('request.jwt.claims', ${
          JSON.stringify({ sub: admin.id, email: admin.email })
        }, true)`;
        await sql`
          select audit_log_private.insert_api_key(${organization.id}, 'test key ' || to_char(n, 'FM000'))
          from generate_series(1, 399) as n`;
      })
    );
    await page.getByText("400 keys, page 1 of 16").waitFor();
    const height = await page.evaluate<number>("document.documentElement.scrollHeight");
    assert(height < 2_500, `a page of ${height} pixels`);
    await page.getByRole("button", { name: "Name" }).click();
    await page.getByRole("columnheader", { name: "Name" }).and(
      page.locator("[aria-sort=ascending]"),
    )
      .waitFor();
    assertStringIncludes(await page.getByRole("rowheader").nth(1).innerText(), "test key 001");
    await page.getByRole("button", { name: "Page 16", exact: true }).click();
    await row(page, "test key 399").waitFor();
    const search = page.getByRole("searchbox", { name: "Search keys" });
    await search.pressSequentially("04");
    await search.press("Home");
    await search.pressSequentially("KEY ");
    assertEquals(await search.inputValue(), "KEY 04");
    await page.getByText("10 keys").waitFor();
    const another = await openConsole(admin, new URL(page.url()).hash);
    await another.page.getByText("10 keys").waitFor();
    await revokeApiKey(admin, { organization_id: organization.id, id: organization.apiKeyId });
    await search.fill("");
    await choose(page, "State", "Revoked");
    // So many are read again after forty seconds only.
    await page.reload();
    await page.getByRole("heading", { name: "No such key" }).or(page.getByText("1 key")).waitFor();
    await row(page, "Revoked").waitFor();
  });

  it("tells who revoked each, how often it is used by day (UTC), and what it used in the last minute", async () => {
    const { page } = await openKeys(
      async ({ admin, organization: { id, token, apiKeyId } }) => {
        const colleague = await signUp();
        await addMember(id, colleague, "admin");
        await revokeApiKey(colleague, await createApiKey(admin, id, "test of a colleague"));
        // On the day before where the viewer is.
        await sql`
          update audit_log_private.api_keys
          set created_at = '2026-01-02T03:00:00Z', revoked_at = '2026-02-02T03:00:00Z'
          where organization_id = ${id} and revoked_at is not null`;
        for (let i = 0; i < 5; i++) await get(token);
        await age(sql, apiKeyId, "30 seconds");
      },
    );
    const revoked = row(page, "test of a colleague");
    await revoked.getByText(/^2026-02-02 by .*@example\.com/).waitFor();
    await revoked.getByText("2026-01-02").waitFor();
    const used = row(page, "5 requests, 5 today");
    await used.getByRole("img", { name: /^Requests by day: (0 ){29}5$/ }).waitFor();
    await used.getByText("5 of 60 in the last minute").waitFor();
    // The latest first; those never used are the oldest.
    await page.getByRole("button", { name: "Last used" }).click();
    await page.getByRole("button", { name: "Last used" }).click();
    await page.locator("[aria-sort=descending]").waitFor();
    assertStringIncludes(await page.getByRole("row").nth(1).innerText(), "5 requests");
  });

  it("does not call a key unused when its use cannot be read", async () => {
    const { page } = await openKeys(({ organization }) => get(organization.token));
    await page.route("**/rpc/api_key_usage", (route) => route.fulfill(NO_DATABASE));
    await page.reload();
    await page.getByText("The database does not answer.").waitFor();
    assertEquals(await row(page, "test").getByText("none").count(), 0);
    await openMenu(page, "test", "Revoke …");
    await page.getByText(/^Last used .*ago\. Whatever uses it stops\.$|^Last used now\. Whatever/)
      .waitFor();
  });

  it("refreshes by itself, but not while its tab is hidden", async () => {
    const { page, organization: { id, token } } = await openAsAdmin();
    await page.clock.install();
    await page.goto(`${CONSOLE_URL}#/${id}/keys`);
    await page.reload();
    await row(page, "test").waitFor();
    await get(token);
    const calls = recordCalls(page);
    await setVisibility(page, "hidden");
    await page.clock.runFor("00:30");
    assertEquals(calls, []);
    await setVisibility(page, "visible");
    await row(page, "1 of 60 in the last minute").waitFor();
    await get(token);
    await page.clock.fastForward("00:10");
    await row(page, "2 of 60 in the last minute").waitFor();
    await page.clock.fastForward("05:00");
    await row(page, "test").getByText(/^[56] minutes ago/).waitFor();
    // Also when the list is as before.
    await page.clock.fastForward("30:00");
    await row(page, "test").getByText(/^3[56] minutes ago/).waitFor();
  });

  it("of 1,200 is not read again every ten seconds", async () => {
    const { page, organization: { id } } = await openAsAdmin();
    const one = {
      name: "test",
      hint: "pck_abc…wxyz",
      created_at: new Date().toISOString(),
      created_by_email: null,
      revoked_at: null,
      revoked_by_email: null,
      expires_at: null,
      successor_id: null,
      state: "active",
      last_used_at: null,
      reads: null,
      caught_up_at: null,
      requests_last_minute: 0,
      quota: 60,
    };
    const keys = Array.from({ length: 1200 }, () => ({ ...one, id: crypto.randomUUID() }));
    await page.route("**/rpc/list_api_keys", (route) => route.fulfill({ json: keys }));
    await page.clock.install();
    await page.goto(`${CONSOLE_URL}#/${id}/keys`);
    await page.reload();
    await page.getByText("1,200 keys, page 1 of 48").waitFor();
    const calls = recordCalls(page);
    await page.clock.runFor("01:50");
    assertEquals(calls.filter((name) => name === "list_api_keys"), []);
    await page.clock.runFor("00:15");
    assertEquals(calls.filter((name) => name === "list_api_keys").length, 1);
  });

  it("has rows of one height, whatever the names, and no address is broken inside a word", async () => {
    const { page } = await openKeys(({ admin, organization }) =>
      createApiKey(admin, organization.id, "A long name ".repeat(8).trim())
    );
    await page.setViewportSize({ width: 1280, height: 800 });
    const heights = await page.getByRole("row").evaluateAll((rows) =>
      rows.slice(1).map((row) => (row as unknown as { offsetHeight: number }).offsetHeight)
    );
    assert(Math.max(...heights) <= 55, `rows of ${heights} pixels`);
  });

  it("says so when it is empty", async () => {
    const { admin, organization: { id, apiKeyId } } = await newAdmin();
    await sql`delete from audit_log_private.api_keys where organization_id = ${id} and id = ${apiKeyId}`;
    const { page } = await openConsole(admin);
    await goTo(page, "API keys");
    await page.getByRole("heading", { name: "No keys yet" }).waitFor();
  });

  it("shows names at their limit and hostile ones as they are", async () => {
    const names = [
      "W".repeat(100),
      "<img src=x onerror=alert(1)>",
      "🔑".repeat(100),
      "אבג".repeat(30),
    ];
    const { page, complaints } = await openKeys(async ({ admin, organization }) => {
      for (const name of names) await createApiKey(admin, organization.id, name);
    });
    for (const width of [320, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      for (const name of names) await row(page, name).waitFor();
      assertEquals(await overflow(page), 0);
    }
    assertEquals(complaints, []);
  });
});
