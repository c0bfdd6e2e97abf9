// Checks exported entries against seals, and the seals against one that the reader saved. docs/verifying.md does the
// same by hand.

import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { isWrittenAnew, readLine } from "../supabase/functions/_shared/entry_lines.ts";
import { visible } from "../supabase/functions/_shared/visible.ts";
import type { Finding } from "./seals/findings.ts";
import { type DayState, isSealsPage, judge } from "./seals/judge.ts";
import { missingSeals, parseSaved, type SealsPage } from "./seals/judge.ts";
import { DAY, type DayHash, DayHasher, isSeal } from "./seals/seal_chain.ts";
import type { Saved, Seal } from "./seals/seal_chain.ts";
import { type ApiOptions, ask, messageOf, persist, refuse } from "./client.ts";
import { linesOf } from "./files.ts";
import { DaySorter } from "./sort_days.ts";

interface VerifyOptions {
  /** Files with entries or seals, one a line, in any order, and folders of such files, as a stream fills them. */
  files: string[];
  /** Files with answers of …/seals, or the API to ask; otherwise the seals in the files. */
  seals: string[] | ApiOptions | undefined;
  saved?: string | undefined;
  /** Each sealed day between these must be here. By default, they are the first and the last day that is. */
  start?: string | undefined;
  end?: string | undefined;
}

/** More than all days of 1,000 years have. */
const MOST_SEALS = 1_000_000;
const DAY_FILE = /^(\d{4}-\d\d-\d\d)\.ndjson(\.gz)?$/;
const ENTRY_FILE = /\.ndjson(\.gz)?$/;
const SEALS_FOLDER = "seals";
/** The action of the entry with which a stream is tested. It is in no log. */
const TEST_ACTION = "audit_log_test";
const ENTRY_FIELDS = ["id", "created_at", "action", "user_email", "agent_name", "data"];
/** So many characters are gathered before they are written to the disk. */
const MOST_GATHERED = 8_000_000;

export interface Verification {
  right: boolean;
  problems: Finding[];
  notes: Finding[];
  days: Record<string, DayState>;
  /** The latest seal, as N:SEAL; null if there is none. Save it if all is right. */
  last: string | null;
  received: number;
}

export async function verify(
  { files, seals: source, saved, start, end }: VerifyOptions,
): Promise<Verification> {
  if (files.length === 0) refuse("Name the files of the export, or their folder. Try --help.");
  const savedSeal = saved === undefined ? undefined : parseSaved(saved);
  if (saved !== undefined && !savedSeal) {
    refuse("--saved must be a sequence, a colon and a seal of 64 digits");
  }
  for (const day of [start, end]) {
    if (day !== undefined && !DAY.test(day)) refuse("--start and --end must be days, YYYY-MM-DD");
  }
  const given = Array.isArray(source)
    ? source.map((file) => parseSeals(readFileSync(file, "utf8")))
    : source && await fetchSeals(source);
  const missing = given && missingSeals(given);
  if (missing) refuse(`There are ${missing} seals: give --seals once for each page.`);
  const { days: hashes, received, repeated, tests, empty } = await hashFiles(files);
  if (!given && received.length === 0) {
    refuse("AUDIT_LOG_URL is not set, and the files have no seals: set it, or give --seals.");
  }
  const pages = given ?? [{ total: received.length, altered: [], items: received }];
  const own = savedSeal ? [savedSeal] : [];
  const hasApi = source !== undefined && !Array.isArray(source);
  // Whoever made up files could have made up these seals, too. Only the API's chain shows that they did not.
  const known = hasApi ? [...received, ...own] : own;
  const evidence = { pages, days: hashes, saved: strongest(known, received, pages), start, end };
  const { problems, notes, days, last } = await judge(evidence);
  const dropped = [
    ["entries_repeated", "Repeated entries", repeated],
    ["tests_dropped", "Test entries of a stream", tests],
  ] as const;
  for (const [code, what, count] of dropped) {
    if (count > 0) notes.unshift({ code, text: `${what} that were dropped: ${count}` });
  }
  for (const path of empty) notes.unshift({ code: "file_empty", text: `${path} has no entry` });
  return {
    right: problems.length === 0,
    problems,
    notes,
    days: Object.fromEntries([...days].sort()),
    last: last ? `${last.sequence}:${last.seal}` : null,
    received: received.length,
  };
}

/** Of the seals that are outside of the database: one that is not in the chain, or else the latest that proves something. */
function strongest(known: Saved[], received: Saved[], pages: SealsPage[]): Saved | undefined {
  const nameOf = ({ sequence, seal }: Saved) => `${sequence}:${seal}`;
  const chain = new Set(pages.flatMap(({ items }) => items.map(nameOf)));
  return [...received, ...known].find((seal) => !chain.has(nameOf(seal))) ??
    known.toSorted((one, other) => one.sequence - other.sequence).at(-1);
}

export async function fetchSeals(api: ApiOptions): Promise<SealsPage[]> {
  const pages: SealsPage[] = [];
  for (let read = 0;;) {
    const query = `start=0001-01-01&end=9999-12-31&limit=1000&offset=${read}`;
    const url = new URL(`${String(api.url).replace(/\/$/, "")}/seals?${query}`);
    const { body } = await persist(() => ask(url, api), api);
    const page = parseSeals(body);
    pages.push(page);
    read += page.items.length;
    if (page.items.length === 0 || read >= page.total) return pages;
    if (read > MOST_SEALS) refuse(`The API has sent ${read} seals and says that there are more.`);
  }
}

function parseSeals(text: string): SealsPage {
  const page: unknown = JSON.parse(text);
  if (isSealsPage(page)) return page;
  refuse("The seals are not what …/seals answers: is AUDIT_LOG_URL right, or the file of --seals?");
}

async function hashFiles(files: string[]) {
  const paths = files.flatMap((file) =>
    statSync(file).isDirectory() ? [...filesIn(file), ...filesIn(join(file, SEALS_FOLDER))] : [file]
  );
  if (paths.length === 0) refuse(`${files.join(", ")} has no file like 2026-11-20.ndjson`);
  const named = new Set(paths.flatMap((path) => basename(path).match(DAY_FILE)?.[1] ?? []));
  const days = new Map<string, DayHash>();
  /** Files without entries that are not of a day, which may have none. */
  const empty: string[] = [];
  const sorter = new DaySorter();
  const found: Found = { lines: 0, seals: new Map(), tests: 0 };
  try {
    for (const path of paths) {
      const before = found.lines;
      for await (const [hour, lines] of linesByHour(path, found)) {
        named.add(hour.slice(0, 10));
        sorter.add(hour, lines);
      }
      if (found.lines === before && !DAY_FILE.test(basename(path))) empty.push(path);
    }
    for (const day of named) {
      const hasher = new DayHasher();
      for (const text of sorter.sorted(day)) await hasher.add(new TextEncoder().encode(text));
      days.set(day, await hasher.end());
    }
  } finally {
    sorter.end();
  }
  const received = [...found.seals.values()].sort((one, other) => one.sequence - other.sequence);
  return { days, received, repeated: sorter.repeated, tests: found.tests, empty };
}

/** The files of entries in a folder. Whoever filled it chose their names: one with a line break would forge a message. */
function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  // Also behind a link: a pipe or a device would never end.
  const names = readdirSync(folder).filter((name) =>
    ENTRY_FILE.test(name) && statSync(join(folder, name), { throwIfNoEntry: false })?.isFile()
  );
  const hidden = names.map(visible).find((shown, n) => shown !== names[n]);
  if (hidden !== undefined) {
    refuse(
      `${folder} has a file whose name hides something: ${hidden}. Look at it, and rename it.`,
    );
  }
  return names.map((name) => join(folder, name));
}

interface Found {
  lines: number;
  /** By what they say: a stream may have delivered one twice. */
  seals: Map<string, Seal>;
  tests: number;
}

async function* linesByHour(
  path: string,
  found: Found,
): AsyncGenerator<[hour: string, lines: string[]]> {
  const input = path.endsWith(".gz") ? unpacked(path) : createReadStream(path);
  const gathered = new Map<string, string[]>();
  let size = 0;
  let number = 0;
  for await (const text of linesOf(path, input)) {
    const line = text.endsWith("\r") ? text.slice(0, -1) : text;
    number++;
    found.lines++;
    const seal = parseSeal(line);
    if (seal) {
      found.seals.set(JSON.stringify(seal), seal);
      continue;
    }
    const { hour, action } = readLine(line) ?? refuseLine(`${path}, line ${number}`, line);
    if (action === TEST_ACTION && isTest(line)) {
      found.tests++;
      continue;
    }
    const lines = gathered.get(hour);
    if (lines) lines.push(line);
    else gathered.set(hour, [line]);
    size += line.length;
    if (size < MOST_GATHERED) continue;
    yield* gathered;
    gathered.clear();
    size = 0;
  }
  yield* gathered;
}

/** Reads a line as a seal, if it begins as one. Its bytes do not matter: its hash is of what it says. */
function parseSeal(line: string): Seal | undefined {
  if (!line.startsWith('{"format"')) return undefined;
  const seal = parseLine(line);
  // Another program would read a seal with fields of an entry as an entry, which no seal proves.
  const isEntryToo = Object.keys(Object(seal)).some((name) =>
    ENTRY_FIELDS.includes(name.toLowerCase())
  );
  return isSeal(seal) && !isEntryToo ? seal : undefined;
}

/** Whether another program reads a test in a line, too: not an action that comes later in it, or another entry. */
function isTest(line: string): boolean {
  const entry = Object(parseLine(line));
  return entry.action === TEST_ACTION && `${Object.keys(entry)}` === `${ENTRY_FIELDS}`;
}

/** The value of a line; `undefined` if it is not JSON. */
function parseLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

async function* unpacked(path: string): AsyncGenerator<Uint8Array> {
  // Node unpacks it to nothing.
  if (statSync(path).size === 0) refuse(`${path} is empty, so it is not a gzip file.`);
  try {
    yield* pipeline(createReadStream(path), createGunzip(), () => {});
  } catch (error) {
    refuse(`${path} is not a whole gzip file: ${messageOf(error)}.`);
  }
}

function refuseLine(place: string, line: string): never {
  if (isWrittenAnew(line) || isEntry(line)) {
    refuse(
      `${place}: another program rewrote this entry, as jq and DuckDB do. Give the file as the API or export ` +
        "wrote it",
    );
  }
  refuse(`${place}: not an entry as the API gives it`);
}

/** Whether a text says what an entry says, however it is written. */
function isEntry(text: string): boolean {
  const { id, created_at, data } = Object(parseLine(text));
  return Boolean(id && created_at && data);
}

export async function hashOf(path: string): Promise<DayHash> {
  const hasher = new DayHasher();
  for await (const piece of createReadStream(path)) await hasher.add(piece);
  return await hasher.end();
}

/** The findings for people, and the verdict in the last line. */
export function textOf(verification: Verification, saved?: string): string {
  const findings = [...verification.problems, ...verification.notes].map(({ text }) => text);
  return [...findings, summaryOf(verification, saved)].join("\n");
}

function summaryOf({ problems, days, last, received }: Verification, saved?: string): string {
  if (problems.length > 0) return `${problems.length} problem${problems.length === 1 ? "" : "s"}.`;
  const verdict = saved
    ? "All is as it was sealed. The chain has the seal that you saved"
    : Object.values(days).includes("proven")
    ? `All is as it was sealed. Proven by the seals that arrived with the entries: ${received}`
    : "Consistent: entries and seals agree with each other. Without --saved, that is all this shows";
  return `${verdict}. Save this: ${last}`;
}
