// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { buildVariant, CONSOLE_URL, daysAgo, hourly, insertEntry } from "../helpers/browser.ts";
import { newAdmin, openConsole, openLog, openScreen, sql, today } from "../helpers/browser.ts";
import { writeEntries } from "../helpers/browser.ts";

/** An action of the catalogue that names its target. */
async function newAction(): Promise<string> {
  const action = `file.deleted:${crypto.randomUUID()}`;
  await sql`
    insert into audit_log.actions (code, description, required, target_name)
    values (${action}, 'Somebody deleted a file', '{file_id}', 'file')`;
  return action;
}

it("an entry, accessible in each state, opens with its time in UTC, all digits of its numbers, and copies of its JSON and its address", async () => {
  // 23:30 in New York on the day before.
  const { view, page } = await openScreen("log", ({ id }) =>
    insertEntry(sql, id, {
      created_at: `${today()}T04:30:00.005Z`,
      data: '{"exact": 12345678901234567890.10, "__proto__": {"x": 1}, "text": "<b>\\u00e9"}',
    }));
  await view.row("ada@example.com").click();
  await view.entry.getByText(`${today()} 04:30:00.005 UTC`).waitFor();
  await view.assertAccessible("log-entry");
  const targets = await view.entry.locator("button, a").filter({ visible: true }).evaluateAll((
    targets,
  ) =>
    targets.map((target) => {
      const { width, height } = target.getBoundingClientRect();
      return { name: target.textContent, size: Math.min(width, height) };
    })
  );
  assertEquals(targets.filter(({ size }) => size < 24), []);
  await view.entry.locator("summary").click();
  await view.assertAccessible("log-entry-json");
  const json = await view.copy("JSON");
  assertEquals(json, await view.entry.getByRole("group", { name: "JSON" }).innerText());
  assertStringIncludes(json, '"exact": 12345678901234567890.10');
  assertStringIncludes(json, '"__proto__": {\n      "x": 1');
  assertStringIncludes(json, '"text": "<b>é"');
  // A colleague who opens it later sees the same days.
  await view.entry.getByRole("button", { name: "Copy link" }).click();
  await view.entry.getByText("Copied").last().waitFor();
  assertStringIncludes(await page.evaluate("navigator.clipboard.readText()"), `end=${today()}&`);
  await view.close();
  assert(!page.url().includes("entry="));
});

describe("an entry as a sentence", () => {
  it("says who changed what and from which address, and each old and new value once, side by side and as it is", async () => {
    const action = `billing.payment-method:${crypto.randomUUID()}`;
    await sql`insert into audit_log.actions (code, description) values (${action}, 'A plan changed')`;
    const { view } = await openScreen("log", async ({ id }) => {
      await insertEntry(sql, id, {
        action,
        data: `{
          "caller": {"address": "203.0.113.7", "kind": "secret_key", "on_behalf_of": {"email": "eda@example.com"}},
          "changes": {
            "plan": ["free", "pro"], "note": ["", " x"], "__proto__": [null, "null"], "paid": [false, "false"],
            "price": [1.10, 9007199254740993]
          },
          "empty": "", "is_big": "true", "size": 1.10
        }`,
      });
      const data = `{"changes": {"plan": ["free", "pro"]}}`;
      await insertEntry(sql, id, { action, user_email: "unknown@invalid", data });
    });
    const sentence = 'note: "" → " x", paid: false → "false", plan: free → pro, ' +
      'price: 1.10 → 9007199254740993, __proto__: null → "null"';
    await view.row(sentence).click();
    const { entry } = view;
    const said = entry.getByRole("paragraph");
    assertEquals(
      await said.innerText(),
      "ada@example.com changed note, paid, plan, price, and __proto__ · on Assistant · from 203.0.113.7",
    );
    await entry.getByRole("heading", { name: action }).waitFor();
    const table = 'Field Old New note "" " x" paid false "false" plan free pro ' +
      'price 1.10 9007199254740993 __proto__ null "null"';
    assertEquals((await entry.getByRole("table").innerText()).replaceAll(/\s+/g, " "), table);
    const facts = await entry.locator("dl").innerText();
    const fields = {
      "caller.address": "203.0.113.7",
      "caller.on_behalf_of.email": "eda@example.com",
      "empty": '""',
      "is_big": '"true"',
      "size": "1.10",
    };
    for (const [name, value] of Object.entries(fields)) {
      assertStringIncludes(facts, `${name}\n${value}\n`);
    }
    await view.assertAccessible("log-entry-changes");
    await view.close();
    await view.row(action).filter({ hasNotText: "note" }).click();
    await entry.getByText("changed plan · on Assistant").waitFor();
    await entry.getByText("Nobody's address: nothing says who it was").waitFor();
  });

  it("has the catalogue's description, and leads to all by this person, to its action, and to everything about a value that is a text", async () => {
    const at = (second: number) => ({ created_at: `${today()}T00:00:0${second}Z` });
    const data = { document_id: "d-1", size: 1, list: ["x"], caller: { address: "203.0.113.7" } };
    const { view, page } = await openLog([
      { ...at(1), action: "agent_added", data },
      { ...at(2), action: "feedback_given" },
      { ...at(3), action: "feedback_given", user_email: "bob@example.com", data: { id: "d-1" } },
      { created_at: "2024-02-29T00:00:00Z" },
    ], "action=agent_added,message_created");
    await view.row("Agent added").click();
    await view.entry.getByText("ada@example.com: An agent was activated for the organization")
      .waitFor();
    // Not of the number, the list and the part of another value.
    assertEquals(await view.entry.getByTitle("All about this, at any time").count(), 1);
    await view.entry.getByRole("button", { name: "ada@example.com" }).click();
    await view.shows("1–3 of 3 entries");
    // Not where the keyboard would begin with the address bar.
    assertEquals(await page.evaluate("document.activeElement.id"), "content");
    await view.row("Feedback given").click();
    await view.entry.getByRole("button", { name: "feedback_given" }).click();
    await view.shows("1–1 of 1 entry");
    await view.press("Person: ada@example.com", "1–2 of 2 entries");
    await view.row("bob@example.com").click();
    await view.entry.getByRole("button", { name: "d-1" }).click();
    await view.shows("1–2 of 2 entries");
    await page.getByRole("link", { name: `${today()}: 2 entries` }).waitFor();
    await view.button("Filter", true).click();
    const field = page.getByRole("textbox", { name: "Target or value" });
    assertEquals(await field.inputValue(), "d-1");
    await field.fill("D-1");
    await view.applyFilter();
    await view.shows("No entry matches this filter.");
    await view.press("Target or value: D-1", "1–4 of 4 entries");
  });
});

it("a target is shown by the name that people know, also a hostile one, and one press leads to all about it", async () => {
  const action = await newAction();
  const name = '<b>Plan\u202e" onclick=x';
  const files = [["1e5", name], ["f-2", ""], ["1e5", "Plan, renamed"]] as const;
  const { view, page } = await openLog([
    ...files.map(([file_id, file], n) => ({
      created_at: `${daysAgo(n * 200)}T00:00:00Z`,
      action,
      data: { file_id, file },
    })),
    { created_at: `${today()}T00:00:01Z` },
  ], "range=year");
  await view.row(action).getByRole("link", { name: "f-2" }).waitFor();
  const heads = await page.getByRole("columnheader").allInnerTexts();
  assertEquals(heads, ["Time (UTC)", "Person", "Action", "Target", "Agent"]);
  await view.assertAccessible("log-target");
  await page.getByRole("link", { name: String.raw`<b>Plan\u202e` }).click();
  await view.shows("1–2 of 2 entries");
  await view.shows("Target or value: 1e5");
  await view.row("Plan, renamed").click();
  await view.entry.getByText("Somebody deleted a file · Plan, renamed").waitFor();
});

describe("presses", () => {
  it("4 at most show who deleted what in the last week, 2 all of a person", async () => {
    const action = await newAction();
    const deletion = { action, data: { file_id: "f-1", file: "Plan" } };
    const { view } = await openLog([
      { created_at: `${daysAgo(2)}T00:00:00Z`, ...deletion, user_email: "eda@example.com" },
      { created_at: `${daysAgo(3)}T00:00:00Z` },
      { created_at: "2024-02-29T00:00:00Z", ...deletion, user_email: "eda@example.com" },
    ]);
    await view.chooseAction(action);
    await view.shows("1–1 of 1 entry");
    await view.row("eda@example.com").getByText("Plan").waitFor();
    assertEquals(await view.presses(), 3);
    await view.row("eda@example.com").getByRole("link").first().click();
    await view.entry.getByRole("button", { name: "eda@example.com" }).click();
    await view.shows("1–2 of 2 entries");
    assertEquals(await view.presses(), 3 + 2);
  });

  it("4 make a CSV of the last quarter", async () => {
    const { view, page } = await openLog([]);
    await view.chooseRange("Last quarter");
    await view.button("Export", true).click();
    await page.getByText("CSV", { exact: true }).click();
    const { name } = await view.download("Export CSV");
    const quarter = /^audit-log_20\d\d-(01|04|07|10)-01_20\d\d-(03-31|06-30|09-30|12-31)\.csv$/;
    assertMatch(name, quarter);
    assertEquals(await view.presses(), 4);
  });
});

describe("with VITE_AGENT_LABEL", () => {
  for (const label of ["Document", ""]) {
    it(label ? "the agent has another name" : "the agent is not shown", async () => {
      const prepare = await buildVariant({ VITE_AGENT_LABEL: label });
      const { admin, id } = await newAdmin();
      await insertEntry(sql, id);
      const view = await openConsole(admin, `variant/#/${id}/log`, { prepare });
      const row = view.row("ada@example.com");
      await row.waitFor();
      const heads = await view.page.getByRole("columnheader").allInnerTexts();
      assertEquals(heads.slice(4), label ? [label] : []);
      await row.click();
      await view.entry.getByText("Entry id").waitFor();
      assertEquals(await view.page.getByText("Agent", { exact: true }).count(), 0);
      const agents = view.entry.getByText("Assistant").filter({ visible: true });
      assertEquals(await agents.count(), label ? 2 : 0);
    });
  }
});

it("a link to an entry, accessible in each state, asks for that entry alone, and leads to its day when it does not exist", async () => {
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
  await view.entry.getByText("agent old").first().waitFor();
  await view.shows("1–50 of 60 entries");
  const reads = calls.filter((name) => name.startsWith("read_")).toSorted();
  assertEquals(reads, ["read_audit_log", "read_entry"]);
  await page.goto(
    `${CONSOLE_URL}#/${id}/log?entry=${id}&at=2026-01-05T10:00:00.000Z`,
  );
  await view.button("Show 2026-01-05").waitFor();
  await view.assertAccessible("log-no-entry");
  await view.press("Show 2026-01-05");
  await view.entry.waitFor({ state: "hidden" });
  assert(page.url().endsWith("/log?start=2026-01-05&end=2026-01-05"));
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
      await sql`update audit_log.organization_members set organization_name = ${turned} where organization_id = ${id}`;
      const data = { [turned]: turned };
      const action = "feedback_given";
      const entry = { action, agent_name: turned, user_email: `${turned}@example.com`, data };
      await writeEntries(id, [{ created_at: new Date().toISOString(), ...entry }]);
    });
    const shown = String.raw`\u202egnp.exe\u0007`;
    await view.row(`${shown}@example.com`).click();
    // The person, the agent, the name of the field and its value.
    await view.entry.getByText(shown).nth(3).waitFor();
    await view.entry.getByRole("button", { name: `${shown}@example.com` }).click();
    await view.button(`Person: ${shown}@example.com`).waitFor();
    await view.row(shown).click();
    await view.entry.locator("summary").click();
    await view.entry.getByRole("group", { name: "JSON" }).getByText(shown).waitFor();
    await view.close();
    await view.press("Export");
    await page.getByRole("dialog").getByText(`Person: ${shown}@example.com`).waitFor();
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
    await view.entry.locator("summary").click();
    for (const [name, text] of Object.entries(hostile)) {
      const json = view.entry.getByRole("group", { name: "JSON" })
        .filter({ hasText: `${name}@` });
      assertEquals(JSON.parse(await json.innerText()).data, { "<b>text": text });
      await view.assertFits(`hostile-${name}`);
      if (name !== "emoji") await view.button("Older entry").click();
    }
    await view.close();
    await view.assertFits("hostile", async () => {
      const height = await view.highestRow();
      assert(height < 120, `a row of ${height} pixels`);
    });
    assertMatch(await page.title(), /^Activity/);
    assertEquals(view.complaints, []);
  });
});
