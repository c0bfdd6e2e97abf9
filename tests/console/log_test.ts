// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { insertEntries, sql, writeEntries } from "../helpers/mod.ts";
import {
  CONSOLE_URL,
  daysAgo,
  hourly,
  NO_DATABASE,
  openConsole,
  openLog,
  openScreen,
  type Page,
  SCREENSHOTS,
  today,
} from "../helpers/browser.ts";

const MARCH_17 = "start=2026-03-17&end=2026-03-17";

/** The agents of all rows. The browser gives no inner text to rows that are out of sight. */
function agents(page: Page): Promise<string[]> {
  return page.getByRole("row").getByRole("cell").filter({ hasText: /^agent/ }).allTextContents();
}

describe("the log, accessible in each state", () => {
  it("shows every entry once over its pages, newest first, and the exact total. The address names the page. An entry that is closed leaves it scrolled as before. On a phone, the first entry is in the upper third", async () => {
    const entries = hourly(daysAgo(1), 103);
    const { view, page } = await openLog(entries, "range=90d");
    const seen: string[] = [];
    for (const [number, text] of ["1–50 of 103", "51–100 of 103", "101–103 of 103"].entries()) {
      await view.shows(`${text} entries, newest first`);
      seen.push(...await agents(page));
      if (number < 2) await view.press("Older entries");
    }
    assertEquals(seen, entries.map(({ agent_name }) => agent_name));
    assertStringIncludes(page.url(), "page=3");
    await view.assertAccessible("log");
    for (const width of [360, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const box = await page.getByRole("row").getByRole("link").first().boundingBox();
      assert(box && box.y + box.height <= 800 / 3, `at ${box?.y}`);
    }
    await page.goBack();
    await view.shows("51–100 of 103 entries");
    // Scrolls to the row, as a click would.
    await view.row("agent 90.").hover();
    const before = await page.evaluate<number>("scrollY");
    assert(before > 0);
    await view.row("agent 90.").click();
    await view.entry.waitFor();
    await view.close();
    assertEquals(await page.evaluate("scrollY"), before);
    await page.goto(`${page.url()}4`);
    await view.press("Show the last page", "101–103 of 103 entries");
  });

  it("is filtered by whole UTC days, typed by keyboard or pressed in the calendar, and by action, and a link restores all of it", async () => {
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
    // The last thing that the screen itself reads.
    await view.shows("The newest is from 2024-03-02");
    const calls = view.recordCalls();
    await view.assertAccessible("log-days", async () => {
      await view.press(/^Days/);
      await view.button(/^1 /).first().waitFor();
    });
    await view.key("Escape");
    await view.button(/^Days/).focus();
    await view.key("Enter");
    const refused = {
      "0002-01-01": "Type real days as YYYY-MM-DD",
      "2024-02-30": "Type real days as YYYY-MM-DD",
      "9999-12-31": "The last day is before the first",
    };
    for (const [day, error] of Object.entries(refused)) {
      await page.getByLabel("First day").fill(day);
      await view.key("Enter");
      await view.shows(error);
    }
    assertEquals(calls.filter((name) => name === "read_audit_log"), []);
    await page.getByLabel("First day").fill("2024-02-29");
    await view.key("Tab");
    await page.keyboard.type("2024-03-01");
    await view.key("Enter");
    await view.shows("1–2 of 2 entries");
    assertEquals(await agents(page), ["agent last", "agent first"]);
    await view.chooseAction("Feedback given");
    await view.shows("1–1 of 1 entry");
    const another = await openConsole(admin, new URL(page.url()).hash);
    await another.shows("1–1 of 1 entry");
    await page.goBack();
    await view.shows("1–2 of 2 entries");
    // By pointer, a press in the calendar shows a day, and the next one all days between.
    await view.press(/^Days/);
    await view.button("2 March 2024", true).click();
    await view.button("Days 2024-03-02 UTC").waitFor();
    await view.shows("1–1 of 1 entry");
    await view.button("1 March 2024", true).click();
    await view.button("Days 2024-03-01 – 2024-03-02").waitFor();
    await view.shows("1–2 of 2 entries");
  });

  it("has presets in UTC that move with the calendar, also at midnight, and copies a link with fixed days", async () => {
    const { view, page } = await openLog(
      ["2026-03-17", "2026-03-18"].map((day) => ({
        created_at: `${day}T00:00:00Z`,
        agent_name: `agent of ${day}`,
      })),
    );
    // In New York it is still Monday.
    await view.setTime("2026-03-17T01:00:00Z");
    await page.reload();
    await view.press(/^Days/);
    await page.locator("[aria-current=date]").getByText("17", { exact: true }).waitFor();
    await view.key("Escape");
    const presets = {
      "Yesterday": "2026-03-16",
      "7 days": "2026-03-11 – 2026-03-17",
      "Last week": "2026-03-09 – 2026-03-15",
      "30 days": "2026-02-16 – 2026-03-17",
      "90 days": "2025-12-18 – 2026-03-17",
      "This month": "2026-03-01 – 2026-03-17",
      "Last month": "2026-02-01 – 2026-02-28",
    };
    for (const [name, days] of Object.entries(presets)) {
      await view.chooseRange(name);
      await view.button(`Days ${days}`).waitFor();
    }
    assertStringIncludes(await view.copy("link"), "start=2026-02-01&end=2026-02-28");
    await view.chooseRange("Today");
    for (const day of ["2026-03-17", "2026-03-18"]) {
      await view.button(`Days ${day}`).waitFor();
      await view.row(`agent of ${day}`).waitFor();
      assertEquals(await agents(page), [`agent of ${day}`]);
      await page.clock.fastForward("23:30:00");
      await view.setVisibility("visible");
    }
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("shows a link that the browser does not copy, selected", async () => {
    const { view, page } = await openLog([]);
    await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error())");
    await view.press("Copy link");
    const field = page.getByLabel("The browser refused. Copy this:");
    const link = await field.inputValue();
    assertStringIncludes(link, `${CONSOLE_URL}#/`);
    assertEquals(await page.evaluate("String(getSelection())"), link);
  });

  it("is printed with its entries and the open one, black on white, and without buttons", async () => {
    const created_at = `${today()}T02:30:00.005Z`;
    const { view, page } = await openLog([{ created_at }], "range=today");
    await view.row("02:30:00.005").click();
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    await view.row(`${today()} 02:30:00.005`).waitFor();
    await view.entry.getByRole("button", { name: "ada@example.com" }).waitFor();
    const controls = page.locator("button:not(dd > button)");
    assertEquals(await controls.filter({ visible: true }).count(), 0);
    assertEquals(await page.getByRole("banner").count(), 0);
    const style = "getComputedStyle(document.body)";
    const colours = await page.evaluate(`[${style}.color, ${style}.backgroundColor]`);
    assertEquals(colours, ["rgb(22, 24, 29)", "rgb(255, 255, 255)"]);
    await page.pdf({ path: new URL("log.pdf", SCREENSHOTS).pathname, format: "A4" });
  });

  it("has the entries of today also where the browser's clock is 26 hours slow", async () => {
    const { view } = await openScreen(
      "log",
      ({ id }) => writeEntries(id, [{ created_at: `${today()}T00:00:00Z`, agent_name: "agent" }]),
      { prepare: (page) => page.clock.install({ time: Date.now() - 26 * 3_600_000 }) },
    );
    await view.shows("1–1 of 1 entry");
    await view.chooseRange("Today");
    await view.button(`Days ${today()}`).waitFor();
  });

  it("ignores wrong parts of a link, but tells the administrator what is wrong with days and actions, never ignores a filter, and names it where it finds nothing", async () => {
    const { view, page } = await openLog(
      [{ created_at: new Date().toISOString() }],
      "start=0002-01-01&end=x&action=nothing_known&page=-1&size=7&range=1e9&time=mars",
    );
    await view.shows(
      "The filter names an action that does not exist, one action twice, or more than 20.",
    );
    await view.shows("The link asks for “0002-01-01”, which is not a day from 1000-01-01 on.");
    await view.shows(`You see ${daysAgo(6)} – ${today()}.`);
    assert(!(await page.locator("main").innerText()).includes("list_actions"));
    await view.press("Action: Nothing known", "1–1 of 1 entry");
    await view.chooseAction("Feedback given");
    await view.shows("No entry of these days matches this filter");
    await view.assertAccessible("log-empty");
    const address = page.url().split("?")[0];
    await page.goto(`${address}?start=2026-02-28&end=2026-02-30`);
    await view.shows("The link asks for “2026-02-30”, which is not a day from 1000-01-01 on.");
    await page.goto(`${address}?start=2026-03-02&end=2026-03-01`);
    await view.shows("The link's last day, 2026-03-01, is before its first, 2026-03-02.");
    await page.goto(`${address}?end=2026-03-01`);
    await view.shows("The link has only one of two days.");
  });

  it("leads from days without entries to the newest one, and says of a new organization that it has none", async () => {
    const { view } = await openLog([], "user_email=ada@example.com");
    await view.shows(
      "No entry of these days matches this filter. Other days have none either.",
    );
    await view.press("Remove the filter", "Nothing is logged yet.");
    await view.assertAccessible("log-new");
    const old = await openLog([
      { created_at: "2024-02-29T00:00:00Z" },
      { created_at: "2024-02-28T00:00:00Z" },
    ]);
    await old.view.press("Show 2024-02-29", "1–1 of 1 entry");
  });

  it("is searched by the beginning of a person's address, whatever its capitals, and by several actions of the catalogue, which it explains. The address says both. Reads the seals of its days once", async () => {
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
    // The chart is there, so the seals have been read.
    await page.getByRole("listbox").waitFor();
    const calls = view.recordCalls();
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
    await page.getByRole("option").getByText("ada@example.com").waitFor();
    assertEquals(await page.getByRole("option").filter({ hasText: "@" }).count(), 1);
    const suggestions = await page.getByRole("listbox").filter({ hasText: "@" }).boundingBox();
    const next = await page.getByText("About", { exact: true }).boundingBox();
    assert(suggestions && next && suggestions.y + suggestions.height <= next.y);
    await person.press("Enter");
    await view.shows("1–2 of 2 entries");
    // The chart counts what the list shows.
    await page.getByText("2 entries", { exact: true }).waitFor();
    await view.press("Person: ada@example.com", "1–3 of 3 entries");
    await filter.click();
    const name = old.replaceAll("_", " ").replace("o", "O");
    await page.getByLabel("Find an action").fill(old);
    await page.getByText("Deprecated. Old", { exact: true }).first().waitFor();
    await page.getByRole("checkbox", { name, exact: true }).check();
    await page.getByLabel("Find an action").fill("activated for the organization");
    await page.getByRole("checkbox", { name: "Agent added", exact: true }).check();
    await person.fill("a");
    await page.getByRole("option").filter({ hasText: "@" }).first().waitFor();
    await view.press(/^Show$/, "1–2 of 2 entries");
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
    assert(calls.includes("daily_entry_counts"));
    assert(!calls.includes("list_seals"));
  });

  it("says to whoever looks for a person or an object that these days are only a part, and leads to the last 90", async () => {
    const { view, page } = await openLog([
      { created_at: `${today()}T00:00:00Z` },
      { created_at: `${daysAgo(40)}T00:00:00Z` },
    ]);
    await view.shows("1–1 of 1 entry");
    const more = view.button("Only these days. Show the last 90");
    assertEquals(await more.count(), 0);
    await view.button("Filter", true).click();
    await page.getByRole("textbox", { name: "About" }).fill(" c-1 ");
    await view.press(/^Show$/, "About: c-1");
    await view.shows("1–1 of 1 entry");
    await more.click();
    await view.shows("1–2 of 2 entries");
    assertEquals(await more.count(), 0);
  });

  it("dims the page and the chart while it reads", async () => {
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
    await dimmed.getByText("60 entries", { exact: true }).waitFor();
    const opacity = "getComputedStyle(document.querySelector('div[aria-busy=true]')).opacity";
    assertEquals(await page.evaluate(opacity), "0.5");
    held.resolve();
    await dimmed.first().waitFor({ state: "detached" });
  });

  it("says in a sentence what is wrong when a part of it cannot be read or it breaks, leads to the other screens, and recovers", async () => {
    const { view, page } = await openLog([{ created_at: new Date().toISOString() }]);
    // The first reading ignores a refresh.
    await view.shows("1–1 of 1 entry");
    await page.getByRole("listbox").waitFor();
    for (const name of ["read_audit_log", "daily_entry_counts", "list_seals"]) {
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
    await view.goTo("API keys");
    await view.row("test").waitFor();
    await page.goBack();
    await view.press("Try again", "1–1 of 1 entry");
  });

  it("shows new entries by itself while it follows, also one with an earlier time, and says that it shows today only", async () => {
    const { view, page, id } = await openLog([
      { created_at: `${daysAgo(3)}T00:00:00Z`, agent_name: "agent of earlier" },
      { created_at: new Date().toISOString(), agent_name: "agent 0" },
    ], "range=30d");
    await page.getByRole("listbox").waitFor();
    await view.press("Follow", `Following. 1 entry since ${today()} 00:00 UTC`);
    await view.button("Days Live, since today").waitFor();
    assertEquals(await page.getByRole("listbox").count(), 0);
    await writeEntries(id, [{ created_at: `${today()}T00:00:00Z`, agent_name: "agent 1" }]);
    await view.shows("Following. 2 entries");
    assertEquals(await agents(page), ["agent 1", "agent 0"]);
    await view.assertAccessible("log-following");
    await view.press("Stop following", "1–3 of 3 entries");
    await view.press("Follow", "Following. 2 entries");
    // Days have an end, so choosing some stops it, too.
    await view.chooseRange("7 days");
    await view.shows("1–3 of 3 entries");
  });
});

describe("following more entries than stay on the screen", () => {
  it("says that these are the latest 500, and leads to all of today", async () => {
    const { view } = await openScreen(
      `log?follow=true&${MARCH_17}`,
      ({ id }) => insertEntries(sql, id, today(), 501, { every: "1 second" }),
    );
    await view.shows("The latest 500 of 501 entries.");
    await view.press("Show all of today", "1–50 of 501 entries");
    await view.button(`Days ${today()}`).waitFor();
  });
});

function bars(page: Page) {
  return page.getByRole("listbox").getByRole("option");
}

describe("the chart of days", () => {
  it("draws at most 120 bars, names each day with its entries, and shows the days that a person drags over or chooses by keyboard", async () => {
    const { view, page } = await openLog([
      { created_at: "1000-01-01T00:00:00Z" },
      { created_at: "9999-12-31T23:59:59Z" },
      ...[1, 2, 3].flatMap((days) => hourly(daysAgo(days), days)),
    ], "start=1000-01-01&end=9999-12-31");
    await page.getByText("8 entries", { exact: true }).waitFor();
    await page.getByRole("option", { name: /9999-12-31: 1 entry/ }).waitFor();
    assert(await bars(page).count() <= 120);
    await view.chooseRange("30 days");
    await page.getByRole("option", { name: `${daysAgo(2)}: 2 entries` }).waitFor();
    assertEquals(await bars(page).count(), 30);
    await page.getByText("6 entries", { exact: true }).waitFor();
    const from = page.getByRole("option", { name: daysAgo(3) });
    await from.dragTo(page.getByRole("option", { name: daysAgo(2) }));
    await view.shows("1–5 of 5 entries");
    assertStringIncludes(page.url(), `?start=${daysAgo(3)}&end=${daysAgo(2)}`);
    await page.goBack();
    await view.shows("1–6 of 6 entries");
    await page.getByRole("option", { name: today() }).focus();
    await view.key("ArrowLeft", "ArrowLeft", "Shift+ArrowLeft", "Enter");
    await view.shows("1–5 of 5 entries");
    assertStringIncludes(page.url(), `?start=${daysAgo(3)}&end=${daysAgo(2)}`);
  });

  it("has a bar for each hour of up to 7 days, names the bar beside the pointer and keeps the total, and leads to that hour's page", async () => {
    const day = daysAgo(1);
    const noon = { created_at: `${day}T12:00:00Z` };
    const { view, page } = await openLog([
      { created_at: `${day}T08:59:59.999Z` },
      { created_at: `${day}T09:00:00Z` },
      { created_at: `${day}T09:59:59Z` },
      ...Array(50).fill(noon),
    ]);
    const nine = page.getByRole("option", { name: `${day} 09:00 UTC: 2 entries` });
    await nine.waitFor();
    assertEquals(await bars(page).count(), 7 * 24);
    const chart = page.locator("figure");
    await chart.getByText(daysAgo(6), { exact: true }).waitFor();
    await nine.hover();
    const caption = chart.getByText(`${day} 09:00 UTC: 2 entries, not yet sealed`);
    await caption.waitFor();
    const [named, bar] = [await caption.boundingBox(), await nine.boundingBox()];
    assert(named && bar && named.x <= bar.x && bar.x <= named.x + named.width);
    await chart.getByText("53 entries", { exact: true }).waitFor();
    await nine.click();
    await chart.getByText("20:00", { exact: true }).waitFor();
    assertEquals(await bars(page).count(), 24);
    assertStringIncludes(page.url(), `?start=${day}&end=${day}`);
    await nine.click();
    await view.shows("51–53 of 53 entries");
    await view.row("09:59:59.000").waitFor();
  });
});
