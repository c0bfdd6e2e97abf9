import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { type Entry, insertEntries, sql, writeEntries } from "../helpers.ts";
import {
  choose,
  chooseAction,
  chooseLocalTime,
  chooseRange,
  closeEntry,
  CONSOLE_URL,
  entryPanel,
  goTo,
  newAdmin,
  NO_DATABASE,
  openConsole,
  overflow,
  type Page,
  recordCalls,
  row,
  setVisibility,
  today,
} from "./browser.ts";

/** The console on the log of a new organization with these entries. */
async function openLog(entries: Entry[], address = "") {
  const { admin, organization } = await newAdmin();
  if (entries.length) await writeEntries(organization.id, entries);
  const opened = await openConsole(admin, `#/${organization.id}/log?${address}`);
  return { ...opened, admin, organization };
}

/** Entries of one day each, an hour apart; the agent's name counts them. */
function hourly(day: string, count: number): Entry[] {
  const noon = Date.parse(`${day}T23:00:00Z`);
  return Array.from({ length: count }, (_, n) => ({
    created_at: new Date(noon - n * 3_600_000).toISOString(),
    agent_name: `agent ${n}.`,
  }));
}

/** The bars of the chart. */
function bars(page: Page) {
  return page.getByRole("listbox").getByRole("option");
}

/** A day a number of days before today. */
function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

/** Of all rows, also those that are out of sight: to these the browser gives no inner text. */
function agents(page: Page): Promise<string[]> {
  return page.getByRole("row").getByRole("cell").filter({ hasText: /^agent/ }).allTextContents();
}

/** The days that the address names. */
function daysIn(page: Page): (string | null)[] {
  const search = new URLSearchParams(page.url().split("?")[1]);
  return [search.get("start"), search.get("end")];
}

describe("the log", () => {
  it("has every entry once over its pages, newest first, with the exact total and the page in the address", async () => {
    const entries = hourly(daysAgo(1), 120);
    const { page } = await openLog(entries, "range=90d");
    const seen: string[] = [];
    for (const [number, text] of ["1–50 of 120", "51–100 of 120", "101–120 of 120"].entries()) {
      await page.getByText(`${text} entries, newest first`).waitFor();
      seen.push(...await agents(page));
      if (number < 2) await page.getByRole("button", { name: "Older entries" }).click();
    }
    assertEquals(seen, entries.map(({ agent_name }) => agent_name));
    assertStringIncludes(page.url(), "page=3");
    await page.goBack();
    await page.getByText("51–100 of 120 entries").waitFor();
    await page.goto(`${page.url()}4`);
    await page.getByRole("button", { name: "Show the last page" }).click();
    await page.getByText("101–120 of 120 entries").waitFor();
  });

  it("is filtered by days typed by keyboard and by action, and a link restores all of it", async () => {
    const { page, admin } = await openLog([
      { created_at: "2024-02-28T23:59:59.999Z", agent_name: "agent before" },
      { created_at: "2024-02-29T00:00:00Z", agent_name: "agent first" },
      {
        created_at: "2024-03-01T23:59:59.999Z",
        agent_name: "agent last",
        action: "feedback_given",
      },
      { created_at: "2024-03-02T00:00:00Z", agent_name: "agent after" },
    ]);
    await page.getByRole("button", { name: /^Days/ }).focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("First day").fill("2024-02-29");
    await page.keyboard.press("Tab");
    await page.keyboard.type("2024-03-01");
    await page.keyboard.press("Enter");
    await page.getByText("1–2 of 2 entries").waitFor();
    assertEquals(await agents(page), ["agent last", "agent first"]);
    await chooseAction(page, "Feedback given");
    await page.getByText("1–1 of 1 entry").waitFor();
    await chooseLocalTime(page);
    await page.getByRole("columnheader", { name: "Time (America/New_York)" }).waitFor();
    const another = await openConsole(admin, new URL(page.url()).hash);
    await another.page.getByText("1–1 of 1 entry").waitFor();
    await another.page.getByRole("columnheader", { name: "Time (America/New_York)" }).waitFor();
    await page.goBack();
    await page.goBack();
    await page.getByText("1–2 of 2 entries").waitFor();
  });

  it("has presets that end today, in UTC", async () => {
    const entries = [0, 6, 7, 29, 30, 89, 90]
      .map((days) => ({ created_at: `${daysAgo(days)}T00:00:00Z` }));
    const { page } = await openLog(entries);
    for (
      const [preset, total] of [["Today", 1], ["7 days", 2], ["30 days", 4], ["90 days", 6]]
    ) {
      await chooseRange(page, String(preset));
      await page.getByText(`of ${total} entr`).waitFor();
    }
  });

  it("shows today and not yesterday when somebody looks at it again after midnight in UTC", async () => {
    const [yesterday, day] = [daysAgo(1), today()];
    const { page } = await openLog([
      { created_at: `${yesterday}T12:00:00Z`, agent_name: "agent of yesterday" },
      { created_at: `${day}T00:00:00Z`, agent_name: "agent of today" },
    ], "range=today");
    await page.clock.install({ time: `${yesterday}T23:00:00Z` });
    await page.reload();
    await page.getByRole("button", { name: `Days ${yesterday}` }).waitFor();
    await row(page, "agent of yesterday").waitFor();
    await page.clock.fastForward("01:30:00");
    await setVisibility(page, "visible");
    await page.getByRole("button", { name: `Days ${day}` }).waitFor();
    await row(page, "agent of today").waitFor();
    assertEquals(await agents(page), ["agent of today"]);
  });

  it("asks for no day that is only half typed", async () => {
    const { page } = await openLog([]);
    await page.getByText("No entries").waitFor();
    const calls = recordCalls(page);
    await page.getByRole("button", { name: /^Days/ }).click();
    await page.getByLabel("First day").fill("");
    for (const text of ["2", "0002-01-01", "2024-02-30"]) {
      await page.getByLabel("First day").fill(text);
      await page.keyboard.press("Enter");
      await page.getByText("A day is YYYY-MM-DD").waitFor();
    }
    await page.getByLabel("First day").fill(today());
    await page.getByLabel("Last day").fill("2024-01-01");
    await page.keyboard.press("Enter");
    await page.getByText("Before the first day").waitFor();
    assertEquals(calls, []);
  });

  it("ignores what an address has wrong, but never a filter", async () => {
    const { page } = await openLog(
      [{ created_at: new Date().toISOString() }],
      "start=0002-01-01&end=x&action=nothing_known&page=-1&size=7&range=1e9&time=mars",
    );
    await page.getByText("There is no action").waitFor();
    await page.getByRole("button", { name: "Action: Nothing known" }).click();
    await page.getByText("1–1 of 1 entry").waitFor();
  });

  it("is searched by person, by the open entry's person and action, and by all actions of the catalogue", async () => {
    const old = `old_${crypto.randomUUID().replaceAll("-", "_")}`;
    await sql`
      insert into audit_log.actions (code, description, deprecated_at) values (${old}, 'Old', now())`;
    const at = (second: number) => ({ created_at: `${today()}T00:00:0${second}Z` });
    const { page } = await openLog([
      { ...at(1), user_email: "ada@example.com", action: old },
      { ...at(2), user_email: "ada@example.com", action: "agent_added" },
      { ...at(3), user_email: "bob@example.com", action: "agent_added" },
    ]);
    const filter = page.getByRole("button", { name: "Filter", exact: true });
    await filter.click();
    const person = page.getByRole("textbox", { name: "Person" });
    await person.fill(" ada@example.com ");
    await person.press("Enter");
    await page.getByText("1–2 of 2 entries").waitFor();
    // The chart counts what the list shows.
    await page.getByText("2 entries", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Person: ada@example.com" }).click();
    await page.getByText("1–3 of 3 entries").waitFor();
    await row(page, "bob@example.com").click();
    await entryPanel(page).getByRole("button", { name: "Only this action" }).click();
    await page.getByText("1–2 of 2 entries").waitFor();
    await row(page, "bob@example.com").click();
    await entryPanel(page).getByRole("button", { name: "Only this person" }).click();
    await page.getByText("1–1 of 1 entry").waitFor();
    await filter.click();
    const actions = page.getByRole("combobox", { name: "Action" }).getByRole("option");
    assertEquals((await actions.allInnerTexts())[0], "All actions");
    const deprecated = page.locator("optgroup[label=Deprecated]:last-child option");
    const name = old.replaceAll("_", " ").replace("o", "O");
    await deprecated.filter({ hasText: name }).waitFor({ state: "attached" });
    await choose(page, "Action", name);
    await person.fill("");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByText("1–1 of 1 entry").waitFor();
    await row(page, name).waitFor();
  });

  it("shows the answer to the last filter, though that to the one before comes later", async () => {
    const { page } = await openLog([
      { created_at: new Date().toISOString(), agent_name: "agent late", action: "agent_added" },
      { created_at: new Date().toISOString(), agent_name: "agent right", action: "feedback_given" },
    ]);
    await page.getByText("1–2 of 2 entries").waitFor();
    const held = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await page.route("**/rpc/read_audit_log", async (route) => {
      if (!route.request().postData()?.includes("agent_added")) return route.continue();
      const response = await route.fetch();
      await held.promise;
      await route.fulfill({ response }).catch(() => {});
      answered.resolve();
    });
    await chooseAction(page, "Agent added");
    await chooseAction(page, "Feedback given");
    await page.getByText("1–1 of 1 entry").waitFor();
    held.resolve();
    await answered.promise;
    assertEquals(await agents(page), ["agent right"]);
  });

  it("dims the page and the chart of before while those that were chosen are read", async () => {
    const { page } = await openLog(hourly(daysAgo(1), 60));
    const dimmed = page.locator("[aria-busy=true]");
    await page.getByText("1–50 of 60 entries").waitFor();
    const held = Promise.withResolvers<void>();
    await page.route(/read_audit_log|daily_entry_counts/, async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "Older entries" }).click();
    await dimmed.getByText("1–50 of 60 entries").waitFor();
    assertEquals(
      await page.evaluate(
        "getComputedStyle(document.querySelector('div[aria-busy=true]')).opacity",
      ),
      "0.5",
    );
    await chooseRange(page, "30 days");
    await dimmed.getByText("60 entries", { exact: true }).waitFor();
    held.resolve();
    await page.locator("[aria-busy=false]").getByText("1–50 of 60 entries").waitFor();
    await dimmed.waitFor({ state: "detached" });
  });

  it("says so when it has no entries, and when any of it cannot be read", async () => {
    const { page } = await openLog([]);
    await page.getByRole("heading", { name: "No entries" }).waitFor();
    for (const name of ["read_audit_log", "daily_entry_counts", "list_seals"]) {
      await page.route(`**/rpc/${name}`, (route) => route.fulfill(NO_DATABASE));
      await page.getByRole("button", { name: "Refresh" }).click();
      await page.getByText("The database does not answer.").waitFor();
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByText("The database does not answer").waitFor({ state: "hidden" });
    }
  });
});

describe("a screen that breaks", () => {
  it("leaves the way to the others, and is whole again when read again", async () => {
    const { page } = await openLog([{ created_at: new Date().toISOString() }]);
    await page.getByText("1–1 of 1 entry").waitFor();
    const broken = {
      id: "",
      created_at: "never",
      action: "",
      user_email: "",
      agent_name: "",
      data: {},
    };
    await page.route(
      "**/rpc/read_audit_log",
      (route) => route.fulfill({ json: { total: 1, items: JSON.stringify([broken]) } }),
      { times: 1 },
    );
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByText("This page has broken (RangeError").waitFor();
    await goTo(page, "API keys");
    await row(page, "test").waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("1–1 of 1 entry").waitFor();
  });
});

describe("an entry", () => {
  it("opens with both times, all digits of its numbers, and copies of its id and JSON", async () => {
    const { admin, organization: { id } } = await newAdmin();
    // 23:30 in New York on the day before.
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
      values (${id}, ${`${today()}T04:30:00.005Z`}, 'feedback_given', 'ada@example.com', 'x',
        '{"exact": 12345678901234567890.10, "__proto__": {"x": 1}, "text": "<b>\\u00e9"}')`;
    const { page } = await openConsole(admin);
    await row(page, "ada@example.com").click();
    const dialog = entryPanel(page);
    await dialog.getByText(`${today()} 04:30:00.005 UTC`).waitFor();
    await dialog.getByText(/(23:30:00\.005 -05:00|00:30:00\.005 -04:00) America/).waitFor();
    const copied = async (what: string) => {
      await dialog.getByRole("button", { name: `Copy ${what}` }).click();
      await dialog.getByText("Copied").first().waitFor();
      return await page.evaluate<string>("navigator.clipboard.readText()");
    };
    await dialog.getByRole("tab", { name: "JSON" }).click();
    const json = await copied("JSON");
    assertEquals(json, await dialog.getByRole("group", { name: "JSON" }).innerText());
    assertStringIncludes(json, '"exact": 12345678901234567890.10');
    assertStringIncludes(json, '"__proto__": {\n      "x": 1');
    assertStringIncludes(json, '"text": "<b>é"');
    assertEquals(await copied("ID"), JSON.parse(json).id);
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
    const { admin, organization } = await newAdmin();
    await writeEntries(organization.id, [
      { created_at: "2026-01-01T00:00:00Z", agent_name: "agent old" },
      ...hourly(today(), 60),
    ]);
    const { page } = await openConsole(
      admin,
      `#/${organization.id}/log?start=2026-01-01&end=2026-01-01`,
    );
    await row(page, "agent old").click();
    await entryPanel(page).waitFor();
    const { entry, at } = Object.fromEntries(new URLSearchParams(page.url().split("?")[1]));
    const calls = recordCalls(page);
    await page.goto("about:blank");
    await page.goto(`${CONSOLE_URL}#/${organization.id}/log?entry=${entry}&at=${at}`);
    await entryPanel(page).getByText("agent old").waitFor();
    await page.getByText("1–50 of 60 entries").waitFor();
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

describe("an empty log", () => {
  it("names a filter only if there is one", async () => {
    const { page } = await openLog([]);
    await page.getByText("None in these days. Choose others").waitFor();
    await chooseAction(page, "Feedback given");
    await page.getByText("None in these days with this filter").waitFor();
    await page.getByRole("button", { name: "Action: Feedback given" }).click();
    await page.getByText("None in these days. Choose others").waitFor();
  });
});

describe("local time", () => {
  it("is shown whole, with its offset, and the control says that days stay UTC", async () => {
    const { page } = await openLog([{ created_at: new Date().toISOString() }], "time=local");
    const cell = page.getByRole("cell").filter({ hasText: /-0[45]:00$/ });
    const isCut = await cell.evaluate((cell) => {
      const { scrollWidth, clientWidth } = cell as unknown as Record<string, number>;
      return Number(scrollWidth) > Number(clientWidth);
    });
    assertEquals(isCut, false);
    await page.getByRole("button", { name: /^Days.*local time$/ }).click();
    await page.getByText("Days are UTC, both included.").waitFor();
  });
});

describe("the chart of days", () => {
  it("names each day with its entries, and gives those that one drags over or chooses by keyboard", async () => {
    const { page } = await openLog([1, 2, 3].flatMap((days) => hourly(daysAgo(days), days)));
    await chooseRange(page, "30 days");
    await page.getByRole("option", { name: `${daysAgo(2)}: 2 entries` }).waitFor();
    assertEquals(await bars(page).count(), 30);
    await page.getByText("6 entries", { exact: true }).waitFor();
    const from = await page.getByRole("option", { name: daysAgo(3) }).boundingBox();
    const to = await page.getByRole("option", { name: daysAgo(2) }).boundingBox();
    if (!from || !to) throw new Error("no bars");
    await page.mouse.move(from.x + from.width / 2, from.y + 20);
    await page.mouse.down();
    await page.mouse.move(to.x + to.width / 2, to.y + 20, { steps: 3 });
    await page.mouse.up();
    await page.getByText("1–5 of 5 entries").waitFor();
    assertEquals(daysIn(page), [daysAgo(3), daysAgo(2)]);
    await page.goBack();
    await page.getByText("1–6 of 6 entries").waitFor();
    await page.getByRole("option", { name: today() }).focus();
    for (const key of ["ArrowLeft", "ArrowLeft", "Shift+ArrowLeft", "Enter"]) {
      await page.keyboard.press(key);
    }
    await page.getByText("1–5 of 5 entries").waitFor();
    assertEquals(daysIn(page), [daysAgo(3), daysAgo(2)]);
  });

  it("has a bar for each hour of up to 7 days, with ticks, and says what one points at", async () => {
    const { page } = await openLog([
      { created_at: `${daysAgo(1)}T08:59:59.999Z` },
      { created_at: `${daysAgo(1)}T09:00:00Z` },
      { created_at: `${daysAgo(1)}T09:59:59Z` },
    ]);
    const nine = page.getByRole("option", { name: `${daysAgo(1)} 09:00 UTC: 2 entries` });
    await nine.waitFor();
    assertEquals(await bars(page).count(), 7 * 24);
    await page.locator("figure").getByText(daysAgo(6), { exact: true }).waitFor();
    await nine.hover();
    await page.locator("figure").getByText(`${daysAgo(1)} 09:00 UTC: 2 entries, not yet sealed`)
      .waitFor();
    await nine.click();
    await page.locator("figure").getByText("20:00", { exact: true }).waitFor();
    assertEquals(await bars(page).count(), 24);
    assertEquals(daysIn(page), [daysAgo(1), daysAgo(1)]);
  });

  it("of one day leads to the page of the hour that one chooses", async () => {
    const day = daysAgo(1);
    const { page } = await openLog(
      hourly(day, 24).flatMap((e) => Array(5).fill(e)),
      `start=${day}&end=${day}`,
    );
    await page.getByRole("option", { name: `${day} 12:00 UTC: 5 entries` }).click();
    await page.getByText("51–100 of 120 entries").waitFor();
    await row(page, "12:00:00.000").first().waitFor();
  });

  it("has at most 120 bars, and loses no entry by it", async () => {
    const { page } = await openLog(
      [{ created_at: "1000-01-01T00:00:00Z" }, { created_at: "9999-12-31T23:59:59Z" }],
      "start=1000-01-01&end=9999-12-31",
    );
    await page.getByText("2 entries", { exact: true }).waitFor();
    await page.getByRole("option", { name: /9999-12-31: 1 entry/ }).waitFor();
    assert(await bars(page).count() <= 120);
  });
});

describe("following", () => {
  it("shows new entries by itself, also one whose time is long past when it is committed", async () => {
    const { page, organization } = await openLog([{
      created_at: `${today()}T00:00:00Z`,
      agent_name: "agent 0",
    }]);
    await page.getByRole("button", { name: "Follow" }).click();
    await page.getByText("Following. 1 entry").waitFor();
    await writeEntries(organization.id, [{
      created_at: new Date().toISOString(),
      agent_name: "agent 1",
    }]);
    await page.getByText("Following. 2 entries").waitFor();
    await writeEntries(organization.id, [{
      created_at: `${today()}T00:00:00Z`,
      agent_name: "agent 2",
    }]);
    await page.getByText("Following. 3 entries").waitFor();
    assertEquals(await agents(page), ["agent 2", "agent 1", "agent 0"]);
    await page.getByRole("button", { name: "Stop following" }).click();
    await page.getByText("1–3 of 3 entries").waitFor();
    // Days have an end: to choose some stops it, too.
    await page.getByRole("button", { name: "Follow" }).click();
    await page.getByText("Following. 3 entries").waitFor();
    await chooseRange(page, "30 days");
    await page.getByText("1–3 of 3 entries").waitFor();
  });
});

describe("following a log of many days", () => {
  it("claims to show today only: neither the choice of days nor the chart contradicts the list", async () => {
    const { page } = await openLog(
      [{ created_at: `${daysAgo(3)}T00:00:00Z` }, { created_at: `${today()}T00:00:00Z` }],
      "range=30d",
    );
    await page.getByRole("listbox").waitFor();
    await page.getByRole("button", { name: "Follow" }).click();
    await page.getByText(`Following. 1 entry since ${today()} 00:00 UTC`).waitFor();
    await page.getByRole("button", { name: "Days Live, since today" }).waitFor();
    assertEquals(await page.getByRole("listbox").count(), 0);
  });
});

describe("on a phone", () => {
  it("the first entry is within the first third of the screen, and nothing is wider than it", async () => {
    const { page } = await openLog(hourly(daysAgo(1), 20));
    for (const width of [360, 390]) {
      await page.setViewportSize({ width, height: 800 });
      const box = await page.getByRole("row").getByRole("link").first().boundingBox();
      assert(box && box.y + box.height <= 800 / 3, `at ${box?.y}`);
      assertEquals(await overflow(page), 0);
    }
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
    for (const width of [320, 1440]) {
      await page.setViewportSize({ width, height: 800 });
      for (const [name, text] of Object.entries(hostile)) {
        await row(page, `${name}@example.com`).getByRole("link").click();
        const dialog = entryPanel(page);
        await dialog.getByRole("tab", { name: "JSON" }).click();
        const shown = await dialog.getByRole("group", { name: "JSON" }).innerText();
        assertEquals(JSON.parse(shown).data, { "<b>text": text });
        assertEquals(await overflow(page), 0);
        await closeEntry(page);
      }
      const heights = await page.getByRole("row").evaluateAll((rows) =>
        rows.map((row) => (row as unknown as { offsetHeight: number }).offsetHeight)
      );
      assert(Math.max(...heights) < 120, `rows of ${heights} pixels`);
    }
    assertMatch(await page.title(), /^Log/);
    assertEquals(complaints, []);
  });
});

describe("1,000 rows of 200,000", () => {
  it("answer at once to what one does", async () => {
    const { admin, organization } = await newAdmin();
    await insertEntries(sql, organization.id, today(), 200_000);
    const { page } = await openConsole(admin, `#/${organization.id}/log?size=1000`);
    await page.getByText("1–1,000 of 200,000 entries").waitFor();
    assertEquals(await page.getByRole("row").count(), 1001);
    await page.evaluate(`window.durations = [];
      new PerformanceObserver((list) => durations.push(...list.getEntries()
        .filter(({ interactionId }) => interactionId).map(({ duration }) => duration)))
        .observe({ type: "event", durationThreshold: 16 });`);
    for (let n = 0; n < 5; n++) {
      await page.getByRole("row").nth(n + 2).click();
      await entryPanel(page).waitFor();
      await closeEntry(page);
    }
    await chooseLocalTime(page);
    await page.getByRole("columnheader", { name: /New_York/ }).waitFor();
    const longest = await page.evaluate<number>("Math.max(...durations)");
    // A tenth of it on a quiet machine.
    assert(longest > 0 && longest < 2_000, `${longest} ms until the next paint`);
  });
});
