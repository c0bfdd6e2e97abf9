import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { newOrganization, sql } from "../helpers.ts";
import {
  CONSOLE_URL,
  entryPanel,
  focused,
  newAdmin,
  NO_DATABASE,
  openConsole,
  openLog,
  openPage,
  openScreen,
  shows,
  tabTo,
  today,
} from "./browser.ts";

describe("by keyboard alone", () => {
  it("the first press of Tab leads to a link past the navigation", async () => {
    const { page } = await openScreen("log");
    await shows(page, "No entries");
    await page.keyboard.press("Tab");
    assertEquals(await focused(page), "Skip to the content");
    const address = page.url();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assertEquals(await focused(page), "Follow");
    assertEquals(page.url(), address);
  });

  it("Enter opens the row of the log that one tabs to, also when text is selected, and J, K and Escape go on", async () => {
    const { page } = await openLog([1, 2, 3].map((n) => ({
      created_at: `${today()}T00:00:0${n}Z`,
      agent_name: `agent ${n}`,
    })));
    await shows(page, "1–3 of 3 entries");
    await page.getByRole("heading", { name: "Log" }).selectText();
    await tabTo(page, /^20\d\d-.* 00:00:02\.000/);
    await page.keyboard.press("Enter");
    const panel = entryPanel(page);
    await panel.getByText("agent 2").waitFor();
    await page.keyboard.press("j");
    await panel.getByText("agent 1").waitFor();
    await page.keyboard.press("k");
    await page.keyboard.press("k");
    await panel.getByText("agent 3").waitFor();
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "hidden" });
    assert(/00:00:03\.000/.test(await focused(page)));
  });

  it("no select opens by getting the focus, and each keeps the focus when one has chosen", async () => {
    const { admin } = await newAdmin("Of many");
    await Promise.all(
      Array.from({ length: 12 }, (_, n) => newOrganization(admin, `Customer ${n + 1}`)),
    );
    const { page } = await openConsole(admin);
    await tabTo(page, /^Organization$/);
    assertEquals(await page.getByRole("option", { name: /^Customer/ }).count(), 0);
    await page.keyboard.press("ArrowDown");
    await page.getByRole("option", { name: "Customer 12" }).click();
    await shows(page, "No entries");
    assertEquals(await focused(page), "Organization");
  });
});

describe("the frame of the screens", () => {
  it("lists organizations in the order in which people count", async () => {
    const { admin } = await newAdmin("Customer 10");
    await newOrganization(admin, "Customer 2");
    const { page } = await openConsole(admin);
    await page.getByRole("combobox", { name: "Organization" }).click();
    const names = await page.getByRole("option", { name: /^Customer/ }).allInnerTexts();
    assertEquals(names, ["Customer 2", "Customer 10"]);
  });

  it("tells in a sentence, and not as PGRST002, that the database does not answer", async () => {
    const { page } = await openScreen("keys", undefined, {
      prepare: (page) => page.route("**/rpc/list_api_keys", (route) => route.fulfill(NO_DATABASE)),
    });
    await shows(page, "The database does not answer. Try again in a minute.");
    assertEquals(await page.getByText("PGRST002").count(), 0);
  });

  it("is there before the script, for a slow network", async () => {
    const { page } = await openPage("about:blank");
    await page.route("**/*.js", () => {});
    await page.goto(CONSOLE_URL, { waitUntil: "commit" });
    await shows(page, "Loading the audit log console");
  });

  it("says nothing of a session that another application of this origin keeps", async () => {
    const { page } = await openConsole(null);
    await page.evaluate(`localStorage.setItem("sb-abc-auth-token", "{}")`);
    await page.reload();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assertEquals(await page.getByRole("status").count(), 0);
  });

  it("leads to screens that say so when they have nothing to show", async () => {
    const { page, organization: { id } } = await openScreen(
      "log",
      ({ organization }) =>
        sql`delete from audit_log_private.api_keys where organization_id = ${organization.id}`,
    );
    const titles = {
      log: "No entries",
      keys: "No keys yet",
      "access?start=2026-01-01&end=2026-01-02": "Nobody",
      seals: "Nothing to seal",
    };
    for (const [screen, name] of Object.entries(titles)) {
      await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
      await page.getByRole("heading", { name }).waitFor();
    }
  });
});
