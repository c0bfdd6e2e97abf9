// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL, CONSOLE_URL, insertEntries, newAdmin } from "../helpers/browser.ts";
import { NO_DATABASE, openConsole, openScreen, runUpkeep, sql } from "../helpers/browser.ts";
import { valueOf, writeEntries } from "../helpers/browser.ts";
import { runDeno } from "../helpers/run_program.ts";

const CLI = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** The latest seal of an organization, as people save it. */
async function latestSeal(id: string): Promise<string> {
  return await valueOf(sql`
    select sequence || ':' || seal from audit_log_private.seals
    where organization_id = ${id} order by sequence desc limit 1`);
}

it("seals, accessible in each state, are told in a line, and shown by day as sealed or altered", async () => {
  const { admin, id } = await newAdmin();
  const write = (...times: string[]) =>
    writeEntries(id, times.map((time) => ({ created_at: `2026-${time}:00:00Z` })));
  await write("03-01T12");
  await runUpkeep(sql);
  await sql`delete from audit_log.audit_entries where organization_id = ${id}`;
  for (const times of [["03-01T13"], ["03-02T12", "03-02T13"], ["05-01T12"], ["02-28T12"]]) {
    await write(...times);
    await runUpkeep(sql);
  }
  await write("03-02T14", "03-03T12");
  // As the upkeep marks a day whose entries were changed behind the triggers.
  await sql`
    update audit_log_private.sealed_days set altered_at = '2026-03-09T01:02:03Z'
    where organization_id = ${id} and day = '2026-03-01'`;
  const view = await openConsole(admin, `#/${id}/seals?days=true`);
  const { page } = view;
  await view.shows("4 days sealed, 1 altered since 2026-03-01");
  const altered = await view.row("2026-03-01").innerText();
  assertMatch(altered, /Altered\s+Sealed 20\S+ \S+ Found altered 2026-03-09 01:02:03/);
  assertMatch(altered, /Since its first seal: 1 added, 1 removed/);
  await view.row("2026-03-02").getByText("Sealed", { exact: true }).waitFor();
  await view.row("2026-02-28").getByText("First sealed after 2026-05-01: its entries came late")
    .waitFor();
  const days = await page.getByRole("rowheader").allInnerTexts();
  assertEquals(days, ["2026-05-01", "2026-03-02", "2026-03-01", "2026-02-28"]);
  const alert = page.getByRole("alert");
  await alert.getByText("2026-03-01 was altered after sealing.").waitFor();
  assertEquals(await alert.count(), 1);
  await view.shows("What to do about an altered day");
  const how = page.getByRole("link", { name: "find what was changed" });
  const { pathname, hash } = new URL(await how.evaluate((link) => String(link)));
  const answer = await fetch(`${CONSOLE_URL}${pathname.slice(1)}`);
  assertStringIncludes(await answer.text(), `id="${hash.slice(1)}"`);
  await view.assertAccessible("seals");
  await page.getByRole("group").getByRole("link", { name: "2026-03-01" }).first().click();
  await view.hasDays("2026-03-01");
  await page.goBack();
  assertEquals(await page.getByText("UTC").count(), 1);
  await page.goto(`${CONSOLE_URL}#/${id}/log?start=2026-03-01&end=2026-03-09`);
  await alert.getByRole("link", { name: "What to do" }).waitFor();
  await view.assertAccessible("log-altered");
  // Of any age, on every screen.
  for (const screen of ["log?range=7d", "usage", "keys"]) {
    await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
    await page.getByRole("alert").getByText("2026-03-01 was altered after sealing.").waitFor();
  }
});

it("seals, accessible in each state, are all shown when there are more than a page of them, and downloaded as the file with which verify proves exported days without network", async () => {
  const { view, page, id, token } = await openScreen(
    "seals?days=true",
    async ({ id }) => {
      await insertEntries(sql, id, "2020-01-01", 1005, { every: "1 day" });
      await runUpkeep(sql);
    },
  );
  await view.shows("1,005 days sealed, 0 altered since 2020-01-01");
  await view.row("2022-10-01").getByText("Sealed", { exact: true }).waitFor();
  assertEquals(await page.getByText("Sealed", { exact: true }).count(), 1005);
  await page.setViewportSize({ width: 375, height: 812 });
  const height = await view.highestRow();
  assert(height <= 72, `${height} pixels a day`);
  const saved = await latestSeal(id);
  const { name, path } = await view.download("Download seals");
  assertEquals(name, "seals.json");

  const cwd = await Deno.makeTempDir();
  const run = async (permissions: string[], ...args: string[]) => {
    const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token };
    const ended = await runDeno({ args: ["run", ...permissions, CLI, ...args], cwd, env });
    assertEquals(ended.code, 0, ended.stderr);
    return ended.stdout;
  };
  await run(["-A"], "export", "--days=days", "--start=2022-09-28", "--end=2022-10-01");
  const offline = ["--allow-all", "--deny-net"];
  assertEquals(
    await run(offline, "verify", "days", `--seals=${path}`, `--saved=${saved}`),
    "Other sealed days, which are not asked for: 1001\n" +
      `All is as it was sealed. The chain has the seal that you saved. Save this: ${saved}\n`,
  );
  await Deno.remove(cwd, { recursive: true });
});

it("seals, accessible in each state, are saved and checked with three presses, also by the link in the saved file. A chain that was rewritten is told from the one that was saved. Seals that cannot be read say so once", async () => {
  const { view, page, admin, id } = await openScreen("log", async ({ id }) => {
    await insertEntries(sql, id, "2026-03-01", 3, { every: "1 day" });
    await runUpkeep(sql);
  });
  await view.goTo("Integrity");
  await view.shows("3 days sealed, 0 altered since 2026-03-01");
  const { name, path } = await view.download("Save today's seal");
  assertEquals(name, "seal-3.txt");
  const file = await Deno.readTextFile(path);
  const saved = await latestSeal(id);
  await view.press("Check a saved seal");
  assertEquals(await view.focused(), "Saved seal");
  await page.keyboard.insertText(file);
  await view.shows("Unchanged since seal 3");
  assertEquals(await view.presses(), 3);
  await view.assertAccessible("seals-checked");

  const link = file.match(/https?:\S+/)?.[0] ?? "";
  const later = await openConsole(admin, link.slice(link.indexOf("#")));
  await later.shows("Unchanged since seal 3");
  const field = page.getByLabel("Saved seal");
  for (
    const [text, answer] of [
      ["3:".padEnd(66, "0"), "Seal 3 of 2026-03-03 (made"],
      [`4${saved.slice(1)}`, "is not there, the last is 3"],
      ["<b>", "This is no seal."],
    ] as const
  ) {
    await field.fill(text);
    await view.shows(answer);
  }
  await later.page.route("**/rpc/list_seals", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace('"entries" : 1', '"entries" : 2');
    await route.fulfill({ response, body });
  });
  await later.page.reload();
  await later.shows("is not the hash of what it says: it was changed");
  await later.assertAccessible("seals-rewritten");
  await later.page.route("**/rpc/list_seals", (route) => route.fulfill(NO_DATABASE));
  await later.page.reload();
  await later.page.getByText("The database does not answer.").waitFor();
  assertEquals(await later.page.getByRole("alert").count(), 1);
});
