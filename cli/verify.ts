// Checks exported entries against seals, and the seals against one that the reader kept. docs/verifying.md does the
// same by hand.

import {
  appendFileSync,
  createReadStream,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { createGunzip } from "node:zlib";
import type { components } from "../docs/openapi.d.ts";
import {
  checkChain,
  type DayHash,
  type Findings,
  hashDay,
  isSeal,
  type Seal,
} from "../seals/seal_chain.ts";
import { ask, type FollowOptions, persist, refuse } from "./client.ts";
import { codeOf } from "./files.ts";

type SealsPage = components["schemas"]["SealsPage"];

export interface VerifyOptions {
  /** Files with entries, one a line, in any order, and folders of such files. */
  files: string[];
  /** Files with answers of …/seals, or the API to ask. */
  seals: string[] | FollowOptions;
  /** A seal that the reader kept, as N:SEAL. */
  kept?: string | undefined;
  /** Each sealed day between these must be here. By default, they are the first and the last day that is. */
  start?: string | undefined;
  end?: string | undefined;
}

/** What the service says of its days. */
interface Sealed {
  seals: Seal[];
  altered: Set<string>;
}

/** More than all days of 1,000 years have. */
const MOST_SEALS = 1_000_000;
const DAY = /^\d{4}-\d\d-\d\d$/;
const DAY_FILE = /^(\d{4}-\d\d-\d\d)\.ndjson(\.gz)?$/;
const ENTRY_FILE = /\.ndjson(\.gz)?$/;
/** How an entry begins, and where what identifies it ends. */
const ENTRY = /^\{"id":"[0-9a-f-]{36}","created_at":"(\d{4}-\d\d-\d\d)T\d\d:\d\d:\d\d\.\d{3}Z",/;
const ID = [7, 43] as const;
const CREATED_AT = [60, 84] as const;
/** So many characters are gathered before they are written to the files of their days. */
const MOST_GATHERED = 8_000_000;

/** Returns the lines to print, and whether all is as it was sealed. */
export async function verify(
  options: VerifyOptions,
): Promise<{ lines: string[]; isWell: boolean }> {
  const { files, seals: source, kept } = options;
  if (files.length === 0) refuse("Name the files of the export, or their folder. Try --help.");
  const [, sequence, seal] = kept?.match(/^(\d+):([0-9a-f]{64})$/) ?? [];
  if (kept !== undefined && !seal) {
    refuse("--kept must be a sequence, a colon and a seal of 64 digits");
  }
  for (const day of [options.start, options.end]) {
    if (day !== undefined && !DAY.test(day)) refuse("--start and --end must be days, YYYY-MM-DD");
  }
  const pages: SealsPage[] = Array.isArray(source)
    ? source.map((file) => JSON.parse(readFileSync(file, "utf8")))
    : await fetchSeals(source);
  const seals: Seal[] = pages.flatMap(({ items }) => items);
  if (!seals.every(isSeal)) {
    refuse("The seals are not what …/seals answers: save its answers anew.");
  }
  const total = Math.max(...pages.map(({ total }) => total));
  if (seals.length < total && (seals.at(-1)?.sequence ?? 0) === seals.length) {
    refuse(
      `There are ${seals.length} of ${total} seals: give --seals once for each page, all saved together.`,
    );
  }
  const found = await checkChain(seals, seal ? { sequence: Number(sequence), seal } : undefined);
  const altered = new Set(pages.flatMap((page) => page.altered));
  for (const day of altered) {
    const since = seals.findLast((seal) => seal.day === day)?.sealed_at ?? "it was sealed";
    found.problems.push(
      `The service reports ${day} as altered: entries were changed since ${since}, and no seal ` +
        "declares it",
    );
  }
  await checkFiles(files, options, { seals, altered }, found);
  const { problems, notes } = found;
  const lines = [...problems, ...notes, summary(seals, kept, problems.length)];
  return { lines, isWell: problems.length === 0 };
}

/** Asks the API for all seals. */
export async function fetchSeals(api: FollowOptions): Promise<SealsPage[]> {
  const pages: SealsPage[] = [];
  for (let read = 0;;) {
    const query = `start=0001-01-01&end=9999-12-31&limit=1000&offset=${read}`;
    const url = new URL(`${String(api.url).replace(/\/$/, "")}/seals?${query}`);
    const { body } = await persist(() => ask(url, api), api);
    const page: SealsPage = JSON.parse(body);
    pages.push(page);
    read += page.items.length;
    if (page.items.length === 0 || read >= page.total) return pages;
    if (read > MOST_SEALS) refuse(`The API has sent ${read} seals and says that there are more.`);
  }
}

async function checkFiles(
  files: string[],
  range: VerifyOptions,
  sealed: Sealed,
  found: Findings,
): Promise<void> {
  const paths = files.flatMap((file) =>
    statSync(file).isDirectory()
      ? readdirSync(file).filter((name) => ENTRY_FILE.test(name)).map((name) => join(file, name))
      : [file]
  );
  if (paths.length === 0) refuse(`${files.join(", ")} has no file like 2026-11-20.ndjson`);
  // Day by day, so that memory holds the entries of one.
  const folder = mkdtempSync(join(tmpdir(), "public-audit-log-"));
  const days = new Set(paths.flatMap((path) => basename(path).match(DAY_FILE)?.[1] ?? []));
  let repeated = 0;
  try {
    for (const path of paths) {
      for await (const [day, lines] of linesByDay(path)) {
        days.add(day);
        appendFileSync(join(folder, day), lines);
      }
    }
    for (const day of [...days].sort()) {
      const lines = readLines(join(folder, day));
      const unique = [...new Set(lines)].sort(byTimeAndId);
      repeated += lines.length - unique.length;
      checkDay(day, await hashDay(inPieces(unique)), sealed, found);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  if (repeated > 0) found.notes.push(`Repeated entries that were dropped: ${repeated}`);
  const known = [...days].sort();
  const { start = known[0] ?? "", end = known.at(-1) ?? "" } = range;
  const last = new Map(sealed.seals.map((seal) => [seal.day, seal]));
  const missing = [...last.values()].filter(({ day, entries }) => entries > 0 && !days.has(day));
  const within = missing.map(({ day }) => day).filter((day) => start <= day && day <= end).sort();
  const outside = missing.length - within.length;
  if (within.length > 0) found.problems.push(`Sealed days that are not here: ${within.join(", ")}`);
  if (outside > 0) {
    found.notes.push(`Sealed days outside ${start} to ${end} that are not here: ${outside}`);
  }
}

/** The lines of a file, gathered by day. */
async function* linesByDay(path: string): AsyncGenerator<[day: string, lines: string]> {
  const file = createReadStream(path);
  const input = path.endsWith(".gz") ? file.pipe(createGunzip()) : file;
  const gathered = new Map<string, string>();
  let size = 0;
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    number++;
    const [, day] = line.match(ENTRY) ?? [];
    if (!day) refuse(`${path}, line ${number}: not an entry as the API gives it`);
    gathered.set(day, `${gathered.get(day) ?? ""}${line}\n`);
    size += line.length;
    if (size < MOST_GATHERED) continue;
    yield* gathered;
    gathered.clear();
    size = 0;
  }
  yield* gathered;
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").trimEnd().split("\n");
  } catch (error) {
    // The day has an empty file.
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

function byTimeAndId(one: string, other: string): number {
  const key = (line: string) => line.slice(...CREATED_AT) + line.slice(...ID);
  return key(one) < key(other) ? -1 : 1;
}

function* inPieces(lines: string[]): Generator<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  for (const line of lines) yield encoder.encode(`${line}\n`);
}

/** Compares the entries of a day with its seals. */
function checkDay(day: string, file: DayHash, sealed: Sealed, { problems, notes }: Findings): void {
  const { seals: all, altered } = sealed;
  const seals = all.filter((seal) => seal.day === day);
  const last = seals.at(-1);
  const same = seals.findLastIndex(({ sha256 }) => sha256 === file.sha256);
  if (!last && file.entries === 0) return;
  if (!last && all.some((seal) => seal.day > day)) {
    problems.push(
      `${day} has no seal, but ${file.entries} entries, and later days are sealed: the entries came ` +
        "late (verify again after the next upkeep), or were put in",
    );
  } else if (!last) {
    notes.push(`${day} is not sealed yet: nothing is proven of it`);
  } else if (same < 0) {
    // An altered day is never sealed again.
    const why = altered.has(day)
      ? "the log itself was changed, as said above"
      : file.entries > last.entries
      ? "entries came late (export the day again after the next upkeep), or were put in"
      : `changed since ${last.sealed_at}, or not exported whole`;
    problems.push(
      `${day} differs from seal ${last.sequence}: ${last.entries} entries were sealed, here are ` +
        `${file.entries}; ${why}`,
    );
  } else if (seals[same] !== last) {
    const sealed_at = seals[same]?.sealed_at;
    const later = seals.slice(same + 1);
    const added = later.reduce((sum, seal) => sum + seal.added, 0);
    const removed = later.reduce((sum, seal) => sum + seal.removed, 0);
    notes.push(
      `${day} is as it was sealed at ${sealed_at}. Later seals declare ${added} added and ` +
        `${removed} removed entries`,
    );
  }
}

/** Hashes a day's file. */
export async function hashOf(path: string): Promise<DayHash> {
  return await hashDay(createReadStream(path) as AsyncIterable<Uint8Array<ArrayBuffer>>);
}

function summary(seals: Seal[], kept: string | undefined, problems: number): string {
  const last = seals.at(-1);
  if (!last) return "There are no seals yet.";
  if (problems > 0) return `${problems} ${problems === 1 ? "problem" : "problems"}.`;
  const proof = kept
    ? "The chain has the seal that you kept"
    : "The log agrees with itself; without --kept that is all this shows";
  return `All is as it was sealed. ${proof}. Keep this: ${last.sequence}:${last.seal}`;
}
