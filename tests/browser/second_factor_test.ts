import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { renderSVG } from "npm:uqr@0.1.2";
import { openScreen, scan } from "./browser.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";

// Supabase Lite knows no factors, so these are the answers of Supabase Auth. supabase_auth_test.ts has the real ones.
describe("a second factor", () => {
  it("can be scanned on a light and on a dark page, and is removed by two presses, never by one", async () => {
    const factor = {
      id: "1",
      factor_type: "totp",
      status: "verified",
      friendly_name: "phone",
      created_at: "2026-01-01T00:00:00Z",
    };
    let factors = [factor];
    const { view, page, admin } = await openScreen("log");
    await page.route("**/auth/v1/user", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), factors } });
    });
    await page.route("**/auth/v1/factors**", async (route) => {
      if (route.request().method() === "DELETE") factors = [];
      const uri = `otpauth://totp/127.0.0.1:${admin.email}?issuer=127.0.0.1&secret=${SECRET}`;
      // As Auth draws it: black squares up to the edge, on nothing.
      const qr_code = renderSVG(uri, { border: 0, whiteColor: "transparent" });
      const totp = { qr_code, secret: SECRET, uri };
      await route.fulfill({ json: { id: "2", type: "totp", totp } });
    });
    await view.press(admin.email);
    await page.getByRole("menuitem", { name: "Second factor" }).click();
    await view.press("Remove");
    assertEquals(factors.length, 1);
    await view.press("Keep it");
    await view.press("Remove");
    await view.press("Remove it for good", "You have no second factor yet.");
    await view.press("Add an app");
    const image = page.getByRole("img", { name: "The key as a QR code" });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-mantine-color-scheme=${colorScheme}]`).waitFor();
      assertStringIncludes(await scan(image) ?? "", `secret=${SECRET}`, colorScheme);
    }
    await view.close();
    assertEquals(await view.focused(), admin.email);
  });
});
