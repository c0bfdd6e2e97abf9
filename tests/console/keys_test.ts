// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { daysAgo, get, getProblem, listApiKeys, NO_DATABASE, openLog } from "../helpers/browser.ts";
import { openScreen, type Page, today, type View } from "../helpers/browser.ts";

function nameField({ page }: View) {
  return page.getByRole("dialog").getByRole("textbox", { name: "Name" });
}

function shownToken({ page }: View): Promise<string> {
  return page.getByRole("group", { name: "Token", exact: true }).innerText();
}

function hintOf(token: string): string {
  return `${token.slice(0, 7)}…${token.slice(-4)}`;
}

/** Creates a key by keyboard alone, and returns its token, which is shown. */
async function createInConsole(view: View): Promise<string> {
  await view.tabTo(/^Create key$/);
  await view.key("Enter");
  await nameField(view).waitFor();
  await view.page.keyboard.type("SIEM");
  await view.key("Enter");
  return await shownToken(view);
}

/** Says by keyboard alone that the token is stored. */
async function closeToken(view: View): Promise<void> {
  await view.tabTo(/^I have stored/);
  await view.key("Enter");
}

/** Whether the middle of a token is in the page's memory, its storage or its address. */
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

/** Pastes a command and a token into a shell that keeps a history. */
async function paste(command: string, token: string) {
  const folder = await Deno.makeTempDir();
  const process = new Deno.Command("bash", {
    args: ["--norc", "-i"],
    cwd: folder,
    env: { HISTFILE: "history" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`${command}\n${token}\n`));
  await writer.close();
  const answer = new TextDecoder().decode((await process.output()).stdout);
  const history = await Deno.readTextFile(`${folder}/history`);
  await Deno.remove(folder, { recursive: true });
  return { answer, history };
}

it("creating a key, accessible in each state and by keyboard alone, shows the token until a person has stored it or leaves without it, and then keeps it nowhere, not even for Back", async () => {
  const { view, page } = await openScreen("seals");
  await view.goTo("Access");
  const stored = await createInConsole(view);
  await view.key("Escape");
  await page.mouse.click(5, 5);
  await view.assertAccessible("key-token");
  await page.evaluate("history.back()");
  await view.button("Stay").waitFor();
  await view.assertAccessible("key-token-leaving");
  await view.press("Stay");
  const asked = page.waitForEvent("dialog");
  await page.evaluate("setTimeout(() => location.reload())");
  assertEquals((await asked).type(), "beforeunload");
  await (await asked).dismiss();
  assertEquals(await shownToken(view), stored);
  assert(await keepsToken(page, stored));
  await closeToken(view);
  await view.row("SIEM").getByText(hintOf(stored)).waitFor();
  assert(!await keepsToken(page, stored));
  const left = await createInConsole(view);
  await page.evaluate("history.back()");
  await view.press("Leave without it");
  await page.getByRole("heading", { name: "Integrity", level: 1 }).waitFor();
  assert(!await keepsToken(page, left));
  await view.goTo("Access");
  const gone = await createInConsole(view);
  page.once("dialog", (dialog) => dialog.accept());
  await page.evaluate("addEventListener('pageshow', (event) => window.isKept = event.persisted)");
  await page.goto("about:blank");
  await page.goBack({ waitUntil: "commit" });
  assert(!(await page.content()).includes(gone));
  assertEquals(await page.evaluate("isKept"), true);
});

it("creating a key, accessible in each state and by keyboard alone, says beside the field why it refuses a name, sends the form once, warns before a person leaves it, and makes no second key after a lost answer", async () => {
  const { view, page, admin, id } = await openScreen("seals");
  await view.goTo("Access");
  const calls = view.recordCalls();
  await view.press("Create key");
  await nameField(view).press("Enter");
  assertEquals(await view.focused(), "Name");
  assertEquals(calls.filter((name) => name === "create_api_key").length, 0);
  await nameField(view).fill(" ");
  await nameField(view).press("Enter");
  await view.shows("must have 1 to 100 characters, not only spaces");
  await nameField(view).fill("SI\u200bEM");
  await nameField(view).press("Enter");
  await view.shows("has a character that cannot be seen, U+200B: remove it.");
  const described = await nameField(view).getAttribute("aria-describedby") ?? "";
  const texts = described.match(/\S+/g)?.map((id) => page.locator(`[id="${id}"]`).innerText());
  assertStringIncludes((await Promise.all(texts ?? [])).join(), "U+200B");
  await view.assertAccessible("key-create");
  await nameField(view).fill("SIEM");
  await view.choose("Expires", "Never");
  const answer = Promise.withResolvers<void>();
  await page.route("**/rpc/create_api_key", async (route) => {
    await answer.promise;
    await route.fulfill(NO_DATABASE);
  }, { times: 1 });
  calls.length = 0;
  const asked = page.waitForRequest("**/rpc/create_api_key");
  await page.evaluate(`for (let i = 0; i < 3; i++) document.forms[0].requestSubmit()`);
  await page.getByRole("button", { name: "Cancel", disabled: true }).waitFor();
  await view.key("Escape");
  await page.evaluate("history.back()");
  await view.shows("If you leave now, the token is lost");
  await view.press("Stay");
  await asked;
  answer.resolve();
  await view.shows("The database does not answer. Try again in a minute. The key may exist");
  assertEquals(calls.filter((name) => name === "create_api_key").length, 1);
  await loseAnswer(page, "create_api_key");
  await nameField(view).press("Enter");
  await view.shows(
    "No answer from the server. Check your connection, then try again. The key may",
  );
  await nameField(view).press("Enter");
  await view.shows("An earlier attempt made this key");
  await view.press("Cancel");
  await view.row("SIEM").waitFor();
  const keys = (await listApiKeys(admin, id)).map(({ name, expires_at }) => [name, expires_at]);
  assertEquals(keys.filter(([name]) => name === "SIEM"), [["SIEM", null]]);
});

it("using a key takes five presses: the token is copied, and works, also with the command that is shown, which has no token in it. Beside it is the documentation", async () => {
  const { view, page, id } = await openLog([{ created_at: new Date().toISOString() }]);
  await view.goTo("Access");
  await view.press("Create key");
  await nameField(view).fill("SIEM");
  await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
  const token = await view.copy("Token");
  assertMatch(token, /^pck_[0-9A-Za-z]{38}$/);
  assertEquals((await (await get(token)).json()).organization_id, id);
  await view.press("I have stored the token");
  await view.row(hintOf(token)).getByText(/^now|second/).waitFor();
  assertEquals(await view.presses(), 5);
  const command = await view.copy("Try a key");
  const { answer, history } = await paste(command, token);
  const { organization_id, total } = JSON.parse(answer);
  assertEquals([organization_id, total], [id, 1]);
  assert(history.includes("curl") && !history.includes(token), history);
  await createInConsole(view);
  assertEquals(await view.copy("Try a key"), command);
  await closeToken(view);
  const documentation = page.waitForEvent("popup");
  await page.getByRole("link", { name: "Connect an application (new tab)" }).click();
  await (await documentation).getByRole("heading", { level: 1 }).waitFor();
});

it("rotating a key, accessible in each state, shows the successor's token, names its hint beside the old key, lets the old key work for the overlap, and explains a refusal by its code", async () => {
  const { view, page, admin, id, token: old } = await openScreen("keys");
  await view.openMenu("test", "Rotate …");
  await view.assertAccessible("key-rotate");
  const end7 = new RegExp(`The old key works until ${daysAgo(-7)} \\d\\d:\\d\\d UTC\\.`);
  await view.shows(end7);
  await view.press("Rotate key");
  const token = await shownToken(view);
  assertEquals((await get(old)).status, 200);
  await closeToken(view);
  await view.openMenu("rotated to", "Revoke …");
  await view.shows(`The new key ${hintOf(token)} has never been used: data will stop.`);
  await view.assertAccessible("key-revoke-rotated");
  await view.press("Cancel");
  assertEquals((await get(token)).status, 200);
  await view.row("rotated to").getByText(/^Expires in 7 days$/).waitFor();
  await view.openMenu("rotated to", "Revoke …");
  await view.shows(new RegExp(`^It was rotated\\. The new key ${hintOf(token)} was last used `));
  await view.press("Cancel");
  const keys = await listApiKeys(admin, id);
  const end = keys.find(({ successor_id }) => successor_id)?.expires_at ?? "";
  const days = (Date.parse(end) - Date.now()) / 86_400_000;
  assert(days > 6.9 && days <= 7, `${days} days`);
  const hint = hintOf(token);
  await view.row("Expires in").getByText(`rotated to ${hint}`).waitFor();
  await page.getByRole("searchbox").fill(hint.slice(-4));
  // The two keys have one name, so it confirms the end of neither.
  await view.openMenu("Active", "Revoke …");
  for (const typed of ["test", old.slice(-4)]) {
    await page.getByLabel(/^Type the last four/).fill(typed);
    assert(await view.button("Revoke key").isDisabled());
  }
  await view.press("Cancel");
  await loseAnswer(page, "rotate_api_key");
  await view.openMenu("test", "Rotate …");
  await view.press("Rotate key", "The key may exist anyway");
  await view.press("Rotate key", "rotate it with overlap 0");
});

it("revoking a key, accessible in each state, says when the key was used, and asks for the end of its hint. By keyboard alone, the key ends at once, also after a lost answer. The list shows who revoked it", async () => {
  const { view, page, admin, token } = await openScreen("keys", ({ token }) => get(token));
  await view.openMenu("test", "Revoke …");
  await view.shows(/^Last used (now|\d+ (second|minute)s? ago)\.$/);
  await view.assertAccessible("key-revoke");
  await page.getByLabel(/^Type the last four/).focus();
  await page.keyboard.type(token.slice(-4));
  await loseAnswer(page, "revoke_api_key");
  await view.key("Enter");
  await view.shows("The key may already be revoked. Trying again does no harm.");
  await view.key("Enter");
  await view.shows("is revoked. Every request with it is rejected.");
  // The button that opened the dialog is gone.
  assertEquals(await page.locator("main:focus").count(), 1);
  await page.getByText("All", { exact: true }).click();
  await view.row("test").getByText(`${today()} by ${admin.email}`).waitFor();
  assertEquals(await view.row("test").getByRole("button").count(), 0);
  await getProblem(401, token);
});
