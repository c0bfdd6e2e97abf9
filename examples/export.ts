// Exports the audit log of an organization to a file: every entry once, however often interrupted.
//
// FILE.progress says what to ask for next and how many bytes of FILE hold what came before. It is
// replaced when those bytes are on the disk, and a start cuts FILE to them. So nothing is lost or
// doubled wherever the last run ended, and the same command adds what is new since.

import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const USAGE = `Exports the audit log of an organization to a file, every entry once.

  deno run --allow-net=HOST --allow-env=AUDIT_LOG_API_KEY --allow-read=FOLDER --allow-write=FOLDER \\
    examples/export.ts --url=URL --out=FILE

HOST is the URL's, FOLDER is FILE's. The API key is read from the variable AUDIT_LOG_API_KEY.
Interrupted or done, the same command goes on where FILE ends: it adds what is new, late entries too.

  --url=URL        the API: https://…/functions/v1/public-audit-log
  --out=FILE       CSV if it ends in .csv, else NDJSON; FILE.progress beside it says where it ends
  --start=DAY      first day, YYYY-MM-DD, UTC (default 0001-01-01)
  --end=DAY        last day, inclusive; may be in the future (default 9999-12-31)
  --action=ACTION  only entries with this action
  --follow         keep running, and add new entries as they are written
  --help           this text

Exit codes: 0 done; 1 gave up, run it again; 2 wrong arguments, or refused by the API; 3 key refused.
To a spreadsheet, CSV values that begin with = + - @ are formulas: import them as text.`;

const PAGE_SIZE = 1000;
/** Half of the limit: the key stays usable beside. */
const POLL_MS = 2000;
/** Of a whole page, which may have 16 MB. */
const TIMEOUT_MS = 120_000;
const FIRST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 30_000;
const MAX_FAILURES = 10;
const REPORT_MS = 10_000;

const GAVE_UP = 1;
const REFUSED = 2;
const KEY_REFUSED = 3;

/** Why the program ends early; the message says what to do. */
class Stop extends Error {
  constructor(readonly exitCode: number, message: string) {
    super(message);
  }
}

/** Where FILE ends, as FILE.progress has it. */
interface Place {
  cursor: string;
  bytes: number;
  entries: number;
}

interface Page {
  /** The JSON of each entry, as the API wrote it. */
  items: string[];
  total: number;
  cursor: string;
}

async function main(): Promise<number> {
  try {
    if (Deno.args.includes("--help")) console.log(USAGE);
    else console.log(await exportLog(readOptions()));
    return 0;
  } catch (error) {
    say(messageOf(error));
    return error instanceof Stop ? error.exitCode : REFUSED;
  }
}

/** Writes page after page until no more entries are there, or forever. Returns what to say then. */
async function exportLog(options: Options): Promise<string> {
  using file = new ExportFile(options.out);
  let reportAt = 0;
  while (true) {
    const { items, total, cursor } = await readPage(options, file.place.cursor);
    file.append(items, cursor);
    const isCaughtUp = items.length < PAGE_SIZE;
    const state = `${file.place.entries} of ${total} entries`;
    if (isCaughtUp && !options.follow) return `${state} are in ${options.out}`;
    if (items.length > 0 && performance.now() > reportAt) {
      say(state);
      reportAt = performance.now() + REPORT_MS;
    }
    if (isCaughtUp) await sleep(POLL_MS);
  }
}

/** Asks until there is a page: waits for the limit, and tries again what may succeed then. */
async function readPage({ url, selection, key }: Options, after: string): Promise<Page> {
  const address = new URL(url);
  address.search = `${new URLSearchParams({ ...selection, limit: `${PAGE_SIZE}`, after })}`;
  const headers = { Authorization: `Bearer ${key}` };
  for (let failures = 1;; failures++) {
    let failure: string;
    let wait = NaN;
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(address, { headers, redirect: "manual", signal });
      const body = await response.text();
      if (response.status === 200) return parsePage(body, response.headers);
      refuse(response.status, body);
      failure = `Status ${response.status}, request id ${response.headers.get("X-Request-Id")}`;
      wait = Number(response.headers.get("Retry-After") ?? NaN) * 1000;
      if (response.status === 429 && wait >= 0) failures = 0;
    } catch (error) {
      if (error instanceof Stop || error instanceof Deno.errors.NotCapable) throw error;
      failure = `No whole answer: ${messageOf(error)}`;
    }
    if (failures === MAX_FAILURES) throw new Stop(GAVE_UP, `${failure}. Gave up: run it again.`);
    if (!(wait >= 0)) {
      wait = Math.random() * Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
    }
    say(`${failure}. Trying again in ${Math.ceil(wait / 1000)} s`);
    await sleep(wait);
  }
}

/** @throws {SyntaxError} when the text is not the page that was asked for, a cut one for example. */
function parsePage(body: string, headers: Headers): Page {
  const page: { items?: unknown[]; total?: unknown; limit?: unknown } | null = JSON.parse(body);
  const next = headers.get("Link")?.match(/<([^>]*)>; *rel="next"/)?.[1];
  const cursor = next && URL.parse(next)?.searchParams.get("after");
  if (!cursor || !Array.isArray(page?.items) || page.limit !== PAGE_SIZE) {
    throw new SyntaxError("this is no page that after= gives; is --url right?");
  }
  return { items: elements(member(body, "items")), total: Number(page.total), cursor };
}

/** Ends the program when to ask again would be of no use. */
function refuse(status: number, body: string): void {
  if (status === 401) {
    throw new Stop(KEY_REFUSED, `The API refuses the key: go on with an active one.\n${body}`);
  }
  if (status >= 400 && ![400, 404, 405].includes(status)) return;
  const next = status !== 400
    ? "Is --url right? The key goes nowhere else."
    : body.includes('"parameter":"after"')
    ? "FILE.progress belongs to another --start, --end, --action or organization: give the same as " +
      "before. If the API's database was restored, move FILE and FILE.progress away to start anew."
    : "Correct the arguments.";
  throw new Stop(REFUSED, `The API refuses the request (${status}). ${next}\n${body}`);
}

/** FILE and FILE.progress, for this process alone. */
class ExportFile {
  #path: string;
  #file: Deno.FsFile;
  place: Place;

  constructor(path: string) {
    this.#path = path;
    this.#file = Deno.openSync(path, { read: true, write: true, create: true });
    if (!this.#file.tryLockSync(true)) {
      throw new Stop(REFUSED, `${path} is in use: another export is at it.`);
    }
    const place = readPlace(`${path}.progress`);
    const { size } = this.#file.statSync();
    if (place ? size < place.bytes : size > 0) {
      throw new Stop(REFUSED, `${path} is not as ${path}.progress says: move both away.`);
    }
    this.place = place ?? { cursor: "beginning", bytes: 0, entries: 0 };
    this.#save(this.place);
    this.#file.truncateSync(this.place.bytes);
    this.#file.seekSync(0, Deno.SeekMode.End);
  }

  append(items: string[], cursor: string): void {
    const isCsv = this.#path.endsWith(".csv");
    let text = isCsv && this.place.bytes === 0 ? `${COLUMNS.join(",")}\r\n` : "";
    for (const item of items) text += isCsv ? csvRecord(item) : `${item}\n`;
    const bytes = this.place.bytes + writeDurably(this.#file, text);
    this.#save({ cursor, bytes, entries: this.place.entries + items.length });
  }

  #save(place: Place): void {
    const path = `${this.#path}.progress`;
    {
      using file = Deno.openSync(`${path}.new`, { write: true, create: true, truncate: true });
      writeDurably(file, JSON.stringify(place));
    }
    Deno.renameSync(`${path}.new`, path);
    this.place = place;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

function readPlace(path: string): Place | undefined {
  try {
    return JSON.parse(Deno.readTextFileSync(path));
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Returns how many bytes, when they are on the disk. */
function writeDurably(file: Deno.FsFile, text: string): number {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) written += file.writeSync(bytes.subarray(written));
  file.syncDataSync();
  return bytes.length;
}

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"];

/** A record as RFC 4180 has it. `data` stays JSON, the others are strings. */
function csvRecord(item: string): string {
  const values = COLUMNS.map((name) => {
    const text = member(item, name);
    return name === "data" ? text : String(JSON.parse(text));
  });
  return `${values.map((value) => `"${value.replaceAll('"', '""')}"`).join(",")}\r\n`;
}

/** The JSON of a member of an object. Cut out, because parsing rounds long numbers. */
function member(object: string, name: string): string {
  const text = elements(object).find((text) => text.startsWith(`"${name}":`));
  if (text === undefined) throw new SyntaxError(`an object without ${name}`);
  return text.slice(name.length + '"":'.length).trim();
}

/** The texts between the outermost brackets and commas of valid JSON. */
function elements(json: string): string[] {
  const texts: string[] = [];
  let depth = 0;
  let start = 1;
  for (let i = 0; i < json.length; i++) {
    const character = json[i];
    if (character === '"') i = closingQuote(json, i);
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    if (depth === 0 || depth === 1 && character === ",") {
      const text = json.slice(start, i).trim();
      if (text !== "") texts.push(text);
      start = i + 1;
    }
  }
  return texts;
}

function closingQuote(json: string, opening: number): number {
  let i = opening + 1;
  while (json[i] !== '"') i += json[i] === "\\" ? 2 : 1;
  return i;
}

/** Keys are left out: what others answer may repeat one. */
function say(text: string): void {
  console.error(text.replace(/pck_\w+/g, "pck_…"));
}

/** What fetch throws says only in its cause what has happened. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

type Options = ReturnType<typeof readOptions>;

function readOptions() {
  const string = { type: "string" } as const;
  const { url: address = "", out, start, end, action, follow } = parseArgs({
    options: {
      url: string,
      out: string,
      start: { ...string, default: "0001-01-01" },
      end: { ...string, default: "9999-12-31" },
      action: string,
      follow: { type: "boolean", default: false },
    },
    args: Deno.args,
  }).values;
  const url = URL.parse(address);
  const isLocal = ["127.0.0.1", "[::1]", "localhost"].includes(url?.hostname ?? "");
  if (!url || url.protocol !== "https:" && !isLocal) {
    throw new Stop(REFUSED, "--url: an https address, or others could read the key. Try --help.");
  }
  if (!out) throw new Stop(REFUSED, "--out: the file to write to. Try --help.");
  const key = Deno.env.get("AUDIT_LOG_API_KEY") ?? "";
  if (!/^pck_\w+$/.test(key)) {
    throw new Stop(REFUSED, "AUDIT_LOG_API_KEY holds no API key: one begins with pck_.");
  }
  return {
    url,
    selection: { start, end, ...action !== undefined && { action } },
    out,
    follow,
    key,
  };
}

Deno.exit(await main());
