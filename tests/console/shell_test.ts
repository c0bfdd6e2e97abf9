// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addMember, CONSOLE_URL, createApiKey, daysAgo, get, hourly } from "../helpers/browser.ts";
import { newAdmin, newOrganization, openConsole, openLog, openScreen } from "../helpers/browser.ts";
import { runUpkeep, signUp, sql, today, writeEntries } from "../helpers/browser.ts";

describe("by keyboard alone", () => {
  it("a person skips the navigation, reaches each row by Tab, opens, leafs through and closes entries, also when text is selected", async () => {
    const { view, page } = await openLog([1, 2, 3].map((n) => ({
      created_at: `${today()}T00:00:0${n}Z`,
      agent_name: `agent ${n}`,
    })));
    await view.shows("1–3 of 3 entries");
    await view.key("Tab");
    assertEquals(await view.focused(), "Skip to the content");
    const address = page.url();
    await view.key("Enter", "Tab");
    assertEquals(await view.focused(), "Refresh");
    assertEquals(page.url(), address);
    await page.getByRole("heading", { name: "Activity" }).selectText();
    await view.tabTo(/^20\d\d-.* 00:00:03/);
    await view.tabTo(/00:00:02/);
    await view.key("Enter");
    await view.entry.getByText("agent 2").first().waitFor();
    await view.tabTo(/^Older entry/);
    await view.key("Enter");
    await view.entry.getByText("agent 1").first().waitFor();
    await view.button("Newer entry").press("Enter");
    await view.button("Newer entry").press("Enter");
    await view.entry.getByText("agent 3").first().waitFor();
    await view.close();
    assertMatch(await view.focused(), /00:00:03/);
  });

  it("a row that gets the focus is never behind the head of the table", async () => {
    const { view, page } = await openLog(hourly(daysAgo(1), 50));
    await view.row("agent 45.").getByRole("link").first().focus();
    for (let row = 45; row > 5; row--) {
      await view.key("Shift+Tab");
      await view.assertFocusSeen();
    }
    assertEquals(await page.evaluate("scrollY > 0"), true);
  });

  it("a person chooses an organization, which are in numeric order (2 before 10), and keeps the focus", async () => {
    const { admin } = await newAdmin("Of many");
    const names = ["Customer 1", "Customer 2", "Customer 10"];
    for (const name of names.toReversed()) await newOrganization(admin, name);
    const view = await openConsole(admin);
    await view.tabTo(/^Organization$/);
    const options = view.page.getByRole("option", { name: /^Customer/ });
    assertEquals(await options.allTextContents(), names);
    await view.key("ArrowDown");
    await view.shows("No entries");
    assertEquals(await view.focused(), "Organization");
  });
});

it("a dialog gives the focus back when it closes, also when its menu is gone", async () => {
  const { view, page } = await openLog([]);
  const opened: [button: string, item?: string][] = [
    ["Export"],
    ["Create key"],
    ["Actions for test", "Rotate …"],
  ];
  for (const [name, item] of opened) {
    if (name === "Create key") await view.goTo("Access");
    await view.button(name).click();
    if (item) await page.getByRole("menuitem", { name: item }).click();
    await page.locator("section[role=dialog] :focus").waitFor();
    await view.close();
    assertMatch(await view.focused(), new RegExp(`^${name}`), item);
  }
});

it("with forced colours, bars, the present room, a dialog, and what is chosen can be told", async () => {
  const { view, page, id } = await openLog(hourly(daysAgo(1), 60));
  await page.emulateMedia({ forcedColors: "active" });
  await page.getByRole("row").nth(1).click();
  await view.entry.waitFor();
  const style = (selector: string, property: string) =>
    page.evaluate<string>(
      `getComputedStyle(document.querySelector(${JSON.stringify(selector)})).${property}`,
    );
  assertEquals(await style("nav [aria-current]", "outlineStyle"), "solid");
  const paper = await style("body", "backgroundColor");
  const bar = "figure a > div:not([style='height: 0%;'])";
  assertNotEquals(await style(bar, "backgroundColor"), paper);
  assertEquals(await style("section[role=dialog]", "borderStyle"), "solid");
  await page.goto(`${CONSOLE_URL}#/${id}/streams/new`);
  await page.getByRole("radio").first().waitFor();
  assertEquals(await style("[role=radio][aria-checked=true]", "outlineStyle"), "solid");
  assertEquals(await style("input:checked", "forcedColorAdjust"), "none");
});

it("tables that have the room show a row as a row, also on a tablet, and on a phone as a card", async () => {
  const { view, page } = await openScreen("keys", async ({ admin, id, token }) => {
    await get(token);
    await createApiKey(admin, id, "W".repeat(100));
    await writeEntries(id, hourly(daysAgo(1), 3));
    await runUpkeep(sql);
  });
  const widths = [[780, true], [1000, true], [1199, true], [600, false]] as const;
  for (const screen of ["Access", "Readers", "Integrity"] as const) {
    await view.goTo(screen);
    if (screen === "Integrity") await page.getByText("Days", { exact: true }).click();
    await page.locator("tbody tr").first().waitFor();
    for (const [width, isRow] of widths) {
      await page.setViewportSize({ width, height: 900 });
      const heads = page.getByRole("columnheader").first();
      assertEquals(await heads.isVisible(), isRow, `${screen} at ${width}`);
      const height = await view.highestRow();
      assert(!isRow || height <= 75, `${screen} at ${width}: a row of ${height} pixels`);
    }
  }
});

describe("the console around its screens", () => {
  it("closes a dropdown when Back leads to another list", async () => {
    const { view, page } = await openLog([{ created_at: `${daysAgo(1)}T00:00:00Z` }]);
    await view.shows("1–1 of 1 entry");
    await view.chooseRange("Today");
    await view.shows("No entries");
    await view.button("Filter", true).click();
    await page.getByRole("combobox", { name: "Person" }).waitFor();
    await page.goBack();
    await view.shows("1–1 of 1 entry");
    await page.getByRole("combobox", { name: "Person" }).waitFor({ state: "hidden" });
  });

  it("leads from an unknown address to the activity", async () => {
    const { view, page, id } = await openScreen("nonsense");
    for (const address of [`${id}/nonsense/deeper`, `${id}/log/deeper`, `${id}/`]) {
      await view.shows("These days have none.");
      assertMatch(page.url(), /\/log$/);
      await page.goto(`${CONSOLE_URL}#/${address}`);
    }
    await page.goto(`${CONSOLE_URL}#/a/b/c`);
    await view.shows("You may not read the organization in the address.");
  });

  it("has no destinations, and offers none, where the service is installed without streams", async () => {
    // As PostgREST answers for a function that is not there.
    const json = { code: "PGRST202", message: "", details: null, hint: null };
    const { view, page } = await openScreen("streams", undefined, {
      prepare: (page) =>
        page.route("**/rpc/list_streams", (route) => route.fulfill({ status: 404, json })),
    });
    await view.shows("These days have none.");
    assertMatch(page.url(), /\/log/);
    const rooms = await page.getByRole("navigation", { name: "Rooms" }).getByRole("link")
      .allTextContents();
    assertEquals(rooms, ["Activity", "Access", "Integrity", "Settings"]);
    assertEquals(view.complaints, []);
  });

  it("shows an auditor five rooms, but no API key, and lets them change nothing", async () => {
    const { id, apiKeyId } = await newAdmin("Of an auditor");
    const auditor = await signUp();
    await addMember(id, auditor, "auditor");
    const view = await openConsole(auditor, `#/${id}/keys`);
    await view.shows("No entries");
    assertMatch(view.page.url(), /\/log\b/);
    const screens = view.page.getByRole("navigation", { name: "Rooms" }).getByRole("link");
    assertEquals(await screens.allInnerTexts(), [
      "Activity",
      "Destinations",
      "Access",
      "Integrity",
      "Settings",
    ]);
    await view.goTo("Destinations");
    await view.shows("No destinations yet");
    assertEquals(await view.button(/^Create/).count(), 0);
    await view.goTo("Access");
    await view.row("Person").getByText(auditor.email).waitFor();
    assertEquals((await view.page.content()).includes(apiKeyId), false);
    await view.goTo("Integrity");
    await view.shows("Nothing is sealed yet");
    await view.goTo("Settings");
    await view.shows("Entries are kept for ever.");
  });
});
