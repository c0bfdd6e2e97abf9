import { assert, assertEquals } from "@std/assert";
import { afterAll, afterEach } from "@std/testing/bdd";
import { AxeBuilder } from "npm:@axe-core/playwright@4.14.0";
import { findBrowser } from "../../dev/local/find_browser.ts";
import { type BrowserContextOptions, chromium, type Page } from "npm:playwright-core@1.65.1";
import { Buffer } from "node:buffer";
import { buildConsole } from "../../dev/local/console.ts";
import { API_URL, type Entry, PUBLISHABLE_KEY, writeEntries } from "./mod.ts";
import { newOrganization, type Person, signUp } from "./people.ts";

export type { Page };
export * from "./mod.ts";

/** Where the console is: at the root of the stack under test. */
export const CONSOLE_URL = `${API_URL}/`;

/** Where a page finds a console that is built with other choices. */
export const VARIANT_URL = `${CONSOLE_URL}variant/`;

export const SESSION = "audit-log-console-auth-token";

const SCREENSHOTS = new URL("../../dev/local/data/screenshots/", import.meta.url);
/** The narrowest that a page should fit (WCAG 2.2, 1.4.10). */
const PHONE = 320;
/** A phone; 1440 pixels at a zoom of 200 %; a tablet; a wide and a usual screen. */
const WIDTHS = [PHONE, 720, 800, 1920, 1440];
/** These states have other elements on a phone: cards, or a dialog instead of a panel. */
const OTHER_ON_PHONES = "sign-in log log-altered log-entry keys streams usage seals".split(" ");

/** What the Data API answers when its database is gone. */
export const NO_DATABASE = { status: 503, json: { code: "PGRST002", message: "no database" } };

/** Each test file starts one browser. After each test, what the test opened is closed. */
const browser = await chromium.launch({
  executablePath: await findBrowser(),
  // As in a person's browser, Back shows the page as it was left.
  ignoreDefaultArgs: ["--disable-back-forward-cache"],
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
// Has the stack build the console, for which the first page would wait.
await (await fetch(CONSOLE_URL)).body?.cancel();
afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));
afterAll(() => browser.close());

export class View {
  /** What the browser complained about: errors of scripts and of the content security policy. */
  readonly complaints: string[] = [];
  readonly origins = new Set<string>();

  constructor(readonly page: Page) {
    page.setDefaultTimeout(20_000);
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    page.on("console", (message) => {
      // The browser reports each answer that is an error, and the tests cause some.
      if (message.text().startsWith("Failed to load resource")) return;
      if (message.type() !== "info") this.complaints.push(message.text());
    });
    page.on("request", (request) => this.origins.add(new URL(request.url()).origin));
  }

  button(name: string | RegExp, exact = false) {
    return this.page.getByRole("button", { name, exact });
  }

  /** The row of a key, an entry or a day, by something that it shows. */
  row(text: string) {
    return this.page.getByRole("row").filter({ hasText: text });
  }

  /** The entry that is open. */
  get entry() {
    return this.page.getByRole("dialog");
  }

  async shows(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).waitFor();
  }

  /** Presses a button, and waits until the page shows the text that this leads to. */
  async press(name: string | RegExp, leadsTo?: string | RegExp): Promise<void> {
    await this.button(name).click();
    if (leadsTo) await this.shows(leadsTo);
  }

  async key(...keys: string[]): Promise<void> {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  /** Signs in with a password, and waits for what this leads to: the button of the person's account. */
  async signIn(
    { email, password }: Pick<Person, "email" | "password">,
    leadsTo = this.button(email),
  ): Promise<void> {
    await this.page.getByLabel("E-mail").fill(email);
    await this.page.getByLabel("Password", { exact: true }).fill(password);
    await this.press("Sign in");
    await leadsTo.waitFor();
  }

  /** Presses a button that opens a menu, and then an item of the menu. */
  async pressInMenu(name: string | RegExp, item: string): Promise<void> {
    await this.press(name);
    await this.page.getByRole("menuitem", { name: item, exact: true }).click();
  }

  async signOut(email: string, how = "Sign out"): Promise<void> {
    await this.pressInMenu(email, how);
    await this.button("Sign in").waitFor();
  }

  async goTo(
    room: "Activity" | "Destinations" | "Access" | "Readers" | "Integrity" | "Settings",
  ): Promise<void> {
    if (room === "Readers") await this.goTo("Access");
    const link = this.page.getByRole("navigation").getByRole("link", { name: room });
    await link.click();
    await link.and(this.page.locator("[aria-current]")).waitFor();
    const title = room === "Readers" ? "Access" : room;
    await this.page.getByRole("heading", { name: title, level: 1, exact: true }).waitFor();
  }

  async choose(select: string, option: string): Promise<void> {
    await this.page.getByRole("combobox", { name: select }).selectOption({ label: option });
  }

  async chooseRange(name: string): Promise<void> {
    await this.button(name, true).click();
  }

  async chooseDays(start: string, end: string): Promise<void> {
    await this.page.getByLabel("From", { exact: true }).fill(start);
    await this.page.getByLabel("To", { exact: true }).fill(end);
    await this.key("Enter");
  }

  async hasDays(start: string, end = start): Promise<void> {
    for (const [label, day] of [["From", start], ["To", end]] as const) {
      const field = this.page.getByLabel(label, { exact: true });
      await field.and(this.page.locator(`[value="${day}"]`)).waitFor();
    }
  }

  async chooseAction(name: string): Promise<void> {
    await this.button("Filter", true).click();
    await this.page.getByRole("checkbox", { name, exact: true }).check();
    await this.applyFilter();
  }

  /** The days have such a button, too. */
  async applyFilter(): Promise<void> {
    await this.page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  }

  async close(): Promise<void> {
    await this.key("Escape");
    await this.page.getByRole("dialog").waitFor({ state: "hidden" });
  }

  async openMenu(key: string, item: "Rotate …" | "Revoke …"): Promise<void> {
    await this.row(key).first().getByRole("button", { name: /^Actions for/ }).click();
    await this.page.getByRole("menuitem", { name: item }).click();
    await this.page.getByRole("dialog").waitFor();
  }

  /** Presses the button that copies something, and returns the clipboard's text. */
  async copy(what: string): Promise<string> {
    await this.button(`Copy ${what}`, true).click();
    await this.page.getByText("Copied").first().waitFor();
    return await this.page.evaluate<string>("navigator.clipboard.readText()");
  }

  /** Presses a button, and returns the name and the path of what the browser downloads. */
  async download(button: string): Promise<{ name: string; path: string }> {
    // Without the dialog for a file, which nobody answers here, the browser downloads.
    await this.page.evaluate("window.showSaveFilePicker = undefined");
    const downloaded = this.page.waitForEvent("download");
    await this.press(button);
    const file = await downloaded;
    return { name: file.suggestedFilename(), path: await file.path() };
  }

  /** How often somebody has pressed something since the page was loaded. */
  presses(): Promise<number> {
    return this.page.evaluate("window.presses");
  }

  /** The name of the element that has the focus. */
  focused(): Promise<string> {
    return this.page.evaluate(`document.activeElement.getAttribute("aria-label") ??
      (document.activeElement.labels?.[0] ?? document.activeElement).innerText`);
  }

  /** Fails if something covers what has the focus (WCAG 2.2, 2.4.11). */
  async assertFocusSeen(): Promise<void> {
    const isSeen = await this.page.evaluate(`(() => {
      const focused = document.activeElement;
      const { x, y, width, height } = focused.getBoundingClientRect();
      const seen = document.elementFromPoint(x + width / 2, y + Math.min(height, 40) / 2);
      return focused.contains(seen) || seen?.contains(focused);
    })()`);
    assert(isSeen, `${await this.focused()} is covered`);
  }

  async tabTo(name: RegExp): Promise<void> {
    for (let i = 0; i < 40; i++) {
      await this.key("Tab");
      if (name.test(await this.focused())) return;
    }
    throw new Error(`Tab never reaches ${name}`);
  }

  /** Gives the page another time, and keeps the server's from it, which a console with a slow clock believes. */
  async setTime(time: string): Promise<void> {
    await this.page.clock.install({ time });
    await this.page.route("**/rpc/**", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: { ...response.headers(), date: "" } });
    });
  }

  session(): Promise<string | null> {
    return this.page.evaluate(`localStorage.getItem("${SESSION}")`);
  }

  /** Records the names of the functions that the page calls from here on. */
  recordCalls(): string[] {
    const calls: string[] = [];
    this.page.on("request", (request) => {
      const name = request.url().match(/\/rpc\/(\w+)/)?.[1];
      if (name && request.method() === "POST") calls.push(name);
    });
    return calls;
  }

  async setVisibility(state: "hidden" | "visible"): Promise<void> {
    await this.page.evaluate(`
      Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
      document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));`);
  }

  /**
   * Fails unless this state of the page fits each window and axe-core finds no fault in light or dark colours.
   * Takes pictures of it. `open` opens what floats over the page, which a change of width closes.
   */
  async assertAccessible(state: string, open?: () => Promise<void>): Promise<void> {
    // Otherwise axe-core may see colours that are changing.
    await this.page.emulateMedia({ reducedMotion: "reduce" });
    await this.assertFits(state, async (width) => {
      if (open) {
        await this.key("Escape");
        await open();
      }
      if (width !== PHONE) return;
      await this.#takePicture(`${state}-phone`);
      if (OTHER_ON_PHONES.includes(state)) await this.assertNoViolation(state);
    });
    await this.#takePicture(`${state}-light`);
    await this.assertNoViolation(state);
    await this.page.emulateMedia({ colorScheme: "dark" });
    await this.page.locator("html:not([data-mantine-color-scheme=light])").waitFor();
    await this.#takePicture(`${state}-dark`);
    // Other colours make no other elements.
    await this.assertNoViolation(state, ["color-contrast", "link-in-text-block"]);
    await this.page.emulateMedia({ colorScheme: "light" });
    assertEquals(this.complaints, []);
  }

  /** Fails if the page breaks a rule of accessibility (axe-core). Names the elements that break it. */
  async assertNoViolation(state: string, rules?: string[]): Promise<void> {
    const { violations } = await new AxeBuilder({ page: this.page })
      .options({
        // The name of each button and link has the text that is seen (2.5.3), and is 24 pixels large or apart (2.5.8).
        rules: {
          "label-content-name-mismatch": { enabled: true },
          "target-size": { enabled: true },
        },
        resultTypes: ["violations"],
        ...rules && { runOnly: rules },
      })
      // Without frames one call is enough. Otherwise all results travel to another page and back.
      .setLegacyMode()
      .analyze();
    const found = violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
    assertEquals(found, [], state);
  }

  /** Fails if the page stays wider than a window. Does something at each width. */
  async assertFits(state: string, at?: (width: number) => Promise<void>): Promise<void> {
    for (const width of WIDTHS) {
      await this.page.setViewportSize({ width, height: 900 });
      await at?.(width);
      // A menu that is closing, say, leaves its place at the old width a moment later.
      const end = Date.now() + 5_000;
      while (await this.#overflow() > 0 && Date.now() < end);
      assertEquals(await this.#overflow(), 0, `${state} at ${width}`);
    }
  }

  #overflow(): Promise<number> {
    return this.page.evaluate(
      "document.documentElement.scrollWidth - document.documentElement.clientWidth",
    );
  }

  async drawn(): Promise<void> {
    const frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))";
    await this.page.evaluate(frame);
  }

  /** Waits for a condition. (waitForFunction asks again by `eval`, which the console's policy forbids.) */
  async until(condition: string): Promise<void> {
    const end = Date.now() + 20_000;
    while (!await this.page.evaluate(condition)) {
      assert(Date.now() < end, `never: ${condition}`);
      await this.drawn();
    }
  }

  /** Fails if something moved by itself. */
  async assertStill(state: string): Promise<void> {
    await this.drawn();
    const shift = await this.page.evaluate<number>("shift");
    assert(shift <= 0.02, `${state} moves by ${shift}`);
  }

  highestRow(): Promise<number> {
    return this.page.evaluate(
      `Math.max(...Array.from(document.querySelectorAll("tbody tr"), (row) => row.offsetHeight))`,
    );
  }

  async #takePicture(name: string): Promise<void> {
    await this.page.screenshot({ path: new URL(`${name}.png`, SCREENSHOTS).pathname });
  }
}

/** Counts what a person presses, and adds up how far parts of the page move by themselves (Cumulative Layout Shift). */
const COUNTING = `
  window.presses = 0;
  addEventListener("pointerdown", () => window.presses++, true);
  window.shift = 0;
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shift += value;
  }).observe({ type: "layout-shift", buffered: true });`;

export interface ViewOptions extends BrowserContextOptions {
  /** Called before the page goes anywhere. */
  prepare?: (page: Page) => Promise<unknown>;
}

/** Opens a page in a browser context of its own: without a session or a history. */
export async function openPage(url: string, { prepare, ...options }: ViewOptions = {}) {
  const context = await browser.newContext({
    // Not UTC, so that a mistake shows.
    timezoneId: "America/New_York",
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const view = new View(await context.newPage());
  await view.page.addInitScript(COUNTING);
  await prepare?.(view.page);
  await view.page.goto(url);
  return view;
}

/** Opens the console at one of its addresses, for a person who has signed in or for nobody. */
export async function openConsole(person: Person | null, address = "", options: ViewOptions = {}) {
  const url = `${CONSOLE_URL}${address}`;
  if (!person) return await openPage(url, options);
  const view = await openPage(url, { ...options, storageState: await storedSession(person) });
  // Until then, the screen that loads may replace the address that a test goes to next.
  await view.page.getByRole("heading", { level: 1 }).waitFor();
  return view;
}

/** What a browser stores for a person who has signed in, under the name that the console was built with. */
export async function storedSession({ client }: Person, name = SESSION) {
  const { data } = await client.auth.getSession();
  const localStorage = [{ name, value: JSON.stringify(data.session) }];
  return { cookies: [], origins: [{ origin: new URL(CONSOLE_URL).origin, localStorage }] };
}

/** Builds the console with other choices. Returns what lets a page find it. */
export async function buildVariant(choices: Record<string, string>) {
  const outDir = await Deno.makeTempDir();
  const options = { apiUrl: API_URL, publishableKey: PUBLISHABLE_KEY, outDir, choices };
  const serve = await buildConsole(options);
  await Deno.remove(outDir, { recursive: true });
  return (page: Page) =>
    page.route(`${VARIANT_URL}**`, async (route) => {
      const path = route.request().url().slice(VARIANT_URL.length - 1);
      const response = serve(path) ?? new Response(null, { status: 404 });
      await route.fulfill({
        status: response.status,
        contentType: response.headers.get("Content-Type") ?? "",
        body: Buffer.from(await response.arrayBuffer()),
      });
    });
}

/** Makes an organization, and a person who alone administers it. */
export async function newAdmin(organizationName?: string) {
  const admin = await signUp();
  return { admin, ...await newOrganization(admin, organizationName) };
}

/** Opens a screen of a new organization as its administrator, after something has been prepared there. */
export async function openScreen(
  screen: string,
  prepare?: (created: Awaited<ReturnType<typeof newAdmin>>) => unknown,
  options?: ViewOptions,
) {
  const created = await newAdmin();
  await prepare?.(created);
  const view = await openConsole(created.admin, `#/${created.id}/${screen}`, options);
  return { ...created, view, page: view.page };
}

export function openLog(entries: Entry[], search = "") {
  return openScreen(`log?${search}`, ({ id }) => entries.length && writeEntries(id, entries));
}

/** Entries an hour apart, the latest at 23:00 of a day. The agent's name counts them. */
export function hourly(day: string, count: number): Entry[] {
  const latest = Date.parse(`${day}T23:00:00Z`);
  return Array.from({ length: count }, (_, n) => ({
    created_at: new Date(latest - n * 3_600_000).toISOString(),
    agent_name: `agent ${n}.`,
  }));
}
