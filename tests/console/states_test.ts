// Needs a stack and a browser. Slow.

import { assert, assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { CONSOLE_URL, HAS_STREAMS, insertEntries, newAdmin } from "../helpers/browser.ts";
import { openConsole, type Page, type Person, runUpkeep, sql } from "../helpers/browser.ts";
import { valueOf } from "../helpers/browser.ts";

/** What a person can press, but for links. */
const CONTROLS = ["button", "summary", "[role=menuitem]"];
/** What ends the session, or makes or asks for a file. */
const LEAVES = /^(Sign out|Download|Export (CSV|NDJSON))/;

/** The controls that can be pressed now, by name: those of the dialog, if one is open. */
async function controlsOf(page: Page) {
  const dialog = "section[role=dialog]";
  const within = await page.locator(dialog).count() > 0 ? `${dialog} ` : "";
  const controls = CONTROLS.map((control) => within + control).join();
  const names = await page.evaluate<string[]>(
    `Array.from(document.querySelectorAll("${controls}"), (control) =>
      control.disabled || !control.checkVisibility() ? "" : control.ariaLabel ?? control.innerText)`,
  );
  const all = page.locator(controls);
  return new Map(names.flatMap((name, n) => name ? [[name.trim(), all.nth(n)] as const] : []));
}

/** Presses each control of some screens once, also those that a press brings up. Returns how many states it saw. */
async function visitAll(person: Person | null, addresses: string[]): Promise<number> {
  const view = await openConsole(person);
  const { page } = view;
  await page.emulateMedia({ reducedMotion: "reduce" });
  const seen = new Set<string>();
  let states = 0;
  for (const address of addresses) {
    const paths: string[][] = [[]];
    // It grows meanwhile.
    for (const path of paths) {
      await page.goto("about:blank");
      await page.goto(`${CONSOLE_URL}${address}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      for (const name of [null, ...path]) {
        if (name) await (await controlsOf(page)).get(name)?.click();
        await page.getByText(/^Loading/).first().waitFor({ state: "hidden" });
        await view.drawn();
      }
      await view.assertNoViolation([address, ...path].join(" › "));
      states++;
      for (const name of (await controlsOf(page)).keys()) {
        // Another day is no other state, nor is another copied text.
        const kind = name.replaceAll(/\d+/g, "0").replace(/^Copy .*/, "Copy");
        if (!seen.has(kind) && !LEAVES.test(name)) paths.push([...path, name]);
        seen.add(kind);
      }
    }
  }
  assertEquals(view.complaints, []);
  return states;
}

it("no state that a press leads to breaks a rule of axe-core before the sign-in", async () => {
  const states = await visitAll(null, [""]);
  assert(states >= 7, `${states} states`);
});

it("no state that a press leads to breaks a rule of axe-core on the screens of an administrator", async () => {
  const { admin, id } = await newAdmin();
  await insertEntries(sql, id, "2026-03-01", 2);
  await runUpkeep(sql);
  const entry = await valueOf(
    sql`select 'entry=' || id || '&at=2026-03-01T00:00:00.000Z' from audit_log.audit_entries
    where organization_id = ${id} order by created_at limit 1`,
  );
  const screens = [
    "log?start=2026-03-01&end=2026-03-01",
    `log?start=2026-03-01&end=2026-03-01&${entry}`,
    "log?object=nothing",
    "keys",
    ...HAS_STREAMS ? ["streams", "streams/new"] : [],
    "usage",
    "settings",
    "seals?start=2026-03-01&end=2026-03-01",
  ];
  const states = await visitAll(admin, screens.map((screen) => `#/${id}/${screen}`));
  assert(states > (HAS_STREAMS ? 45 : 30), `${states} states`);
});
