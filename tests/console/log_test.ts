// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { daysAgo, hourly, NO_DATABASE, openConsole, openLog } from "../helpers/browser.ts";
import { openScreen, type Page, sql, today, writeEntries } from "../helpers/browser.ts";

/** The agents of all rows. The browser gives no inner text to rows that are out of sight. */
function agents(page: Page): Promise<string[]> {
  return page.getByRole("row").getByRole("cell").filter({ hasText: /^agent/ }).allTextContents();
}

it("the log, accessible in each state, shows every entry once, newest first, also those that arrive while a person loads more, and the exact total. An entry that is closed leaves the list scrolled as before. On a phone, the first entry is in the upper third", async () => {
  const entries = hourly(daysAgo(1), 402);
  const { view, page, id } = await openLog(entries, "range=90d");
  await view.shows("1–50 of 402 entries, newest first");
  await view.assertAccessible("log");
  await writeEntries(id, [{ created_at: new Date().toISOString(), agent_name: "agent new" }]);
  await view.press("Load more", "1–299 of 403 entries, newest first");
  await view.press("Load more", "1–402 of 403 entries, newest first");
  assertEquals(await agents(page), entries.map(({ agent_name }) => agent_name));
  for (const width of [360, 390]) {
    await page.setViewportSize({ width, height: 800 });
    const box = await page.getByRole("row").getByRole("link").first().boundingBox();
    assert(box && box.y + box.height <= 800 / 3, `at ${box?.y}`);
  }
  // Scrolls to the row, as a click would.
  await view.row("agent 90.").hover();
  const before = await page.evaluate<number>("scrollY");
  assert(before > 0);
  await view.row("agent 90.").click();
  await view.entry.waitFor();
  await view.close();
  assertEquals(await page.evaluate("scrollY"), before);
});

it("the log, accessible in each state, is filtered by whole UTC days, typed by keyboard in any order, and by action, and a link restores all of it", async () => {
  const { view, page, admin } = await openLog([
    { created_at: "2024-02-28T23:59:59.999Z", agent_name: "agent before" },
    { created_at: "2024-02-29T00:00:00Z", agent_name: "agent first" },
    {
      created_at: "2024-03-01T23:59:59.999Z",
      agent_name: "agent last",
      action: "feedback_given",
    },
    { created_at: "2024-03-02T00:00:00Z", agent_name: "agent after" },
  ]);
  await view.shows("These days have none.");
  const calls = view.recordCalls();
  await view.chooseDays("", "2024-02-29");
  await view.chooseDays("0002-01-01", "2024-02-29");
  assertEquals(calls.filter((name) => name === "read_audit_log"), []);
  await view.chooseDays("2024-03-01", "2024-02-29");
  await view.shows("1–2 of 2 entries");
  await view.hasDays("2024-02-29", "2024-03-01");
  assertEquals(await agents(page), ["agent last", "agent first"]);
  await view.chooseAction("Feedback given");
  await view.shows("1–1 of 1 entry");
  const another = await openConsole(admin, new URL(page.url()).hash);
  await another.shows("1–1 of 1 entry");
  await page.goBack();
  await view.shows("1–2 of 2 entries");
});

it("the log, accessible in each state, has presets in UTC that move with the calendar, also at midnight, and copies a link with fixed days, or shows it if the browser does not copy", async () => {
  const { view, page } = await openLog(
    ["2026-03-17", "2026-03-18"].map((day) => ({
      created_at: `${day}T00:00:00Z`,
      agent_name: `agent of ${day}`,
    })),
  );
  // In New York it is still Monday.
  await view.setTime("2026-03-17T01:00:00Z");
  await page.reload();
  const presets: Record<string, [start: string, end?: string]> = {
    "7 days": ["2026-03-11", "2026-03-17"],
    "30 days": ["2026-02-16", "2026-03-17"],
    "Last quarter": ["2025-10-01", "2025-12-31"],
    "Year": ["2025-03-18", "2026-03-17"],
    "All": ["1000-01-01", "9999-12-31"],
    "90 days": ["2025-12-18", "2026-03-17"],
  };
  for (const [name, days] of Object.entries(presets)) {
    await view.chooseRange(name);
    await view.hasDays(...days);
  }
  const link = await view.copy("link");
  assertStringIncludes(link, "start=2025-12-18&end=2026-03-17");
  await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error())");
  await view.press(/^Cop(ied|y link)$/);
  const shown = await page.getByText("The browser refused. Copy this:").innerText();
  assertStringIncludes(shown, link);
  await view.chooseRange("Today");
  for (const day of ["2026-03-17", "2026-03-18"]) {
    await view.hasDays(day);
    await view.row(`agent of ${day}`).waitFor();
    assertEquals(await agents(page), [`agent of ${day}`]);
    await page.clock.fastForward("23:30:00");
    await view.setVisibility("visible");
  }
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

it("the log, accessible in each state, has the entries of today also where the browser's clock is 26 hours slow", async () => {
  const { view } = await openScreen(
    "log",
    ({ id }) => writeEntries(id, [{ created_at: `${today()}T00:00:00Z`, agent_name: "agent" }]),
    { prepare: (page) => page.clock.install({ time: Date.now() - 26 * 3_600_000 }) },
  );
  await view.shows("1–1 of 1 entry");
  await view.chooseRange("Today");
  await view.hasDays(today());
});

it("the log, accessible in each state, ignores wrong parts of a link, but tells the administrator what is wrong with days and actions, never ignores a filter, and names it where it finds nothing", async () => {
  const { view, page } = await openLog(
    [{ created_at: new Date().toISOString() }],
    "start=0002-01-01&end=x&action=nothing_known&entry=7&at=x&range=1e9&time=mars",
  );
  await view.shows(
    "The filter names an action that does not exist, one action twice, or more than 20.",
  );
  const wrong = (start: string, end: string) =>
    view.shows(`The link asks for days from “${start}” to “${end}”, which are no range after`);
  await wrong("0002-01-01", "x");
  await view.shows(`You see ${daysAgo(6)} – ${today()}.`);
  assert(!(await page.locator("main").innerText()).includes("list_actions"));
  await view.press("Action: Nothing known", "1–1 of 1 entry");
  await view.chooseAction("Feedback given");
  await view.shows("No entry of these days matches this filter");
  await view.assertAccessible("log-empty");
  const address = page.url().split("?")[0];
  await page.goto(`${address}?start=2026-02-28&end=2026-02-30`);
  await wrong("2026-02-28", "2026-02-30");
  await page.goto(`${address}?start=2026-03-02&end=2026-03-01`);
  await wrong("2026-03-02", "2026-03-01");
  await page.goto(`${address}?end=2026-03-01`);
  await wrong("", "2026-03-01");
});

it("the log, accessible in each state, leads from days and a filter without entries to all time, and says of a new organization that it has none", async () => {
  const { view } = await openLog([], "user_email=ada@example.com");
  await view.shows("No entry of these days matches this filter.");
  await view.press("Remove the filter", "These days have none.");
  await view.press("Show all time", "Nothing is logged yet.");
  await view.assertAccessible("log-new");
});

it("the log, accessible in each state, is searched by the beginning of a person's address, whatever its capitals, and by several actions of the catalogue, which it explains. The address says both", async () => {
  const old = `old_${crypto.randomUUID().replaceAll("-", "_")}`;
  // So many that they can be searched.
  await sql`
    insert into audit_log.actions (code, description, deprecated_at)
    select ${old} || n, 'Old', now() from unnest(array['', '2', '3']) as n`;
  const at = (second: number) => ({ created_at: `${today()}T00:00:0${second}Z` });
  const { view, page } = await openLog([
    { ...at(1), user_email: "Ada@example.com", action: old },
    { ...at(2), user_email: "ada@example.com", action: "agent_added" },
    { ...at(3), user_email: "bob@example.com", action: "agent_added" },
  ]);
  await view.shows("1–3 of 3 entries");
  const filter = view.button("Filter", true);
  const person = page.getByRole("combobox", { name: "Person" });
  await view.assertAccessible("log-filter", async () => {
    await filter.click();
    await person.waitFor();
  });
  await person.fill("nobody");
  await person.press("Enter");
  await view.shows("No entry is by a person whose address begins with this.");
  await person.fill("");
  await person.pressSequentially(" ADA@");
  await page.locator("datalist option[value='ada@example.com']:only-child").waitFor({
    state: "attached",
  });
  await person.press("Enter");
  await view.shows("1–2 of 2 entries");
  // The chart counts what the list shows.
  await page.getByRole("link", { name: `${today()}: 2 entries` }).waitFor();
  await view.press("Person: ada@example.com", "1–3 of 3 entries");
  await filter.click();
  const name = old.replaceAll("_", " ").replace("o", "O");
  await page.getByLabel("Find an action").fill(old);
  await page.getByText("Deprecated. Old", { exact: true }).first().waitFor();
  await page.getByRole("checkbox", { name, exact: true }).check();
  await page.getByLabel("Find an action").fill("activated for the organization");
  await page.getByRole("checkbox", { name: "Agent added", exact: true }).check();
  await person.fill("a");
  await view.applyFilter();
  await view.shows("1–2 of 2 entries");
  const address = new URLSearchParams(page.url().split("?")[1]);
  assertEquals(address.get("action"), `${old},agent_added`);
  assertEquals(address.get("user_email"), "ada@example.com");
  await view.press(`Action: ${name}`, "1–1 of 1 entry");
  await page.goBack();
  await view.shows("1–2 of 2 entries");
  await page.goto(
    `${page.url().split("?")[0]}?action=agent_added,${old}&user_email=BOB@example.com`,
  );
  await view.shows("1–1 of 1 entry");
  await view.row("bob@example.com").waitFor();
});

it("the log, accessible in each state, says to whoever looks for a person or an object that these days are only a part, and leads to all of them", async () => {
  const { view, page } = await openLog([
    { created_at: `${today()}T00:00:00Z` },
    { created_at: "2024-02-29T00:00:00Z" },
  ]);
  await view.shows("1–1 of 1 entry");
  const more = view.button("Only these days. Show all time");
  assertEquals(await more.count(), 0);
  await view.button("Filter", true).click();
  await page.getByRole("textbox", { name: "Target or value" }).fill(" c-1 ");
  await view.applyFilter();
  await view.shows("Target or value: c-1");
  await view.shows("1–1 of 1 entry");
  await more.click();
  await view.shows("1–2 of 2 entries");
  assertEquals(await more.count(), 0);
});

it("the log, accessible in each state, dims the page and the chart while it reads", async () => {
  const { view, page } = await openLog(hourly(daysAgo(1), 60));
  await view.shows("1–50 of 60 entries");
  const held = Promise.withResolvers<void>();
  await page.route(/read_audit_log|daily_entry_counts/, async (route) => {
    await held.promise;
    await route.continue();
  });
  const dimmed = page.locator("[aria-busy=true]");
  await view.chooseRange("30 days");
  await dimmed.getByText("1–50 of 60 entries").waitFor();
  await dimmed.getByRole("link", { name: /: \d+ entries/ }).first().waitFor();
  const opacity = "getComputedStyle(document.querySelector('div[aria-busy=true]')).opacity";
  assertEquals(await page.evaluate(opacity), "0.5");
  held.resolve();
  await dimmed.first().waitFor({ state: "detached" });
});

it("the log, accessible in each state, says in a sentence what is wrong when a part of it cannot be read or it breaks, leads to the other screens, and recovers", async () => {
  const { view, page } = await openLog([{ created_at: new Date().toISOString() }]);
  // The first reading ignores a refresh.
  await view.shows("1–1 of 1 entry");
  await bars(page).first().waitFor();
  for (const name of ["read_audit_log", "daily_entry_counts"]) {
    await page.route(`**/rpc/${name}`, (route) => route.fulfill(NO_DATABASE));
    await view.press("Refresh", "The database does not answer. Try again in a minute.");
    assertEquals(await page.getByText("PGRST002").count(), 0);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await view.press("Try again");
    await page.getByText("The database does not answer").waitFor({ state: "hidden" });
  }
  const text = { id: "", action: "", user_email: "", agent_name: "" };
  const json = { total: 1, items: JSON.stringify([{ ...text, created_at: "never", data: {} }]) };
  await page.route("**/rpc/read_audit_log", (route) => route.fulfill({ json }), { times: 1 });
  await view.press("Refresh", "This page has broken (RangeError");
  await view.goTo("Access");
  await view.row("test").waitFor();
  await page.goBack();
  await view.press("Try again", "1–1 of 1 entry");
});

it("new entries are counted each minute, also one with an earlier time, but not while the page is hidden, and shown when asked for", async () => {
  const { view, page, id } = await openScreen(
    "log",
    ({ id }) => writeEntries(id, hourly(today(), 60)),
    { prepare: (page) => page.clock.install() },
  );
  await view.shows("1–50 of 60 entries");
  await writeEntries(id, [
    { created_at: `${today()}T23:30:00Z`, agent_name: "agent new" },
    { created_at: `${daysAgo(1)}T00:00:00Z`, agent_name: "agent late" },
  ]);
  await page.clock.fastForward("01:01");
  await view.button("2 new entries").waitFor();
  await view.assertAccessible("log-new-entries");
  await view.press("2 new entries", "1–50 of 62 entries");
  await view.row("agent new").waitFor();
  await view.button("Refresh", true).waitFor();
  await view.setVisibility("hidden");
  const calls = view.recordCalls();
  await page.clock.runFor("03:00");
  assertEquals(calls, []);
});

function bars(page: Page) {
  return page.getByRole("list", { name: "Entries by day" }).getByRole("link");
}

it("the chart of days draws at most 30 bars, which name their days and entries and lead to them", async () => {
  const { view, page } = await openLog([
    { created_at: "1000-01-01T00:00:00Z" },
    { created_at: "9999-12-31T23:59:59Z" },
    ...[1, 2, 3].flatMap((days) => hourly(daysAgo(days), days)),
  ], "range=all");
  await page.getByRole("link", { name: /9999-12-31: 1 entry/ }).waitFor();
  assert(await bars(page).count() <= 30);
  await view.chooseRange("30 days");
  const day = page.getByRole("link", { name: `${daysAgo(2)}: 2 entries` });
  await day.waitFor();
  assertEquals(await bars(page).count(), 30);
  await view.assertAccessible("log-chart");
  await page.getByRole("link", { name: `${daysAgo(3)}: 3 entries` }).focus();
  await view.key("Tab", "Enter");
  await view.shows("1–2 of 2 entries");
  assertStringIncludes(page.url(), `start=${daysAgo(2)}&end=${daysAgo(2)}`);
  await bars(page).first().waitFor({ state: "hidden" });
  await page.goBack();
  await view.shows("1–6 of 6 entries");
  await view.chooseRange("90 days");
  await page.getByRole("link", { name: /^20\d\d-\d\d-\d\d – / }).last().click();
  await view.hasDays(daysAgo(2), today());
  await view.shows("1–3 of 3 entries");
});
