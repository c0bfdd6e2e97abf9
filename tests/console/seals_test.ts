// Needs a stack and a browser. Slow.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import {
  AUDIT_LOG_URL,
  insertEntries,
  runUpkeep,
  sql,
  valueOf,
  writeEntries,
} from "../helpers/mod.ts";
import { runDeno } from "../helpers/run_program.ts";
import { CONSOLE_URL, newAdmin, openConsole, openScreen } from "../helpers/browser.ts";

const CLI = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** The latest seal of an organization, as people save it. */
async function latestSeal(id: string): Promise<string> {
  return await valueOf(sql`
    select sequence || ':' || seal from audit_log_private.seals
    where organization_id = ${id} order by sequence desc limit 1`);
}

describe("seals, accessible in each state", () => {
  it("are shown by day as sealed, not yet sealed or altered, and the latest is copied", async () => {
    const { admin, id } = await newAdmin();
    await writeEntries(id, [{ created_at: "2026-03-01T12:00:00Z" }]);
    await runUpkeep(sql);
    await sql`delete from audit_log.audit_entries where organization_id = ${id}`;
    await writeEntries(id, [{ created_at: "2026-03-01T13:00:00Z" }]);
    await runUpkeep(sql);
    await writeEntries(id, [
      { created_at: "2026-03-02T12:00:00Z" },
      { created_at: "2026-03-02T13:00:00Z" },
    ]);
    await runUpkeep(sql);
    for (const day of ["2026-05-01", "2026-02-28"]) {
      await writeEntries(id, [{ created_at: `${day}T12:00:00Z` }]);
      await runUpkeep(sql);
    }
    await writeEntries(id, [
      { created_at: "2026-03-02T14:00:00Z" },
      { created_at: "2026-03-03T12:00:00Z" },
    ]);
    // As the upkeep marks a day whose entries were changed behind the triggers.
    await sql`
      update audit_log_private.sealed_days set altered_at = '2026-03-09T01:02:03Z'
      where organization_id = ${id} and day = '2026-03-01'`;
    await sql`
      update audit_log.organizations set keep_days = 3650, hold_reason = 'Matter 7' where id = ${id}`;
    const view = await openConsole(admin, `#/${id}/seals?start=2026-02-28&end=2026-03-04`);
    const { page } = view;
    await view.shows("On hold: the service deletes no entry");
    await view.shows("Matter 7");
    await view.shows("Entries are deleted after 3,650 days.");
    const altered = await view.row("2026-03-01").innerText();
    assertMatch(altered, /Altered · sealed 20\S+ \S+, found altered 2026-03-09 01:02:03/);
    assertMatch(altered, /Since its first seal: 1 added, 1 removed/);
    await view.row("2026-03-02").getByText("Sealed", { exact: true }).waitFor();
    await view.row("2026-03-02").getByText("Sealed with 2 entries. The next seal will say")
      .waitFor();
    await view.row("2026-03-03").getByText("Not yet sealed").waitFor();
    await view.row("2026-02-28").getByText("First sealed after 2026-05-01: its entries came late")
      .waitFor();
    const days = await page.getByRole("rowheader").allInnerTexts();
    assertEquals(days, ["2026-03-03", "2026-03-02", "2026-03-01", "2026-02-28"]);
    const alert = page.getByRole("alert");
    await alert.getByText("2026-03-01 was altered after sealing.").waitFor();
    assertEquals(await alert.count(), 1);
    await view.shows("What to do about an altered day");
    assertEquals(await page.getByRole("listitem").count(), 5);
    const how = page.getByRole("link", { name: "How to compare" });
    const { pathname, hash } = new URL(await how.evaluate((link) => String(link)));
    const answer = await fetch(`${CONSOLE_URL}${pathname.slice(1)}`);
    assertStringIncludes(await answer.text(), `id="${hash.slice(1)}"`);
    await view.shows("2 days sealed, 1 not yet, 1 altered.");
    await view.assertAccessible("seals");
    await page.getByRole("link", { name: "Export the day" }).click();
    await view.hasDays("2026-03-01");
    await page.goBack();
    const saved = await latestSeal(id);
    await view.shows(`The latest is number ${saved.split(":")[0]}, of 2026-02-28.`);
    assertEquals(await view.copy("seal"), saved);
    await page.setViewportSize({ width: 360, height: 900 });
    assertEquals(await view.copy("seal of 2026-02-28"), saved);
    await page.goto(`${CONSOLE_URL}#/${id}/log?start=2026-03-01&end=2026-03-09`);
    await page.getByRole("alert").getByRole("link", { name: "2026-03-01" }).waitFor();
    await view.assertAccessible("log-altered");
    // Of any age, on every screen.
    for (const screen of ["log?range=7d", "usage", "keys"]) {
      await page.goto(`${CONSOLE_URL}#/${id}/${screen}`);
      await page.getByRole("alert").getByText("2026-03-01 was altered after sealing.").waitFor();
    }
  });

  it("are all shown when there are more than a page of them, and downloaded as the file with which verify proves exported days without network", async () => {
    const { view, page, id, token } = await openScreen(
      "seals?start=2020-01-01&end=2022-12-31",
      async ({ id }) => {
        await insertEntries(sql, id, "2020-01-01", 1005, { every: "1 day" });
        await runUpkeep(sql);
      },
    );
    await view.row("2022-10-01").getByText("Sealed", { exact: true }).waitFor();
    assertEquals(await page.getByText("Sealed", { exact: true }).count(), 1005);
    await page.setViewportSize({ width: 375, height: 812 });
    const height = await view.highestRow();
    assert(height <= 72, `${height} pixels a day`);
    const saved = await view.copy("seal");
    assertEquals(saved, await latestSeal(id));
    const { name, path } = await view.download("Download seals (JSON)");
    assertEquals(name, "seals.json");

    const cwd = await Deno.makeTempDir();
    const run = async (permissions: string[], ...args: string[]) => {
      const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: token };
      const ended = await runDeno({ args: ["run", ...permissions, CLI, ...args], cwd, env });
      assertEquals(ended.code, 0, ended.stderr);
      return ended.stdout;
    };
    await run(["-A"], "export", "--days=days", "--start=2022-09-28", "--end=2022-10-01");
    const offline = ["--allow-all", "--deny-net"];
    assertEquals(
      await run(offline, "verify", "days", `--seals=${path}`, `--saved=${saved}`),
      "Other sealed days, which are not asked for: 1001\n" +
        `All is as it was sealed. The chain has the seal that you saved. Save this: ${saved}\n`,
    );
    await Deno.remove(cwd, { recursive: true });
  });
});
