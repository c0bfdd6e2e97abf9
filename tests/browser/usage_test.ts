import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createApiKey, get, getProblem, sql, writeEntries } from "../helpers.ts";
import { newAdmin, openConsole, today } from "./browser.ts";

describe("usage, accessible in each state", () => {
  it("shows and sorts what keys and administrators have read, and how many requests had a mistake. It says of each key whether it keeps up, as the list of keys does", async () => {
    const { admin, id, token } = await newAdmin();
    await writeEntries(id, [1, 2, 3].map((n) => ({ created_at: `${today()}T00:00:0${n}Z` })));
    for (let n = 0; n < 2; n++) await get(token, `start=${today()}&end=${today()}`);
    await getProblem(400, token, "start=nonsense");
    const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
    const hour = 3_600_000;
    const keys = [
      { says: /^caught up (now|\d+[sm] ago)$/, used: ago(3_000), caughtUp: ago(3_000) },
      { says: /^behind since (\d\d:\d\d|20\d\d-\d\d-\d\d)$/, used: ago(0), caughtUp: ago(hour) },
      // A request after the key caught up does not make it behind.
      { says: /^caught up 2h ago$/, used: ago(2 * hour - 10_000), caughtUp: ago(2 * hour) },
      { says: /^not caught up yet$/, used: ago(3_000), caughtUp: null },
      { says: /^reads by pages$/, used: ago(3_000), reads: "pages", caughtUp: ago(24 * hour) },
      { says: /^silent for 1 day$/, used: ago(47 * hour), caughtUp: ago(47 * hour) },
    ];
    for (const [n, { used, reads = "feed", caughtUp }] of keys.entries()) {
      const key = await createApiKey(admin, id, `key ${n}`);
      await get(key.token);
      await sql`
        update audit_log_private.rate_limits
        set counted_at = array[${used}::timestamptz], reads = ${reads}, caught_up_at = ${caughtUp}
        where organization_id = ${id} and api_key_id = ${key.id}`;
    }
    const view = await openConsole(admin);
    await view.shows("1–3 of 3 entries");
    await view.goTo("Usage");
    await view.shows("8 readers");
    const cells = await view.row("test").getByRole("cell").allInnerTexts();
    // Requests, those with a mistake, entries.
    assertEquals(cells.slice(2), ["3\n1 mistake", "6"]);
    assertStringIncludes(await view.row("Person").innerText(), admin.email);
    await view.assertAccessible("usage");
    await view.press("Entries read");
    await view.press("Entries read");
    await view.page.locator("[aria-sort=descending]").getByText("Entries read").waitFor();
    assertStringIncludes(await view.page.getByRole("row").nth(1).innerText(), "test");
    for (const screen of ["Usage", "API keys"] as const) {
      await view.goTo(screen);
      for (const [n, { says }] of keys.entries()) {
        await view.row(`key ${n}`).getByText(says).waitFor();
      }
    }
    await view.row("silent").getByText("1 day ago").waitFor();
  });
});
