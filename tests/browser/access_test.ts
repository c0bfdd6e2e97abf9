import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { get, getProblem, writeEntries } from "../helpers.ts";
import { goTo, newAdmin, openConsole, row, today } from "./browser.ts";

describe("Access", () => {
  it("shows what keys and administrators have read, with refused requests, and sorts it", async () => {
    const { admin, organization: { id, token } } = await newAdmin();
    await writeEntries(id, [1, 2, 3].map((n) => ({ created_at: `${today()}T00:00:0${n}Z` })));
    for (let n = 0; n < 2; n++) await get(token, `start=${today()}&end=${today()}`);
    await getProblem(400, token, "start=nonsense");
    const { page } = await openConsole(admin);
    await page.getByText("1–3 of 3 entries").waitFor();
    await goTo(page, "Access");
    await page.getByText("2 readers").waitFor();
    const cells = await row(page, "API key pck_").getByRole("cell").allInnerTexts();
    // Requests, refused ones, entries.
    assertEquals(cells.slice(0, 3), ["3", "1", "6"]);
    const person = await row(page, "Administrator").innerText();
    assertStringIncludes(person, admin.email);
    await page.getByRole("button", { name: "Entries read" }).click();
    await page.getByRole("button", { name: "Entries read" }).click();
    await page.locator("[aria-sort=descending]").getByText("Entries read").waitFor();
    assertStringIncludes(await page.getByRole("row").nth(1).innerText(), "API key");
  });

  it("says so when nobody has read the log", async () => {
    const { admin, organization: { id } } = await newAdmin();
    const { page } = await openConsole(admin, `#/${id}/access?start=2026-01-01&end=2026-01-02`);
    await page.getByRole("heading", { name: "Nobody" }).waitFor();
  });
});
