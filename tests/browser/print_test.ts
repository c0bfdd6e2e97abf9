import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { insertEntries, MESSAGE_DATA, runUpkeep, sql } from "../helpers.ts";
import { openLog, openScreen, SCREENSHOTS, today, type View } from "./browser.ts";

/** Prints the page, also into a file to look at, and returns the number of sheets. */
async function print({ page }: View, name: string): Promise<number> {
  const path = new URL(`${name}.pdf`, SCREENSHOTS).pathname;
  const pdf = new TextDecoder("latin1").decode(await page.pdf({ path, format: "A4" }));
  return pdf.match(/\/Type \/Page\b/g)?.length ?? 0;
}

/** Lays the page out as on paper, and returns the lines of its heading. */
async function layOut({ page }: View): Promise<string[]> {
  await page.emulateMedia({ media: "print" });
  await page.evaluate(`dispatchEvent(new Event("beforeprint"))`);
  const heading = await page.locator(".printed").innerText();
  return heading.replace(/ \d{4}-\S+ \S+ UTC$/, " …").split("\n");
}

describe("on paper, also from a dark screen", () => {
  it("a month of seals is whole, and needs two sheets at most", async () => {
    const { view, page } = await openScreen(
      "seals?start=2026-01-01&end=2026-01-31",
      async ({ id }) => {
        await insertEntries(sql, id, "2026-01-01", 62, { every: "12 hours" });
        await runUpkeep(sql);
      },
      { colorScheme: "dark" },
    );
    await view.shows("31 days sealed");
    const sheets = await print(view, "seals");
    assert(sheets <= 2, `${sheets} sheets`);
    assertEquals(await layOut(view), [
      "Organization: Test",
      "Days: 2026-01-01 – 2026-01-31 (UTC)",
      "Total: 31 days with entries or a seal",
      "Printed at …",
    ]);
    const seal = page.locator("td code").first();
    assertEquals((await seal.innerText()).length, 64);
    assert(await seal.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth));
  });

  it("each entry names who it was, also beside long changes", async () => {
    const changes = {
      title: ["a ".repeat(90), "b ".repeat(90)],
      state: ["open", "closed"],
      n: [1, 2],
    };
    const entries = [{ created_at: `${today()}T00:00:00Z`, data: { ...MESSAGE_DATA, changes } }];
    const { view, page } = await openLog(entries, "range=today");
    await view.row("closed").first().waitFor();
    await print(view, "changes");
    await layOut(view);
    // As wide as the text of a sheet.
    await page.setViewportSize({ width: 703, height: 994 });
    for (const text of ["ada@example.com", "Assistant"]) {
      const cell = page.getByRole("cell", { name: text });
      const lines = await cell.evaluate((cell) => {
        const range = cell.ownerDocument.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
      });
      assertEquals(lines, 1, text);
      const { x, width } = await cell.boundingBox() ?? {};
      assert(x && width && x + width <= 703, `${text} ends at ${x} + ${width}`);
    }
    await page.emulateMedia({ media: "screen" });
    await view.row("closed").first().click();
    await view.entry.waitFor();
    await page.emulateMedia({ media: "print" });
    const panel = await view.entry.boundingBox();
    const old = await view.entry.getByRole("cell", { name: "open" }).boundingBox();
    assert(panel && old && old.x > panel.x, `${old?.x} is left of ${panel?.x}`);
  });

  it("the log has its filters and total in the heading, repeats the head of its table, and has no controls", async () => {
    const entries = Array.from({ length: 51 }, (_, n) => ({
      created_at: `${today()}T00:00:00.${100 + n}Z`,
      agent_name: `An agent whose long name no column of a sheet has room for in one line, ${n}`,
    }));
    const { view, page } = await openLog(entries, "range=today&user_email=ada@example.com");
    await page.emulateMedia({ colorScheme: "dark" });
    await view.row("one line, 7").first().click();
    await view.entry.getByText("p-1").or(view.entry.getByText("m-1")).first().waitFor();
    await print(view, "log");
    assertEquals(await layOut(view), [
      "Organization: Test",
      `Days: ${today()} (UTC)`,
      "Person: ada@example.com",
      "Total: 51 entries, here 1 to 50",
      "Printed at …",
    ]);
    // But for the values of an entry, which filter on a screen.
    const controls = page.locator("button:not(dd > button)");
    assertEquals(await controls.filter({ visible: true }).count(), 0);
    await view.entry.getByRole("button", { name: "ada@example.com" }).waitFor();
    for (const what of ["All actions by this person:", "All about this:"]) {
      const links = view.entry.getByText(what, { exact: true });
      assert(await links.count() > 0, what);
      assertEquals(await links.filter({ visible: true }).count(), 0, what);
    }
    assertEquals(await page.getByRole("banner").count(), 0);
    const style = (selector: string, property: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("${selector}"))["${property}"]`);
    assertEquals(await style("thead", "display"), "table-header-group");
    assertEquals(await style("body", "background-color"), "rgb(255, 255, 255)");
    assertEquals(await style("h1", "color"), "rgb(22, 24, 29)");
  });
});
