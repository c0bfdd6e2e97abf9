import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { sql, writeEntries } from "../helpers.ts";
import {
  closeEntry,
  CONSOLE_URL,
  copy,
  daysAgo,
  daysIn,
  entryPanel,
  hourly,
  openLog,
  openScreen,
  overflow,
  recordCalls,
  row,
  shows,
  today,
} from "./browser.ts";

describe("an entry", () => {
  it("opens with both times, all digits of its numbers, and copies of its id and JSON", async () => {
    // 23:30 in New York on the day before.
    const { page } = await openScreen("log", ({ organization: { id } }) =>
      sql`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
        values (${id}, ${`${today()}T04:30:00.005Z`}, 'feedback_given', 'ada@example.com', 'x',
          '{"exact": 12345678901234567890.10, "__proto__": {"x": 1}, "text": "<b>\\u00e9"}')`);
    await row(page, "ada@example.com").click();
    const panel = entryPanel(page);
    await panel.getByText(`${today()} 04:30:00.005 UTC`).waitFor();
    await panel.getByText(/(23:30:00\.005 -05:00|00:30:00\.005 -04:00) America/).waitFor();
    await panel.getByRole("tab", { name: "JSON" }).click();
    const json = await copy(page, "JSON");
    assertEquals(json, await panel.getByRole("group", { name: "JSON" }).innerText());
    assertStringIncludes(json, '"exact": 12345678901234567890.10');
    assertStringIncludes(json, '"__proto__": {\n      "x": 1');
    assertStringIncludes(json, '"text": "<b>é"');
    assertEquals(await copy(page, "ID"), JSON.parse(json).id);
    await closeEntry(page);
    assert(!page.url().includes("entry="));
  });

  it("leaves the page where it was scrolled to, and the focus on its row", async () => {
    const { page } = await openLog(hourly(daysAgo(1), 50));
    // The chart moves the rows when it comes.
    await page.getByText("50 entries", { exact: true }).waitFor();
    const cell = row(page, "agent 40.").getByRole("cell").last();
    // Scrolls there as a click would.
    await cell.hover();
    const before = await page.evaluate<number>("scrollY");
    assert(before > 0);
    await cell.click();
    await entryPanel(page).waitFor();
    await closeEntry(page);
    assertEquals(await page.evaluate("scrollY"), before);
    assertEquals(await row(page, "agent 40.").locator("a:focus").count(), 1);
  });
});

describe("a link to an entry", () => {
  it("asks for that entry alone", async () => {
    const { page, organization: { id } } = await openScreen(
      "log?start=2026-01-01&end=2026-01-01",
      ({ organization: { id } }) =>
        writeEntries(id, [
          { created_at: "2026-01-01T00:00:00Z", agent_name: "agent old" },
          ...hourly(today(), 60),
        ]),
    );
    await row(page, "agent old").click();
    await entryPanel(page).waitFor();
    const { entry, at } = Object.fromEntries(new URLSearchParams(page.url().split("?")[1]));
    const calls = recordCalls(page);
    await page.goto("about:blank");
    await page.goto(`${CONSOLE_URL}#/${id}/log?entry=${entry}&at=${at}`);
    await entryPanel(page).getByText("agent old").waitFor();
    await shows(page, "1–50 of 60 entries");
    assertEquals(calls.filter((name) => /^read_/.test(name)).toSorted(), [
      "read_audit_log",
      "read_entry",
    ]);
  });

  it("that is not there leads to its day, also while following", async () => {
    const { page } = await openLog(
      [],
      `entry=${crypto.randomUUID()}&at=2026-01-05T10:00:00.000Z&follow=true`,
    );
    await entryPanel(page).getByRole("button", { name: "Show 2026-01-05" }).click();
    await entryPanel(page).waitFor({ state: "hidden" });
    assertEquals(daysIn(page), ["2026-01-05", "2026-01-05"]);
  });
});

describe("hostile data", () => {
  const hostile = {
    script: "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">",
    long: "x".repeat(4000),
    rightToLeft: "\u202eevil \u05d0\u05d1\u05d2",
    emoji: "👩‍👩‍👧‍👦".repeat(40),
  };

  it("is shown, never run, and breaks no layout", async () => {
    const { page, complaints } = await openLog(
      Object.entries(hostile).map(([name, text], n) => ({
        created_at: new Date(Date.now() - n * 1000).toISOString(),
        action: "feedback_given",
        user_email: `${name}@example.com`,
        agent_name: text.slice(0, 200),
        data: { "<b>text": text },
      })),
    );
    const panel = entryPanel(page);
    for (const width of [320, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      await page.getByRole("row").getByRole("link").first().click();
      await panel.getByRole("tab", { name: "JSON" }).click();
      for (const [name, text] of Object.entries(hostile)) {
        const json = panel.getByRole("group", { name: "JSON" }).filter({ hasText: `${name}@` });
        assertEquals(JSON.parse(await json.innerText()).data, { "<b>text": text });
        assertEquals(await overflow(page), 0);
        await page.keyboard.press("j");
      }
      await closeEntry(page);
      const heights = await page.getByRole("row").evaluateAll((rows) =>
        rows.map((row) => (row as unknown as { offsetHeight: number }).offsetHeight)
      );
      assert(Math.max(...heights) < 120, `rows of ${heights} pixels`);
    }
    assertMatch(await page.title(), /^Log/);
    assertEquals(complaints, []);
  });
});
