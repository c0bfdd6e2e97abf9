import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import document from "../../docs/openapi.json" with { type: "json" };
import { CONSOLE_URL, openPage } from "./browser.ts";

const REFERENCE_URL = `${CONSOLE_URL}docs`;
const { parameters, responses } = document.paths["/public-audit-log"].get;

describe("the reference page", () => {
  it("shows every parameter, status, field and header, fits each window, and loads nothing from elsewhere", async () => {
    const view = await openPage(REFERENCE_URL);
    const { page, complaints, origins } = view;
    await page.getByText("Each API key belongs to one organization").first().waitFor();
    // The page draws its lower part when a person scrolls there.
    await page.mouse.wheel(0, 2_000);
    await page.getByText("organization_id").filter({ visible: true }).first().waitFor();
    const text = await page.locator("body").innerText();
    const names = [
      ...parameters.map(({ name }) => name),
      ...Object.keys(responses),
      ...Object.keys(responses[200].headers),
      ...Object.keys(document.components.schemas.Page.properties),
    ];
    assertEquals(names.filter((name) => !text.includes(name)), []);
    await view.assertFits("reference");
    assertEquals(complaints, []);
    for (const origin of origins) assert([new URL(CONSOLE_URL).origin, "null"].includes(origin));
  });

  it("names the stack that serves it, whatever its port", async () => {
    const text = await (await fetch(REFERENCE_URL)).text();
    assertStringIncludes(text, `"${CONSOLE_URL}functions/v1"`);
    assert(!text.includes("127.0.0.1:54321"));
  });
});
