// Needs a stack and a browser. Slow.

import { assert } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { get, HAS_STREAMS, insertEntries, sql } from "../helpers/mod.ts";
import { newAdmin, openConsole, today, type View } from "../helpers/browser.ts";

const OPENINGS = 12;

/** All, with the rest; and what of it depends on how long the page is. */
const WORKS = ["TaskDuration", "RecalcStyleDuration", "LayoutDuration"];

/** Lets a function measure how much of the processor the page takes for these until an entry has opened. */
async function measureOpening(view: View) {
  const { page } = view;
  const devTools = await page.context().newCDPSession(page);
  await devTools.send("Performance.enable", { timeDomain: "threadTicks" });
  const metrics = async () => {
    await view.drawn();
    const { metrics } = await devTools.send("Performance.getMetrics");
    return new Map(metrics.map(({ name, value }) => [name, value]));
  };
  return async (row: number) => {
    await page.bringToFront();
    const before = await metrics();
    // By its place, because to find a row by its text lays out all of them.
    await page.mouse.click(500, 400 + row * 40);
    // Not by a locator, which looks at all elements.
    await view.until("document.querySelector('section[role=dialog]') !== null");
    const after = await metrics();
    await page.keyboard.press("Escape");
    await page.locator("section[role=dialog]").waitFor({ state: "detached" });
    return WORKS.map((name) => (after.get(name) ?? NaN) - (before.get(name) ?? NaN));
  };
}

describe("the log", () => {
  it("opens an entry of a thousand with at most 1.3 times the work that one of fifty takes", async () => {
    const { admin, id } = await newAdmin();
    await insertEntries(sql, id, today(), 1000, { every: "1 second" });
    const lists = await Promise.all([50, 1000].map(async (size) => {
      const view = await openConsole(admin, `#/${id}/log`, {
        viewport: { width: 1440, height: 900 },
      });
      await view.shows("1–50 of 1,000 entries");
      for (let shown = 300; size > 50 && shown < 1250; shown += 250) {
        await view.press("Load more", `1–${Math.min(shown, size).toLocaleString("en")} of 1,000`);
      }
      await view.page.evaluate("scrollTo(0, 0)");
      await view.page.getByRole("list", { name: "Entries by day" }).getByRole("link").first()
        .waitFor();
      return { measure: await measureOpening(view), works: [] as number[][] };
    }));
    for (let n = 0; n <= OPENINGS; n++) {
      for (const { measure, works } of lists) {
        const work = await measure(n);
        // The first loads what others only use.
        if (n > 0) works.push(work);
      }
    }
    for (const [n, name] of WORKS.entries()) {
      // What else the machine does only adds.
      const [fifty = NaN, thousand = NaN] = lists
        .map(({ works }) => Math.min(...works.map((work) => work[n] ?? NaN)));
      const found = `${name}: ${(thousand / fifty).toFixed(2)} times`;
      console.log(found);
      assert(thousand / fifty <= 1.3, found);
    }
  });
});

describe("at any width, nothing moves while the answers arrive one after the other", () => {
  it("on each screen, and with an open entry", async () => {
    const { admin, id, token } = await newAdmin();
    await get(token);
    await insertEntries(sql, id, today(), 30);
    const { page } = await openConsole(admin, `#/${id}/log`);
    await page.getByRole("row").nth(3).click();
    await page.getByRole("dialog").waitFor();
    const [, entry] = page.url().split("?");
    const streams = HAS_STREAMS ? ["streams"] : [];
    const screens = ["log", `log?${entry}`, "keys", ...streams, "usage", "seals"];
    for (const width of [1440, 375]) {
      for (const screen of screens) {
        let answers = Promise.resolve();
        const view = await openConsole(admin, `#/${id}/${screen}`, {
          viewport: { width, height: 900 },
          prepare: async (page) => {
            const json = { public_key: "A" };
            await page.route("**/audit-log-streams", (route) => route.fulfill({ json }));
            await page.route("**/rpc/**", (route) => {
              answers = answers.then(async () => {
                await route.fulfill({ response: await route.fetch() });
                await page.evaluate("new Promise(requestAnimationFrame)");
              });
            });
          },
        });
        // An answer may lead to the next call.
        let before: unknown;
        while (before !== answers) {
          before = answers;
          await before;
          await view.drawn();
        }
        await view.assertStill(`${screen} at ${width}`);
      }
    }
  });
});
