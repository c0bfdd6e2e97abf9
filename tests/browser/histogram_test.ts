import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { daysAgo, hourly, openLog, type Page, today } from "./browser.ts";

function bars(page: Page) {
  return page.getByRole("listbox").getByRole("option");
}

describe("the chart of days", () => {
  it("draws at most 120 bars, names each day with its entries, and shows the days that a person drags over or chooses by keyboard", async () => {
    const { view, page } = await openLog([
      { created_at: "1000-01-01T00:00:00Z" },
      { created_at: "9999-12-31T23:59:59Z" },
      ...[1, 2, 3].flatMap((days) => hourly(daysAgo(days), days)),
    ], "start=1000-01-01&end=9999-12-31");
    await page.getByText("8 entries", { exact: true }).waitFor();
    await page.getByRole("option", { name: /9999-12-31: 1 entry/ }).waitFor();
    assert(await bars(page).count() <= 120);
    await view.chooseRange("30 days");
    await page.getByRole("option", { name: `${daysAgo(2)}: 2 entries` }).waitFor();
    assertEquals(await bars(page).count(), 30);
    await page.getByText("6 entries", { exact: true }).waitFor();
    const from = page.getByRole("option", { name: daysAgo(3) });
    await from.dragTo(page.getByRole("option", { name: daysAgo(2) }));
    await view.shows("1–5 of 5 entries");
    assertStringIncludes(page.url(), `?start=${daysAgo(3)}&end=${daysAgo(2)}`);
    await page.goBack();
    await view.shows("1–6 of 6 entries");
    await page.getByRole("option", { name: today() }).focus();
    await view.key("ArrowLeft", "ArrowLeft", "Shift+ArrowLeft", "Enter");
    await view.shows("1–5 of 5 entries");
    assertStringIncludes(page.url(), `?start=${daysAgo(3)}&end=${daysAgo(2)}`);
  });

  it("has a bar for each hour of up to 7 days, names the bar beside the pointer and keeps the total, and leads to that hour's page", async () => {
    const day = daysAgo(1);
    const noon = { created_at: `${day}T12:00:00Z` };
    const { view, page } = await openLog([
      { created_at: `${day}T08:59:59.999Z` },
      { created_at: `${day}T09:00:00Z` },
      { created_at: `${day}T09:59:59Z` },
      ...Array(50).fill(noon),
    ]);
    const nine = page.getByRole("option", { name: `${day} 09:00 UTC: 2 entries` });
    await nine.waitFor();
    assertEquals(await bars(page).count(), 7 * 24);
    const chart = page.locator("figure");
    await chart.getByText(daysAgo(6), { exact: true }).waitFor();
    await nine.hover();
    const caption = chart.getByText(`${day} 09:00 UTC: 2 entries, not yet sealed`);
    await caption.waitFor();
    const [named, bar] = [await caption.boundingBox(), await nine.boundingBox()];
    assert(named && bar && named.x <= bar.x && bar.x <= named.x + named.width);
    await chart.getByText("53 entries", { exact: true }).waitFor();
    await nine.click();
    await chart.getByText("20:00", { exact: true }).waitFor();
    assertEquals(await bars(page).count(), 24);
    assertStringIncludes(page.url(), `?start=${day}&end=${day}`);
    await nine.click();
    await view.shows("51–53 of 53 entries");
    await view.row("09:59:59.000").waitFor();
  });
});
