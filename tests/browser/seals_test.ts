import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { insertEntries, runUpkeep, sql, writeEntries } from "../helpers.ts";
import { CONSOLE_URL, newAdmin, openConsole, openScreen } from "./browser.ts";

describe("seals, accessible in each state", () => {
  it("are shown by day as sealed, not yet sealed or altered, and the latest is copied", async () => {
    const { admin, id } = await newAdmin();
    await writeEntries(id, [
      { created_at: "2026-03-01T12:00:00Z" },
      { created_at: "2026-03-02T12:00:00Z" },
      { created_at: "2026-03-02T13:00:00Z" },
    ]);
    await runUpkeep(sql);
    await writeEntries(id, [
      { created_at: "2026-03-02T14:00:00Z" },
      { created_at: "2026-03-03T12:00:00Z" },
    ]);
    // As the upkeep marks a day whose entries were changed behind the triggers.
    await sql`
      update audit_log_private.sealed_days set altered_at = now()
      where organization_id = ${id} and day = '2026-03-01'`;
    await sql`select audit_log_private.hold(${id}, 'Matter 7', 'Grace, Legal')`;
    await sql`update audit_log.organizations set keep_days = 3650 where id = ${id}`;
    const view = await openConsole(admin, `#/${id}/seals?start=2026-03-01&end=2026-03-04`);
    const { page } = view;
    await view.shows("On hold: no entry is deleted");
    await view.shows("Matter 7, by Grace, Legal");
    await view.shows("Entries are deleted after 3,650 days.");
    await view.row("2026-03-01").getByText("Altered after sealing").waitFor();
    await view.row("2026-03-02").getByText("Sealed", { exact: true }).waitFor();
    await view.row("2026-03-02").getByText("Sealed with 2 entries. The next seal will say")
      .waitFor();
    await view.row("2026-03-03").getByText("Not yet sealed").waitFor();
    const days = await page.getByRole("rowheader").allInnerTexts();
    assertEquals(days, ["2026-03-03", "2026-03-02", "2026-03-01"]);
    await page.getByRole("alert").getByText("Entries of 1 day were changed after sealing.")
      .waitFor();
    await view.shows("1 day sealed, 1 not yet, 1 altered, 1 day without entries.");
    await view.assertAccessible("seals");
    const [latest] = await sql`
      select sequence, seal from audit_log_private.seals where organization_id = ${id} order by sequence desc limit 1`;
    const kept = `${latest?.["sequence"]}:${latest?.["seal"]}`;
    assertEquals(await view.copy("latest seal"), kept);
    assertEquals(await view.copy("seal of 2026-03-02"), kept);
    await page.goto(`${CONSOLE_URL}#/${id}/log?start=2026-03-01&end=2026-03-09`);
    await page.getByRole("option", { name: "2026-03-01: 1 entry, altered after sealing" })
      .waitFor();
    await page.getByRole("option", { name: "2026-03-02: 3 entries, sealed" }).waitFor();
    await page.getByRole("option", { name: "2026-03-03: 1 entry, not yet sealed" }).waitFor();
    await page.getByRole("alert").getByRole("link", { name: "2026-03-01" }).waitFor();
    await view.assertAccessible("log-altered");
    // Of any age, on every screen.
    for (const screen of ["log?range=7d", "usage", "keys"]) {
      await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
      await page.getByRole("alert").getByText("2026-03-01 was altered after sealing.").waitFor();
    }
  });

  it("are all shown when there are more than a page of them", async () => {
    const { view, page } = await openScreen(
      "seals?start=2020-01-01&end=2022-12-31",
      async ({ id }) => {
        await insertEntries(sql, id, "2020-01-01", 1005, { every: "1 day" });
        await runUpkeep(sql);
      },
    );
    await view.row("2022-10-01").getByText("Sealed", { exact: true }).waitFor();
    assertEquals(await page.getByText("Sealed", { exact: true }).count(), 1005);
  });
});
