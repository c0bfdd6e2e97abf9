import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { insertEntry, sql, writeEntries } from "../helpers.ts";
import { CONSOLE_URL, daysAgo, hourly, openLog, openScreen, today } from "./browser.ts";

describe("an entry, accessible in each state", () => {
  it("opens with both times, all digits of its numbers, and copies of its id and JSON", async () => {
    // 23:30 in New York on the day before.
    const { view, page } = await openScreen("log", ({ id }) =>
      insertEntry(sql, id, {
        created_at: `${today()}T04:30:00.005Z`,
        data: '{"exact": 12345678901234567890.10, "__proto__": {"x": 1}, "text": "<b>\\u00e9"}',
      }));
    await view.row("ada@example.com").click();
    await view.entry.getByText(`${today()} 04:30:00.005 UTC`).waitFor();
    await view.entry.getByText(/(23:30:00\.005 -05:00|00:30:00\.005 -04:00) America/).waitFor();
    await view.assertAccessible("log-entry");
    await view.entry.getByRole("tab", { name: "JSON" }).click();
    await view.assertAccessible("log-entry-json");
    const json = await view.copy("JSON");
    assertEquals(json, await view.entry.getByRole("group", { name: "JSON" }).innerText());
    assertStringIncludes(json, '"exact": 12345678901234567890.10');
    assertStringIncludes(json, '"__proto__": {\n      "x": 1');
    assertStringIncludes(json, '"text": "<b>é"');
    assertEquals(await view.copy("id"), JSON.parse(json).id);
    // A colleague who opens it later sees the same days.
    assertStringIncludes(await view.copy("link to the entry"), `end=${today()}&`);
    await view.close();
    assert(!page.url().includes("entry="));
  });

  it("leaves the page scrolled as before and the focus on its row when it closes", async () => {
    const { view, page } = await openLog(hourly(daysAgo(1), 50));
    // The chart moves the rows when it comes.
    await page.getByText("50 entries", { exact: true }).waitFor();
    const cell = view.row("agent 40.").getByRole("cell").last();
    // Scrolls to the row, as a click would.
    await cell.hover();
    const before = await page.evaluate<number>("scrollY");
    assert(before > 0);
    await cell.click();
    await view.entry.waitFor();
    await view.close();
    assertEquals(await page.evaluate("scrollY"), before);
    assertEquals(await view.row("agent 40.").locator("a:focus").count(), 1);
  });
});

describe("a link to an entry, accessible in each state", () => {
  it("asks for that entry alone, and leads to its day when it does not exist, also while following", async () => {
    const { view, page, id } = await openScreen(
      "log?start=2026-01-01&end=2026-01-01",
      ({ id }) =>
        writeEntries(id, [
          { created_at: "2026-01-01T00:00:00Z", agent_name: "agent old" },
          ...hourly(today(), 60),
        ]),
    );
    await view.row("agent old").click();
    await view.entry.waitFor();
    const [, link] = page.url().split("&entry=");
    const calls = view.recordCalls();
    await page.goto("about:blank");
    await page.goto(`${CONSOLE_URL}#/${id}/log?entry=${link}`);
    await view.entry.getByText("agent old").waitFor();
    await view.shows("1–50 of 60 entries");
    const reads = calls.filter((name) => name.startsWith("read_")).toSorted();
    assertEquals(reads, ["read_audit_log", "read_entry"]);
    await page.goto(
      `${CONSOLE_URL}#/${id}/log?entry=${id}&at=2026-01-05T10:00:00.000Z&follow=true`,
    );
    await view.button("Show 2026-01-05").waitFor();
    await view.assertAccessible("log-no-entry");
    await view.press("Show 2026-01-05");
    await view.entry.waitFor({ state: "hidden" });
    assert(page.url().endsWith("/log?start=2026-01-05&end=2026-01-05"));
  });
});

describe("hostile data", () => {
  const hostile = {
    script: "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">",
    long: "x".repeat(4000),
    rightToLeft: "\u202eevil \u05d0\u05d1\u05d2",
    emoji: "👩‍👩‍👧‍👦".repeat(40),
  };

  it("shows control and bidirectional characters as such, which never act", async () => {
    const turned = "\u202egnp.exe\u0007";
    const { view, page } = await openScreen("log", async ({ id }) => {
      await sql`update audit_log.organizations set name = ${turned} where id = ${id}`;
      const data = { [turned]: turned };
      const action = "feedback_given";
      const entry = { action, agent_name: turned, user_email: `${turned}@example.com`, data };
      await writeEntries(id, [{ created_at: new Date().toISOString(), ...entry }]);
    });
    const shown = String.raw`\u202egnp.exe\u0007`;
    await view.row(`${shown}@example.com`).click();
    // The person, the agent, the name of the field and its value.
    await view.entry.getByText(shown).nth(3).waitFor();
    await view.press("Only this person");
    await view.button(`Person: ${shown}@example.com`).waitFor();
    await view.row(shown).click();
    await view.entry.getByRole("tab", { name: "JSON" }).click();
    await view.entry.getByRole("group", { name: "JSON" }).getByText(shown).waitFor();
    await view.press("Export", `of ${shown}@example.com`);
    const text = await page.evaluate<string>("document.body.innerText");
    for (const hidden of ["\u202e", "\u0007"]) assert(!text.includes(hidden));
  });

  it("is shown, never run, and breaks no layout", async () => {
    const { view, page } = await openLog(
      Object.entries(hostile).map(([name, text], n) => ({
        created_at: new Date(Date.now() - n * 1000).toISOString(),
        action: "feedback_given",
        user_email: `${name}@example.com`,
        agent_name: text.slice(0, 200),
        data: { "<b>text": text },
      })),
    );
    await page.getByRole("row").getByRole("link").first().click();
    await view.entry.getByRole("tab", { name: "JSON" }).click();
    for (const [name, text] of Object.entries(hostile)) {
      const json = view.entry.getByRole("group", { name: "JSON" })
        .filter({ hasText: `${name}@` });
      assertEquals(JSON.parse(await json.innerText()).data, { "<b>text": text });
      await view.assertFits(`hostile-${name}`);
      await view.key("j");
    }
    await view.close();
    await view.assertFits("hostile", async () => {
      const height = await view.highestRow();
      assert(height < 120, `a row of ${height} pixels`);
    });
    assertMatch(await page.title(), /^Log/);
    assertEquals(view.complaints, []);
  });
});
