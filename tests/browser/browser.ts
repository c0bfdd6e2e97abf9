import { afterAll, afterEach } from "@std/testing/bdd";
import { AxeBuilder } from "npm:@axe-core/playwright@4.14.0";
import { type BrowserContextOptions, chromium, type Page } from "npm:playwright-core@1.65.1";
import {
  type Entry,
  newOrganization,
  type Organization,
  type Person,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";

export type { Page };

/** Where the console is: at the root of the stack under test. */
export const CONSOLE_URL = `${Deno.env.get("SUPABASE_URL")}/`;

/** The viewer's zone in every test: never UTC. */
export const TIME_ZONE = "America/New_York";

const SCREENSHOTS = new URL("../../local/data/screenshots/", import.meta.url);
/**
 * A phone, the narrowest that a page should fit (WCAG 2.2, 1.4.10); 1440 pixels at a zoom of 200 %; a
 * tablet; a wide and a usual screen.
 */
export const WIDTHS = [320, 720, 800, 1920, 1440];

const executablePath = Deno.env.get("CHROMIUM");
if (!executablePath) throw new Error("No browser: run these tests with deno task test:browser");

/** One for each test file; what a test opens in it is closed after the test. */
const browser = await chromium.launch({
  executablePath,
  // As in a person's browser, Back shows the page as it was left.
  ignoreDefaultArgs: ["--disable-back-forward-cache"],
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
afterEach(() => Promise.all(browser.contexts().map((context) => context.close())));
afterAll(() => browser.close());

/** A page in a browser context of its own: no session, no history. */
export interface OpenedPage {
  page: Page;
  /** What the browser complained about: errors of scripts and of the content security policy. */
  complaints: string[];
  /** The origins that the page has sent requests to. */
  origins: Set<string>;
}

export interface PageOptions extends BrowserContextOptions {
  /** Called before the page goes anywhere. */
  prepare?: ((page: Page) => Promise<unknown>) | undefined;
}

/** Opens the console at one of its addresses; for a person with that person's session, until its screen is there. */
export async function openConsole(
  person: Person | null,
  address = "",
  options: PageOptions = {},
): Promise<OpenedPage> {
  const url = `${CONSOLE_URL}${address}`;
  if (!person) return await openPage(url, options);
  const session = await storedSession(person, "audit-log-console-auth-token");
  const opened = await openPage(url, { ...options, storageState: session });
  // Until its heading is there, that screen's address may replace one that a test goes to.
  await opened.page.getByRole("heading", { level: 1 }).waitFor();
  return opened;
}

/** What a browser keeps of a person who has signed in, under the name that the console was built with. */
export async function storedSession({ client }: Person, name: string) {
  const { data } = await client.auth.getSession();
  const localStorage = [{ name, value: JSON.stringify(data.session) }];
  return { cookies: [], origins: [{ origin: new URL(CONSOLE_URL).origin, localStorage }] };
}

/** Opens a page. */
export async function openPage(
  url: string,
  { prepare, ...options }: PageOptions = {},
): Promise<OpenedPage> {
  const context = await browser.newContext({
    timezoneId: TIME_ZONE,
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  const origins = new Set<string>();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser's own line for each answer that is an error; the tests make some.
    if (message.text().startsWith("Failed to load resource")) return;
    if (message.type() !== "info") complaints.push(message.text());
  });
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  await prepare?.(page);
  await page.goto(url);
  return { page, complaints, origins };
}

/** Fills the sign-in form in; resolves when the person is in. */
export async function signIn(page: Page, { email, password }: Person): Promise<void> {
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  // Named as it is seen, for whoever speaks to the browser.
  await page.getByRole("button", { name: new RegExp(`^${email}`) }).waitFor();
}

/** A person, and an organization that this person alone administers. */
export interface Administered {
  admin: Person;
  organization: Organization;
}

export async function newAdmin(organizationName?: string): Promise<Administered> {
  const admin = await signUp();
  return { admin, organization: await newOrganization(admin, organizationName) };
}

/** Opens a screen of a new organization as its administrator, after something has been prepared there. */
export async function openScreen(
  screen: string,
  prepare?: (created: Administered) => unknown,
  options?: PageOptions,
): Promise<OpenedPage & Administered> {
  const created = await newAdmin();
  await prepare?.(created);
  const { admin, organization: { id } } = created;
  return { ...created, ...await openConsole(admin, `#/${id}/${screen}`, options) };
}

/** Opens the log of a new organization with these entries. */
export function openLog(entries: Entry[], search = ""): ReturnType<typeof openScreen> {
  return openScreen(
    `log?${search}`,
    ({ organization: { id } }) => entries.length && writeEntries(id, entries),
  );
}

/** Opens the keys of a new organization, which has one named "test". */
export async function openKeys(prepare?: (created: Administered) => unknown) {
  const opened = await openScreen("keys", prepare);
  await row(opened.page, "test").first().waitFor();
  return opened;
}

/** Opens a dialog from the menu of a key. */
export async function openMenu(
  page: Page,
  key: string,
  item: "Rotate …" | "Revoke …",
): Promise<void> {
  await row(page, key).first().getByRole("button", { name: /^Actions for/ }).click();
  await page.getByRole("menuitem", { name: item }).click();
  await page.getByRole("dialog").waitFor();
}

/** Presses a button; resolves when the text is there to which that leads, if one is named. */
export async function press(
  page: Page,
  name: string | RegExp,
  leadsTo?: string | RegExp,
): Promise<void> {
  await page.getByRole("button", { name }).click();
  if (leadsTo) await shows(page, leadsTo);
}

/** Waits until the page shows a text. */
export async function shows(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).waitFor();
}

/** Goes to a screen by its link. */
export async function goTo(
  page: Page,
  screen: "Log" | "API keys" | "Access" | "Seals",
): Promise<void> {
  await page.getByRole("link", { name: screen, exact: true }).click();
  await page.getByRole("heading", { name: screen, level: 1, exact: true }).waitFor();
}

/** Chooses an option of a select. */
export async function choose(page: Page, select: string, option: string): Promise<void> {
  await page.getByRole("combobox", { name: select }).selectOption({ label: option });
}

/** Goes to another organization. */
export async function chooseOrganization(page: Page, name: string): Promise<void> {
  await page.getByRole("combobox", { name: "Organization" }).click();
  await page.getByRole("option", { name, exact: true }).click();
}

/** Chooses one of the ranges that have a name. */
export async function chooseRange(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: /^Days/ }).click();
  await page.getByRole("button", { name, exact: true }).click();
}

/** Shows times as on the viewer's clock. */
export async function chooseLocalTime(page: Page): Promise<void> {
  await page.getByRole("button", { name: /^Days/ }).click();
  await page.getByText(/^Local time/).click();
  await page.keyboard.press("Escape");
}

/** Shows the entries of one action only. */
export async function chooseAction(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "Filter", exact: true }).click();
  await choose(page, "Action", name);
  await page.getByRole("button", { name: "Show", exact: true }).click();
}

/** The entry that is open beside the list. */
export function entryPanel(page: Page) {
  const name = "Entry";
  return page.getByRole("complementary", { name }).or(page.getByRole("dialog", { name }));
}

export async function closeEntry(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await entryPanel(page).waitFor({ state: "hidden" });
}

export async function closeDialog(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
}

/** The row of a key, an entry or a day, by something that it shows. */
export function row(page: Page, text: string) {
  return page.getByRole("row").filter({ hasText: text });
}

/** What has the focus, as its reader knows it. */
export function focused(page: Page): Promise<string> {
  return page.evaluate(`document.activeElement.getAttribute("aria-label") ??
    (document.activeElement.labels?.[0] ?? document.activeElement).innerText`);
}

/** Presses Tab until it reaches what has this name. */
export async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press("Tab");
    if (name.test(await focused(page))) return;
  }
  throw new Error(`Tab never reaches ${name}`);
}

/** The days that the address names. */
export function daysIn(page: Page): (string | null)[] {
  const search = new URLSearchParams(page.url().split("?")[1]);
  return [search.get("start"), search.get("end")];
}

/** Calls of functions of the Data API from here on, by name. */
export function recordCalls(page: Page): string[] {
  const calls: string[] = [];
  page.on("request", (request) => {
    const name = request.url().match(/\/rpc\/(\w+)/)?.[1];
    if (name && request.method() === "POST") calls.push(name);
  });
  return calls;
}

/** Hides the tab from the page, or shows it again. */
export async function setVisibility(page: Page, state: "hidden" | "visible"): Promise<void> {
  await page.evaluate(`
    Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));`);
}

/** What the Data API answers when its database is gone. */
export const NO_DATABASE = { status: 503, json: { code: "PGRST002", message: "no database" } };

export function today(): string {
  return daysAgo(0);
}

/** The day a number of days before today, in UTC. */
export function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

/** Entries an hour apart, the latest at 23:00 of a day; the agent's name counts them. */
export function hourly(day: string, count: number): Entry[] {
  const latest = Date.parse(`${day}T23:00:00Z`);
  return Array.from({ length: count }, (_, n) => ({
    created_at: new Date(latest - n * 3_600_000).toISOString(),
    agent_name: `agent ${n}.`,
  }));
}

/** Seals days of an organization, as the upkeep does. */
export async function sealDays(id: string, first: string, last: string): Promise<void> {
  await sql`
    select audit_log_private.seal_day(${id}, day::date)
    from generate_series(${first}::date, ${last}::date, '1 day') as day`;
}

/** Presses the button that copies something; the clipboard's text. */
export async function copy(page: Page, what: string): Promise<string> {
  await page.getByRole("button", { name: `Copy ${what}` }).click();
  await page.getByText("Copied").first().waitFor();
  return await page.evaluate<string>("navigator.clipboard.readText()");
}

/** Runs a command as somebody who has pasted it into a shell. */
export async function shell(command: string, env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await new Deno.Command("bash", { args: ["-c", `${command} -s`], env })
    .output();
  return new TextDecoder().decode(stdout);
}

/** The rules of accessibility (axe-core) that the page breaks, with the elements that do. */
export async function violations(page: Page, rules?: string[]): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .options({
      // The name of each button and link has the text that is seen (WCAG 2.2, 2.5.3).
      rules: { "label-content-name-mismatch": { enabled: true } },
      resultTypes: ["violations"],
      ...rules && { runOnly: rules },
    })
    // Without frames one call is enough. Otherwise all that is right travels to another page and back.
    .setLegacyMode()
    .analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/** Takes a picture of the window, into a folder that git does not keep. */
export async function takePicture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: new URL(`${name}.png`, SCREENSHOTS).pathname });
}

/** How far the page is wider than the window, in pixels. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate<number>(
    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
  );
}
