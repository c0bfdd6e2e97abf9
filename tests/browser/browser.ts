import { afterAll, afterEach } from "@std/testing/bdd";
import { AxeBuilder } from "npm:@axe-core/playwright@4.14.0";
import { type BrowserContextOptions, chromium, type Page } from "npm:playwright-core@1.65.1";
import { Buffer } from "node:buffer";
import { buildConsole } from "../../local/console.ts";
import { API_URL, newOrganization, type Person, PUBLISHABLE_KEY, signUp } from "../helpers.ts";

export type { Page };

/** Where the console is: at the root of the stack under test. */
export const CONSOLE_URL = `${Deno.env.get("SUPABASE_URL")}/`;

/** The viewer's zone in every test: never UTC. */
export const TIME_ZONE = "America/New_York";

const SCREENSHOTS = new URL("../../local/data/screenshots/", import.meta.url);
/**
 * A phone, the narrowest that a page should fit (WCAG 2.2, 1.4.10); 1440 pixels at a zoom of 200 %; a
 * usual and a wide screen.
 */
export const WIDTHS = [320, 720, 1440, 1920];

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

/** Opens the console at one of its addresses; with a person, signed in and on its screen. */
export async function openConsole(
  person: Person | null,
  address = "",
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const opened = await openPage(`${CONSOLE_URL}${address}`, options);
  if (person) {
    await signIn(opened.page, person);
    // Until its heading is there, that screen's address may replace one that a test goes to.
    await opened.page.getByRole("heading", { level: 1 }).waitFor();
  }
  return opened;
}

/** Opens a page. */
export async function openPage(
  url: string,
  options: BrowserContextOptions = {},
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
  await page.goto(url);
  return { page, complaints, origins };
}

/** Opens the console as it is built with other choices; with another page around it if that is given. */
export async function openVariant(
  choices: Record<string, string>,
  { around = "", prepare }: { around?: string; prepare?: (page: Page) => Promise<unknown> } = {},
): Promise<OpenedPage> {
  const outDir = await Deno.makeTempDir();
  const serve = await buildConsole({
    apiUrl: API_URL,
    publishableKey: PUBLISHABLE_KEY,
    outDir,
    choices,
  });
  await Deno.remove(outDir, { recursive: true });
  const opened = await openPage("about:blank");
  const { page } = opened;
  await page.route(`${CONSOLE_URL}variant/**`, async (route) => {
    const response = serve(new URL(route.request().url()).pathname.slice("/variant".length));
    if (!response) return route.fulfill({ status: 404 });
    await route.fulfill({
      contentType: response.headers.get("Content-Type") ?? "",
      body: Buffer.from(await response.arrayBuffer()),
    });
  });
  await prepare?.(page);
  await page.goto(around || `${CONSOLE_URL}variant/`);
  return opened;
}

/** Fills the sign-in form in; resolves when the person is in. */
export async function signIn(page: Page, { email, password }: Person): Promise<void> {
  await page.getByLabel("E-mail").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  // Named as it is seen, for whoever speaks to the browser.
  await page.getByRole("button", { name: new RegExp(`^${email}`) }).waitFor();
}

/** A person who administers one organization of their own. */
export async function newAdmin(organizationName?: string) {
  const admin = await signUp();
  return { admin, organization: await newOrganization(admin, organizationName) };
}

/** Opens the console as an administrator of a new organization. */
export async function openAsAdmin(organizationName?: string) {
  const created = await newAdmin(organizationName);
  return { ...created, ...await openConsole(created.admin) };
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
  return new Date().toISOString().slice(0, 10);
}

/** Runs a command as somebody who has pasted it into a shell. */
export async function shell(command: string, env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await new Deno.Command("bash", { args: ["-c", `${command} -s`], env })
    .output();
  return new TextDecoder().decode(stdout);
}

/** The rules of accessibility (axe-core) that the page breaks, with the elements that do. */
export async function violations(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    // The name of each button and link has the text that is seen (WCAG 2.2, 2.5.3).
    .options({ rules: { "label-content-name-mismatch": { enabled: true } } })
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
