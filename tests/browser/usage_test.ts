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
    const day = 86_400_000;
    const keys = [
      [/^caught up (now|\d+[sm] ago)$/, ago(3_000), "feed", ago(3_000)],
      [/^behind since (\d\d:\d\d|20\d\d-\d\d-\d\d)$/, ago(0), "feed", ago(3_600_000)],
      // A request after the key caught up does not make it behind.
      [/^caught up 2h ago$/, ago(7_190_000), "feed", ago(7_200_000)],
      [/^not caught up yet$/, ago(3_000), "feed", null],
      [/^reads by pages$/, ago(3_000), "pages", ago(day)],
      [/^silent for 6 days$/, ago(6.5 * day), "feed", ago(6.5 * day)],
    ] as const;
    for (const [n, [, last_used_at, reads, caught_up_at]] of keys.entries()) {
      const key = await createApiKey(admin, id, `key ${n}`);
      await get(key.token);
      await sql`
        update audit_log_private.rate_limits
        set counted_at = array[${last_used_at}::timestamptz], reads = ${reads}, caught_up_at = ${caught_up_at}
        where organization_id = ${id} and api_key_id = ${key.id}`;
    }
    const view = await openConsole(admin);
    await view.shows("1–3 of 3 entries");
    await view.goTo("Usage");
    await view.shows("8 readers");
    const cells = await view.row("test").getByRole("cell").allInnerTexts();
    // Requests, those with a mistake, entries.
    assertEquals(cells.slice(1, 4), ["3", "1", "6"]);
    assertStringIncludes(await view.row("Administrator").innerText(), admin.email);
    await view.assertAccessible("usage");
    await view.press("Entries read");
    await view.press("Entries read");
    await view.page.locator("[aria-sort=descending]").getByText("Entries read").waitFor();
    assertStringIncludes(await view.page.getByRole("row").nth(1).innerText(), "test");
    for (const screen of ["Usage", "API keys"] as const) {
      await view.goTo(screen);
      for (const [n, [says]] of keys.entries()) {
        await view.row(`key ${n}`).getByText(says).waitFor();
      }
    }
  });
});
