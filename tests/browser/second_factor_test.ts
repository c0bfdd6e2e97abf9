import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { openScreen } from "./browser.ts";

/** A code as Auth draws it: black squares up to the edge, on nothing. */
const CODE = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 45 45">
  <path d="M0 0h45v45H0z"/></svg>`;

// Supabase Lite knows no factors, so these are the answers of Supabase Auth. supabase_auth_test.ts has the real ones.
describe("a second factor", () => {
  it("can be scanned on a dark page, and is removed by two presses, never by one", async () => {
    const factor = {
      id: "1",
      factor_type: "totp",
      status: "verified",
      friendly_name: "phone",
      created_at: "2026-01-01T00:00:00Z",
    };
    let factors = [factor];
    const { view, page, admin } = await openScreen("log");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.route("**/auth/v1/user", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...await response.json(), factors } });
    });
    await page.route("**/auth/v1/factors**", async (route) => {
      if (route.request().method() === "DELETE") factors = [];
      const totp = { qr_code: CODE, secret: "SECRET", uri: "otpauth://totp/x" };
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
    const picture = (await image.screenshot()).toString("base64");
    // The light squares from the edge to the code, on its way through the middle.
    const [light, dark] = await page.evaluate<[number, number]>(`(async () => {
      const image = new Image();
      image.src = "data:image/png;base64,${picture}";
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      const row = context.getImageData(0, image.height >> 1, image.width, 1).data;
      const isLight = (x) => row[x * 4] > 200;
      let light = 0;
      while (light < image.width && isLight(light)) light++;
      return [light, row[(image.width >> 1) * 4]];
    })()`);
    assert(light >= 4 * 180 / 45, `${light} light pixels`);
    assert(dark < 50, `${dark}`);
    await view.close();
    assertEquals(await view.focused(), admin.email);
  });
});
