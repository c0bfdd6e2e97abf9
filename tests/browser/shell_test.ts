import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { newOrganization, writeEntries } from "../helpers.ts";
import {
  CONSOLE_URL,
  entryPanel,
  focused,
  goTo,
  newAdmin,
  NO_DATABASE,
  openAsAdmin,
  openConsole,
  openPage,
  tabTo,
  today,
} from "./browser.ts";

describe("by keyboard alone", () => {
  it("the first press of Tab leads to a link past the navigation", async () => {
    const { page } = await openAsAdmin();
    await page.getByText("No entries").waitFor();
    await page.reload();
    await page.getByText("No entries").waitFor();
    await page.keyboard.press("Tab");
    assertEquals(await focused(page), "Skip to the content");
    const address = page.url();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    assertEquals(await focused(page), "Follow");
    assertEquals(page.url(), address);
  });

  it("Enter opens the row of the log that one tabs to, also when text is selected, and J, K and Escape go on", async () => {
    const { admin, organization: { id } } = await newAdmin();
    await writeEntries(
      id,
      [1, 2, 3].map((n) => ({
        created_at: `${today()}T00:00:0${n}Z`,
        agent_name: `agent ${n}`,
      })),
    );
    const { page } = await openConsole(admin);
    await page.getByText("1–3 of 3 entries").waitFor();
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
    await page.getByText("No entries").waitFor();
    assertEquals(await focused(page), "Organization");
  });
});

describe("organizations", () => {
  it("stand in the order in which people count", async () => {
    const { admin } = await newAdmin("Customer 10");
    await newOrganization(admin, "Customer 2");
    const { page } = await openConsole(admin);
    await page.getByRole("combobox", { name: "Organization" }).click();
    const names = await page.getByRole("option", { name: /^Customer/ }).allInnerTexts();
    assertEquals(names, ["Customer 2", "Customer 10"]);
  });
});

describe("a database that does not answer", () => {
  it("is told in a sentence, and not as PGRST002", async () => {
    const { page } = await openAsAdmin();
    await page.route("**/rpc/list_api_keys", (route) => route.fulfill(NO_DATABASE));
    await goTo(page, "API keys");
    await page.getByText("The database does not answer. Try again in a minute.").waitFor();
    assertEquals(await page.getByText("PGRST002").count(), 0);
  });
});

describe("on a slow network", () => {
  it("a frame is there before the script", async () => {
    const { page } = await openPage("about:blank");
    await page.route("**/*.js", () => {});
    await page.goto(CONSOLE_URL, { waitUntil: "commit" });
    await page.getByText("Loading the audit log console").waitFor();
  });
});

describe("another application of this origin", () => {
  it("may keep a session of its own, of which the console says nothing", async () => {
    const { page } = await openConsole(null);
    await page.evaluate(`localStorage.setItem("sb-abc-auth-token", "{}")`);
    await page.reload();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    assertEquals(await page.getByRole("status").count(), 0);
  });
});
