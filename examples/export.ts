// Exports the audit log of an organization to a file: every entry once, however often interrupted.
//
// FILE appears when it is complete, and not before. Until then FILE.part grows page by page, and
// FILE.progress says how much of it counts: the same command, run again, goes on from there.
//
// Offsets stay while entries are written, because new ones come last. But an entry may be committed
// late with an earlier time, and retention deletes old ones: both move all offsets behind them. So
// each page is asked from the last entry of the page before. If it begins with another one, the log
// has changed behind us: we go back to the end of the last day that is as it was, and on from there.
//
// What this cannot see: between two pages, as many entries deleted as inserted before them. Export
// days that are over and whose writers are done to rule it out.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
// With its version, so that this file runs wherever it is copied.
import { stringify } from "npm:csv-stringify@6.9.0/sync";

const USAGE = `Exports the audit log of an organization to a file.

  deno run --allow-net=HOST --allow-env=AUDIT_LOG_API_KEY --allow-read=FOLDER --allow-write=FOLDER \\
    examples/export.ts --url=URL --start=DAY --end=DAY --out=FILE

HOST is the URL's, FOLDER is where FILE goes. The API key is read from the environment variable
AUDIT_LOG_API_KEY. When interrupted, run the same command again: it goes on where it was.
CSV holds the exact values; to a spreadsheet those that begin with = + - @ are formulas, so import
it as text.

  --url=URL        the API: https://…/functions/v1/public-audit-log
  --start=DAY      first day, YYYY-MM-DD, UTC
  --end=DAY        last day, inclusive
  --action=ACTION  only entries with this action
  --out=FILE       must not exist; FILE.part and FILE.progress are beside it until it is complete
  --format=FORMAT  ndjson or csv (default: as FILE ends)
  --key-file=FILE  read the API key from this file instead (needs --allow-read=FILE)
  --tries=10       give up after so many failures in a row; a wait for the limit is none
  --help           this text

Exit codes: 0 done; 1 gave up, run it again; 2 wrong arguments, or files in the way; 3 key refused;
130 Ctrl-C, run it again.`;

const PAGE_SIZE = 1000;
/** Of a whole page, which may have 16 MB. */
const TIMEOUT_MS = 120_000;
const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 30_000;
const LONGEST_WAIT_S = 3600;
const MAX_REWINDS = 10;
const PLAIN_REPORT_MS = 10_000;

const CLEAR_LINE = "\r\x1b[K";

const GAVE_UP = 1;
const WRONG_ARGUMENTS = 2;
const KEY_REFUSED = 3;
const INTERRUPTED = 130;

const RESUME = "Nothing is lost: run the same command again, and it goes on where it was.";

const KEEPS_CHANGING =
  "Gave up: the log keeps changing behind us. Run the same command again when " +
  "fewer late entries are written and old ones deleted.";

const TOO_DEEP = "The data of an entry is nested deeper than JSON.parse can follow. Run the same " +
  "command again as: deno run --v8-flags=--stack-size=4000 …";

/** Why the program ends early; the message says what to do. */
class Stop extends Error {
  constructor(readonly exitCode: number, message: string) {
    super(message);
  }
}

/** What is exported. An unfinished export is continued with the same selection only. */
interface Selection {
  url: string;
  start: string;
  end: string;
  action: string | null;
  format: Format;
}

type Format = "ndjson" | "csv";

interface Options {
  selection: Selection;
  out: string;
  key: string;
  tries: number;
}

/** What matters of an entry here; the rest of it is passed on as it is. */
interface Entry {
  id: string;
  created_at: string;
  data?: unknown;
}

/** As in docs/openapi.d.ts; here again, so that this file can be copied alone. */
interface Page {
  organization_id: string;
  start: string;
  end: string;
  total: number;
  limit: number;
  offset: number;
  items: Entry[];
}

/** A place in the export: after so many entries and bytes, and which entry was the last. */
interface Position {
  entries: number;
  bytes: number;
  last: Entry | null;
}

/** What FILE.progress holds. */
interface Progress {
  selection: Selection;
  organizationId: string | null;
  position: Position;
  /** Where the days end that lie behind, in order; only those with entries. */
  dayEnds: Position[];
}

const BEGINNING: Position = { entries: 0, bytes: 0, last: null };

async function main(): Promise<number> {
  if (Deno.args.includes("--help")) {
    console.log(USAGE);
    return 0;
  }
  let next = "Try --help.";
  let exitCode = WRONG_ARGUMENTS;
  try {
    const options = readOptions();
    using part = new Part(options);
    next = RESUME;
    exitCode = GAVE_UP;
    Deno.addSignalListener("SIGINT", () => {
      part[Symbol.dispose]();
      console.error(`\nInterrupted. ${RESUME}`);
      Deno.exit(INTERRUPTED);
    });
    console.log(await exportLog(options, part));
    return 0;
  } catch (error) {
    if (error instanceof Stop) {
      console.error(error.message);
      return error.exitCode;
    }
    console.error(`${messageOf(error)}.\n${next}`);
    return exitCode;
  }
}

/** Exports page by page until FILE is complete. Returns what to say then. */
async function exportLog(options: Options, part: Part): Promise<string> {
  using display = new Display();
  const api = new Api(options, display);
  let furthest = 0;
  let rewinds = 0;
  while (true) {
    const askedAt = new Date().toISOString();
    const page = await readFrom(part.position, api, PAGE_SIZE);
    part.belongTo(page.organization_id);
    if (continues(page, part.position)) {
      part.append(page.items.slice(part.position.entries - page.offset));
      display.progress(part.position.entries, page.total);
      if (part.position.entries < page.total) continue;
      part.complete();
      return summary(options, page.total, askedAt);
    }
    rewinds = part.position.entries > furthest ? 1 : rewinds + 1;
    furthest = Math.max(furthest, part.position.entries);
    if (rewinds > MAX_REWINDS) throw new Stop(GAVE_UP, KEEPS_CHANGING);
    part.rewind(await lastUnchanged(api, part.dayEnds));
    display.say(`The log has changed behind us: back to entry ${number(part.position.entries)}.`);
  }
}

/** Asks from the last entry on; everything before it is as it was if the page begins with it. */
async function readFrom({ entries }: Position, api: Api, limit: number): Promise<Page> {
  return await api.readPage(Math.max(0, entries - 1), limit);
}

function continues(page: Page, { last }: Position): boolean {
  const first = page.items[0];
  return !last || first?.id === last.id && first.created_at === last.created_at;
}

/** Bisects for the last end of a day that is still where it was; or the beginning. */
async function lastUnchanged(api: Api, dayEnds: Position[]): Promise<Position> {
  let unchanged = BEGINNING;
  let low = 0;
  let high = dayEnds.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const position = dayEnds[middle] ?? BEGINNING;
    if (continues(await readFrom(position, api, 1), position)) {
      unchanged = position;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return unchanged;
}

function dayOf(entry: Entry): string {
  return entry.created_at.slice(0, "YYYY-MM-DD".length);
}

function summary({ out, selection: { end } }: Options, total: number, askedAt: string): string {
  const entries = total === 1 ? "entry" : "entries";
  const exported = `Exported ${number(total)} ${entries} to ${out}, the API's total.`;
  const isOver = end < askedAt.slice(0, end.length);
  return isOver
    ? exported
    : `${exported} These days are not over: this is the log as of ${askedAt}.`;
}

/** The API: keeps to the limit, and tries again what may succeed then. */
class Api {
  #options: Options;
  #display: Display;
  #notBefore = 0;

  constructor(options: Options, display: Display) {
    this.#options = options;
    this.#display = display;
  }

  async readPage(offset: number, limit: number): Promise<Page> {
    const { selection, key, tries } = this.#options;
    const url = pageUrl(selection, offset, limit);
    let failures = 0;
    while (true) {
      await this.#turn();
      const { page, failure, wait } = await attempt(url, key);
      this.#wait(wait * 1000);
      if (page) return page;
      if (!failure) continue;
      if (++failures >= tries) {
        throw new Stop(GAVE_UP, `Gave up (--tries=${tries}). The last: ${failure}.\n${RESUME}`);
      }
      this.#display.say(`${failure}. Trying again …`);
      this.#wait(Math.random() * Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1)));
    }
  }

  #wait(milliseconds: number): void {
    this.#notBefore = Math.max(this.#notBefore, performance.now() + milliseconds);
  }

  async #turn(): Promise<void> {
    const milliseconds = Math.ceil(this.#notBefore - performance.now());
    if (milliseconds >= 1000) this.#display.waiting(milliseconds);
    if (milliseconds > 0) await sleep(milliseconds);
  }
}

function pageUrl(selection: Selection, offset: number, limit: number): URL {
  const { start, end, action } = selection;
  const url = new URL(selection.url);
  url.search = new URLSearchParams({
    start,
    end,
    ...action !== null && { action },
    limit: String(limit),
    offset: String(offset),
  }).toString();
  return url;
}

/** What a request came to: a page, a failure, or neither when it was over the limit. */
interface Attempt {
  page?: Page | undefined;
  failure?: string;
  /** How many seconds the API asks to wait before the next request. */
  wait: number;
}

async function attempt(url: URL, key: string): Promise<Attempt> {
  let response: Response;
  let body: string;
  try {
    const headers = { Authorization: `Bearer ${key}` };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    response = await fetch(url, { headers, signal, redirect: "manual" });
    body = await response.text();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw new Stop(WRONG_ARGUMENTS, error.message);
    return { failure: `No whole answer (${messageOf(error)})`, wait: 0 };
  }
  const { status, headers } = response;
  const wait = requestedWait(headers);
  if (status === 200) {
    const page = parsePage(body, url.searchParams);
    if (page) return { page, wait };
    return { failure: "An answer that is not the page asked for (is --url right?)", wait };
  }
  if (status === 429 && wait > 0) return { wait };
  const id = headers.get("X-Request-Id");
  const seen = id ? `${status}, request id ${id}` : String(status);
  // What the API never says comes from something in between.
  if (status < 400 || [400, 401, 404, 405].includes(status)) throw refusal(status, body, seen);
  return { failure: `Status ${seen}`, wait };
}

/**
 * Seconds from Retry-After, a number or a date (RFC 9110 section 10.2.3), or else from RateLimit when
 * no request is left; 0 when they say nothing.
 */
function requestedWait(headers: Headers): number {
  const after = headers.get("Retry-After") ??
    headers.get("RateLimit")?.match(/;\s*r=0;\s*t=(\d+)/)?.[1] ?? "0";
  const seconds = /^\d+$/.test(after) ? Number(after) : (Date.parse(after) - Date.now()) / 1000;
  return Math.min(Math.max(seconds || 0, 0), LONGEST_WAIT_S);
}

/** The page that was asked for, or nothing when the text is anything else, a cut page for example. */
function parsePage(text: string, asked: URLSearchParams): Page | undefined {
  const page = parseJson(text) as Partial<Page> | null | undefined;
  const { organization_id, start, end, total, limit, offset, items } = page ?? {};
  if (start !== asked.get("start") || end !== asked.get("end")) return;
  if (limit !== Number(asked.get("limit")) || offset !== Number(asked.get("offset"))) return;
  if (typeof organization_id !== "string" || typeof total !== "number") return;
  const length = Math.max(0, Math.min(limit, total - offset));
  if (!Array.isArray(items) || items.length !== length || !items.every(isEntry)) return;
  return page as Page;
}

function isEntry(item: Partial<Entry> | null): item is Entry {
  return typeof item?.id === "string" && typeof item.created_at === "string";
}

/** JSON.parse source text access (ECMAScript 2026), which TypeScript has no types for yet. */
const exact = JSON as unknown as {
  rawJSON(text: string): unknown;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source: string }) => unknown,
  ): unknown;
};

/** Parses JSON so that JSON.stringify gives every digit of its numbers back. */
function parseJson(text: string): unknown {
  try {
    return exact.parse(
      text,
      (_key, value, { source }) =>
        typeof value === "number" && String(value) !== source ? exact.rawJSON(source) : value,
    );
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    if (error instanceof RangeError) throw new Stop(GAVE_UP, TOO_DEEP);
    throw error;
  }
}

function refusal(status: number, body: string, seen: string): Stop {
  if (status === 401) {
    return new Stop(
      KEY_REFUSED,
      `The API refuses the key (${seen}). Run the same command again with an active one: an ` +
        "administrator of the organization creates it.",
    );
  }
  const next = status === 400 ? "Correct the options." : "Is --url right?";
  return new Stop(
    WRONG_ARGUMENTS,
    `The API refuses the request (${seen}). ${next}${reasons(body)}`,
  );
}

/** What the API says about it; nothing when something before the API has answered. */
function reasons(body: string): string {
  try {
    const { detail, errors = [] } = JSON.parse(body) as {
      detail?: string;
      errors?: { parameter: string; detail: string }[];
    };
    if (typeof detail !== "string") return "";
    return ` ${detail}${errors.map((error) => `\n  ${error.parameter}: ${error.detail}`).join("")}`;
  } catch {
    return "";
  }
}

/** FILE.part and FILE.progress, until they become FILE. */
class Part {
  #out: string;
  #file: Deno.FsFile;
  #progress: Progress;
  #isComplete = false;

  /** Takes FILE.part for this process alone, and goes on where it ends. */
  constructor({ out, selection }: Options) {
    refuseExisting(out);
    this.#out = out;
    this.#file = Deno.openSync(`${out}.part`, { read: true, write: true, create: true });
    const isLocked = this.#file.tryLockSync(true);
    // Whoever had the lock may just have renamed the file, or removed it with nothing in it.
    refuseExisting(out);
    if (!isLocked || !isAt(this.#file, `${out}.part`)) {
      throw new Stop(WRONG_ARGUMENTS, `${out}.part is in use: another export is at it.`);
    }
    this.#progress = readProgress(out, selection, this.#file.statSync().size);
    this.rewind(this.position);
  }

  get position(): Position {
    return this.#progress.position;
  }

  get dayEnds(): Position[] {
    return this.#progress.dayEnds;
  }

  /** Refuses to put entries of two organizations into one file. */
  belongTo(organizationId: string): void {
    if (this.#progress.organizationId === null) this.#progress.organizationId = organizationId;
    if (this.#progress.organizationId === organizationId) return;
    throw new Stop(WRONG_ARGUMENTS, foreign(this.#out, "of another organization than the key"));
  }

  append(entries: Entry[]): void {
    const { selection: { format }, position: before, dayEnds } = this.#progress;
    let text = before.bytes === 0 ? header(format) : "";
    let position = { ...before, bytes: before.bytes + byteLength(text) };
    for (const entry of entries) {
      if (position.last && dayOf(position.last) !== dayOf(entry)) dayEnds.push(position);
      const record = line(format, entry);
      text += record;
      position = {
        entries: position.entries + 1,
        bytes: position.bytes + byteLength(record),
        last: { id: entry.id, created_at: entry.created_at },
      };
    }
    this.#file.seekSync(before.bytes, Deno.SeekMode.Start);
    writeDurably(this.#file, text);
    this.#progress.position = position;
    this.#save();
  }

  /** Drops what comes after a position. */
  rewind(position: Position): void {
    const { dayEnds } = this.#progress;
    this.#progress.position = position;
    this.#progress.dayEnds = dayEnds.filter(({ entries }) => entries < position.entries);
    // First, so that never less is there than it says.
    this.#save();
    this.#file.truncateSync(position.bytes);
  }

  complete(): void {
    refuseExisting(this.#out);
    Deno.renameSync(`${this.#out}.part`, this.#out);
    Deno.removeSync(`${this.#out}.progress`);
    this.#isComplete = true;
  }

  #save(): void {
    const path = `${this.#out}.progress`;
    {
      using file = Deno.openSync(`${path}.new`, { write: true, create: true, truncate: true });
      writeDurably(file, JSON.stringify(this.#progress));
    }
    Deno.renameSync(`${path}.new`, path);
  }

  /** Gives the file up for another run; one that has nothing yet leaves nothing. */
  [Symbol.dispose](): void {
    if (this.position.bytes === 0 && !this.#isComplete) {
      Deno.removeSync(`${this.#out}.part`);
      Deno.removeSync(`${this.#out}.progress`);
    }
    this.#file.close();
  }
}

function refuseExisting(out: string): void {
  if (!exists(out)) return;
  throw new Stop(
    WRONG_ARGUMENTS,
    `${out} exists, and is complete if an export made it: remove it, or choose another --out.`,
  );
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function isAt(file: Deno.FsFile, path: string): boolean {
  return exists(path) && Deno.lstatSync(path).ino === file.statSync().ino;
}

/** What an earlier run of this command left, or the beginning. */
function readProgress(out: string, selection: Selection, size: number): Progress {
  if (size === 0) return { selection, organizationId: null, position: BEGINNING, dayEnds: [] };
  const path = `${out}.progress`;
  const progress = exists(path) ? parseJson(Deno.readTextFileSync(path)) as Progress : undefined;
  const isOurs = JSON.stringify(progress?.selection) === JSON.stringify(selection);
  if (progress && isOurs && progress.position?.bytes <= size) return progress;
  throw new Stop(WRONG_ARGUMENTS, foreign(out, "not of this command"));
}

function foreign(out: string, why: string): string {
  return `${out}.part is ${why}: finish that export first, choose another --out, or remove ` +
    `${out}.part and ${out}.progress.`;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Returns when the text is on the disk. */
function writeDurably(file: Deno.FsFile, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) written += file.writeSync(bytes.subarray(written));
  file.syncDataSync();
}

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"];

function header(format: Format): string {
  return format === "csv" ? csvRecord(COLUMNS) : "";
}

function line(format: Format, entry: Entry): string {
  if (format === "ndjson") return `${JSON.stringify(entry)}\n`;
  return csvRecord({ ...entry, data: JSON.stringify(entry.data) });
}

/** A record as RFC 4180 has it. */
function csvRecord(record: object): string {
  return stringify([record], {
    columns: COLUMNS,
    record_delimiter: "windows",
    // Or else a value with \n or \r alone is not quoted, and readers see two records.
    quote_record_delimiter: true,
  });
}

/** Says how far the export is, on stderr: a bar on a terminal, a line now and then elsewhere. */
class Display {
  #isTerminal = Deno.stderr.isTerminal();
  #state = "Starting";
  #since: { entries: number; now: number } | undefined;
  #shownAt = -Infinity;

  progress(entries: number, total: number): void {
    const now = performance.now();
    // Not before the first page: it may have had to wait. And the export may have gone back since.
    if (this.#since === undefined || entries < this.#since.entries) this.#since = { entries, now };
    const rate = (entries - this.#since.entries) / (now - this.#since.now) * 1000;
    const left = rate > 0
      ? `, ${number(rate)}/s, ${duration((total - entries) / rate * 1000)} left`
      : "";
    this.#state = `${number(entries)} of ${number(total)} entries`;
    const filled = Math.round(20 * entries / Math.max(1, total));
    this.#show(`${this.#state}${left}`, ` ${"█".repeat(filled)}${"░".repeat(20 - filled)}`);
  }

  waiting(milliseconds: number): void {
    // A long silence is announced.
    if (milliseconds >= PLAIN_REPORT_MS) this.#shownAt = -Infinity;
    this.#show(`${this.#state}, waiting ${duration(milliseconds)}`);
  }

  /** Shows a state until the next one, and where nothing can be taken back one of many. */
  #show(text: string, bar = ""): void {
    if (this.#isTerminal) {
      // A line that wraps cannot be taken back. Some terminals have no width.
      const columns = Deno.consoleSize().columns || 80;
      return write(`${CLEAR_LINE}${`${text}${bar}`.slice(0, columns - 1)}`);
    }
    const now = performance.now();
    if (now - this.#shownAt < PLAIN_REPORT_MS) return;
    this.#shownAt = now;
    write(`${text}\n`);
  }

  /** Says what should stay. */
  say(text: string): void {
    write(`${this.#isTerminal ? CLEAR_LINE : ""}${text}\n`);
  }

  [Symbol.dispose](): void {
    if (this.#isTerminal) write("\n");
  }
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}

function number(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

function duration(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
}

/** What fetch throws says only in its cause what has happened. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

/** Reads the command line and the key. */
function readOptions(): Options {
  refuseKeyAsArgument(Deno.args);
  const given = parseOptions();
  const { url, start, end, out } = given;
  const missing = (["url", "start", "end", "out"] as const).filter((name) => !given[name]);
  if (!url || !start || !end || !out) throw usageError(`Missing: --${missing.join(", --")}`);
  const tries = Number(given.tries ?? 10);
  if (!Number.isInteger(tries) || tries < 1) throw usageError("--tries: a whole number from 1");
  const format = readFormat(given.format ?? out.split(".").at(-1));
  const selection = { url: readUrl(url), start, end, action: given.action ?? null, format };
  return { selection, out, tries, key: readKey(given["key-file"]) };
}

/** Others see the arguments of a process, and the shell keeps them. */
function refuseKeyAsArgument(args: string[]): void {
  if (!args.some((arg) => /pck_\w{30}/.test(arg))) return;
  throw usageError(
    "An API key does not belong on the command line: put it into AUDIT_LOG_API_KEY or a --key-file. " +
      "This one is in your shell's history now: revoke it, and create another",
  );
}

function parseOptions() {
  try {
    const string = { type: "string" } as const;
    const options = {
      url: string,
      start: string,
      end: string,
      action: string,
      out: string,
      format: string,
      "key-file": string,
      tries: string,
    };
    return parseArgs({ args: Deno.args, options }).values;
  } catch (error) {
    throw usageError(messageOf(error));
  }
}

function readUrl(text: string): string {
  const url = URL.parse(text);
  const isBare = url && !url.username && !url.password && !url.search && !url.hash;
  const isSecret = url?.protocol === "https:" ||
    url?.protocol === "http:" && ["127.0.0.1", "[::1]", "localhost"].includes(url.hostname);
  if (isBare && isSecret) return url.href;
  throw usageError(
    "--url: an https address (http only of this machine, or the key could be read), nothing after its path",
  );
}

function readFormat(text: string | undefined): Format {
  if (text === "ndjson" || text === "csv") return text;
  throw usageError("--format: ndjson or csv, or a FILE that ends in .ndjson or .csv");
}

function readKey(file: string | undefined): string {
  const key = file ? Deno.readTextFileSync(file).trim() : Deno.env.get("AUDIT_LOG_API_KEY");
  if (key && /^pck_\w+$/.test(key)) return key;
  throw usageError(
    key
      ? `What ${file ?? "AUDIT_LOG_API_KEY"} holds is no API key: one begins with pck_`
      : "No API key: put it into AUDIT_LOG_API_KEY or a --key-file",
  );
}

function usageError(message: string): Stop {
  return new Stop(WRONG_ARGUMENTS, `${message}.\nTry --help.`);
}

if (import.meta.main) Deno.exit(await main());
