import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createApiKey, get, getProblem, listApiKeys } from "../helpers.ts";
import {
  choose,
  copy,
  goTo,
  NO_DATABASE,
  openKeys,
  openMenu,
  openScreen,
  type Page,
  press,
  recordCalls,
  row,
  shell,
  shows,
  tabTo,
  today,
} from "./browser.ts";

function nameField(page: Page) {
  return page.getByRole("dialog").getByRole("textbox", { name: "Name" });
}

async function startCreating(page: Page, name: string): Promise<void> {
  await press(page, "Create key");
  await nameField(page).fill(name);
}

/** The token that is shown. */
function shownToken(page: Page): Promise<string> {
  return page.getByRole("group", { name: "Token" }).innerText();
}

/** Creates a key in the console; its token, while it is shown. */
async function createInConsole(page: Page, name = "SIEM"): Promise<string> {
  await startCreating(page, name);
  await nameField(page).press("Enter");
  return await shownToken(page);
}

async function closeToken(page: Page): Promise<void> {
  await page.getByRole("checkbox", { name: /^I have stored/ }).check();
  await press(page, /^Close$/);
}

/** Whether the page keeps the middle of a token anywhere: in its memory, its storage or its address. */
async function keepsToken(page: Page, token: string): Promise<boolean> {
  const debuggerSession = await page.context().newCDPSession(page);
  let heap = "";
  debuggerSession.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => heap += chunk);
  await debuggerSession.send("HeapProfiler.collectGarbage");
  await debuggerSession.send("HeapProfiler.takeHeapSnapshot");
  await debuggerSession.detach();
  const stored = await page.evaluate<string>(
    `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state,
      document.cookie, document.documentElement.outerHTML])`,
  );
  return (heap + stored).includes(token.slice(7, -4));
}

/** Lets a call happen, but not its answer arrive. */
async function loseAnswer(page: Page, call: string): Promise<void> {
  await page.route(`**/rpc/${call}`, async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
}

describe("creating a key", () => {
  it("shows a token that works as each collector's text says, copies it, and says when the first request has come", async () => {
    const { page, organization } = await openKeys();
    const token = await createInConsole(page);
    assertMatch(token, /^pck_[0-9A-Za-z]{38}$/);
    assertEquals(await copy(page, "token"), token);
    for (const collector of ["A file, kept up to date", "Node-RED", "Your own program", "curl"]) {
      await choose(page, "Connect", collector);
      const text = await page.getByRole("group", { name: collector }).innerText();
      assertStringIncludes(text, token);
      assertStringIncludes(text, "/functions/v1/public-audit-log");
    }
    await shows(page, "Waiting for the first request");
    const curl = await page.getByRole("group", { name: "curl" }).innerText();
    assertEquals(JSON.parse(await shell(curl)).organization_id, organization.id);
    await shows(page, "Connected: last request");
    const [red = 255, green = 0, blue = 255] = await page.evaluate<number[]>(
      `getComputedStyle([...document.querySelectorAll("[role=status]")]
        .find(({ innerText }) => innerText.includes("Connected"))).backgroundColor.match(/\\d+/g).map(Number)`,
    );
    assert(green > red && green > blue, `the line is ${[red, green, blue]}`);
  });

  it("shows the token until one confirms to have stored it: then it is nowhere any more", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page);
    // Not by accident.
    await page.keyboard.press("Escape");
    await page.mouse.click(5, 5);
    assertEquals(await page.getByRole("button", { name: "Close", exact: true }).isDisabled(), true);
    assertEquals(await keepsToken(page, token), true);
    await closeToken(page);
    await row(page, "SIEM").getByText(`${token.slice(0, 7)}…${token.slice(-4)}`).waitFor();
    assertEquals(await keepsToken(page, token), false);
  });

  it("warns before a reload or a link away loses the token, and Back does not show it again", async () => {
    const { page } = await openKeys();
    const token = await createInConsole(page);
    const asked = page.waitForEvent("dialog");
    await page.evaluate("setTimeout(() => location.reload())");
    assertEquals((await asked).type(), "beforeunload");
    await (await asked).dismiss();
    assertEquals(await shownToken(page), token);
    page.once("dialog", (dialog) => dialog.accept());
    await page.evaluate("addEventListener('pageshow', (event) => window.isKept = event.persisted)");
    await page.goto("about:blank");
    await page.goBack({ waitUntil: "commit" });
    assert(!(await page.content()).includes(token));
    assertEquals(await page.evaluate("isKept"), true);
  });

  it("sets when it expires", async () => {
    const { page, admin, organization } = await openKeys();
    await startCreating(page, "never");
    await choose(page, "Expires", "Never");
    await nameField(page).press("Enter");
    await closeToken(page);
    await startCreating(page, "a day");
    await choose(page, "Expires", "After a day …");
    const lastDay = page.getByLabel("Last day (UTC)");
    await lastDay.fill("2020-01-01");
    await lastDay.press("Enter");
    await shows(page, "That day is over");
    await lastDay.fill("9999-12-31");
    await shows(page, "At most 5 years ahead");
    const year = Number(today().slice(0, 4)) + 1;
    await lastDay.fill(`${year}-01-31`);
    await lastDay.press("Enter");
    await closeToken(page);
    const keys = await listApiKeys(admin, organization.id);
    const until = (name: string) => keys.find((key) => key.name === name)?.expires_at;
    assertEquals(until("never"), null);
    assertEquals(until("a day")?.slice(0, 19), `${year}-02-01T00:00:00`);
    await row(page, "a day").getByText(`${year}-02-01`).waitFor();
  });

  it("refuses a name that is empty, only spaces, not visible, or longer than 100 characters", async () => {
    const { page, admin, organization } = await openKeys();
    const refused = {
      "": "A name is needed",
      " \u00a0": "A name is needed",
      ["x".repeat(101)]: "At most 100 characters; this has 101.",
      "SI\u200bEM": "has a character that cannot be seen, U+200B: remove it.",
    };
    for (const [name, error] of Object.entries(refused)) {
      await startCreating(page, name);
      await nameField(page).press("Enter");
      await shows(page, error);
      await press(page, "Cancel");
    }
    await createInConsole(page, "🔑".repeat(100));
    assertEquals((await listApiKeys(admin, organization.id))[0]?.name, "🔑".repeat(100));
  });

  it("warns of a live key with the same name, and lets one make it", async () => {
    const { page } = await openKeys();
    await startCreating(page, " test");
    await shows(page, "A live key has this name already");
    await nameField(page).press("Enter");
    await shownToken(page);
  });

  it("sends the form once, says when its answer is lost, and makes no second key when asked again", async () => {
    const { page } = await openKeys();
    await loseAnswer(page, "create_api_key");
    const calls = recordCalls(page);
    await startCreating(page, "SIEM");
    await page.evaluate(`for (let i = 0; i < 3; i++) document.forms[0].requestSubmit()`);
    await shows(page, "The key may have been made all the same");
    assertEquals(calls.filter((name) => name === "create_api_key").length, 1);
    await nameField(page).press("Enter");
    await shows(page, "An earlier attempt did make this key");
    await press(page, "Cancel");
    await row(page, "SIEM").waitFor();
    assertEquals(await row(page, "SIEM").count(), 1);
  });

  it("warns before Back loses the token, also while it is awaited, and can be repeated when the server fails", async () => {
    const { page } = await openScreen("seals");
    await goTo(page, "API keys");
    const answer = Promise.withResolvers<void>();
    await page.route("**/rpc/create_api_key", async (route) => {
      await answer.promise;
      await route.fulfill(NO_DATABASE);
    }, { times: 1 });
    await startCreating(page, "SIEM");
    await nameField(page).press("Enter");
    await page.getByRole("button", { name: "Cancel", disabled: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.evaluate("history.back()");
    await shows(page, "If you leave now, the token is lost");
    await press(page, "Stay");
    answer.resolve();
    await shows(page, "The key may have been made all the same");
    await nameField(page).press("Enter");
    const token = await shownToken(page);
    await page.evaluate("history.back()");
    await press(page, "Stay");
    assertEquals(await shownToken(page), token);
    await page.evaluate("history.back()");
    await press(page, "Leave without it");
    await page.getByRole("heading", { name: "Seals", level: 1 }).waitFor();
    assertEquals(await keepsToken(page, token), false);
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
    await shows(page, "is revoked: every request");
  });
});

describe("rotating a key", () => {
  it("gives the token of a successor, and the old key works for the overlap", async () => {
    const { page, admin, organization } = await openKeys();
    await openMenu(page, "test", "Rotate …");
    await choose(page, "The old key ends", "In 7 days");
    await press(page, "Rotate key");
    const token = await shownToken(page);
    for (const each of [token, organization.token]) assertEquals((await get(each)).status, 200);
    await closeToken(page);
    await row(page, "rotated").getByText("Expires soon").waitFor();
    const keys = await listApiKeys(admin, organization.id);
    const end = keys.find(({ successor_id }) => successor_id)?.expires_at ?? "";
    const days = (Date.parse(end) - Date.now()) / 86_400_000;
    assert(days > 6.9 && days <= 7, `${days} days`);
  });

  it("leaves a key that names its successor and leads to it", async () => {
    const { page } = await openKeys();
    await openMenu(page, "test", "Rotate …");
    await press(page, "Rotate key");
    const token = await shownToken(page);
    await closeToken(page);
    const hint = `${token.slice(0, 7)}…${token.slice(-4)}`;
    await row(page, "rotated to").getByRole("link", { name: hint }).click();
    await shows(page, /^1 key$/);
    await page.getByRole("rowheader").getByText(hint).waitFor();
  });

  it("tells refusals apart by their code, whatever the database's words", async () => {
    const { page } = await openKeys();
    const refusal = { status: 409, json: { code: "23505", message: "rotated" } };
    await page.route("**/rpc/rotate_api_key", (route) => route.fulfill(refusal), { times: 1 });
    await openMenu(page, "test", "Rotate …");
    const rotate = page.getByRole("button", { name: "Rotate key" });
    await rotate.click();
    await shows(page, "An earlier attempt did make this key");
    await loseAnswer(page, "rotate_api_key");
    await rotate.click();
    await shows(page, "The key may have been made all the same");
    await rotate.click();
    await shows(page, "rotate that one with overlap 0");
  });
});

describe("revoking a key", () => {
  it("says what it will break, asks for the name as it looks, takes effect at once, and shows who did it", async () => {
    let token = "";
    const { page, admin } = await openKeys(async ({ admin, organization }) => {
      ({ token } = await createApiKey(admin, organization.id, "é  b"));
      for (let i = 0; i < 3; i++) await get(token);
    });
    await openMenu(page, "é b", "Revoke …");
    const age = "(now|\\d+ seconds? ago|\\d+ minutes? ago)";
    await page.getByText(new RegExp(`^Last used ${age}, 3 requests today, last from `)).waitFor();
    const revoke = page.getByRole("button", { name: "Revoke key" });
    const name = page.getByLabel(/^Type its name/);
    await name.fill("é bs");
    assertEquals(await revoke.isDisabled(), true);
    // The accent is typed in another way.
    await name.fill("e\u0301   b");
    await revoke.click();
    await shows(page, "is revoked: every request");
    await getProblem(401, token);
    await row(page, "Revoked").getByText(`by ${admin.email}`).first().waitFor();
    assertEquals(await row(page, "Revoked").getByRole("button").count(), 0);
  });

  it("shows what became of it when the answer is lost", async () => {
    const { page, organization } = await openKeys();
    await loseAnswer(page, "revoke_api_key");
    await openMenu(page, "test", "Revoke …");
    await shows(page, "It has never been used.");
    await page.getByLabel(/^Type its name/).fill("test");
    await page.keyboard.press("Enter");
    await shows(page, "The key may be revoked all the same");
    await press(page, "Cancel");
    await row(page, "test").getByText("Revoked").waitFor();
    await getProblem(401, organization.token);
  });
});
