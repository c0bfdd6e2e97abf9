// Checks exported days against seals, and the seals against one that the reader kept. docs/verifying.md does the
// same by hand.

import { createReadStream, readdirSync, readFileSync } from "node:fs";
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

type SealsPage = components["schemas"]["SealsPage"];

export interface VerifyOptions {
  /** The folder of the exported days. */
  folder?: string | undefined;
  /** Files with answers of …/seals, or the API to ask. */
  seals: string[] | FollowOptions;
  /** A seal that the reader kept, as N:SEAL. */
  kept?: string | undefined;
  /** Each sealed day between these must have a file. By default, they are the days of the first and the last file. */
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
const DAY_FILE = /^(\d{4}-\d\d-\d\d)\.ndjson$/;

/** Returns the lines to print, and whether all is as it was sealed. */
export async function verify(
  options: VerifyOptions,
): Promise<{ lines: string[]; isWell: boolean }> {
  const { folder, seals: source, kept } = options;
  if (!folder) refuse("--folder: name the folder of the exported days. Try --help.");
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
  await checkFolder(folder, options, { seals, altered }, found);
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

async function checkFolder(
  folder: string,
  range: VerifyOptions,
  sealed: Sealed,
  found: Findings,
): Promise<void> {
  const { seals } = sealed;
  const names = readdirSync(folder).sort();
  const days = names.flatMap((name) => name.match(DAY_FILE)?.[1] ?? []);
  if (days.length === 0) refuse(`${folder} has no file like 2026-11-20.ndjson`);
  for (const day of days) {
    const hash = await hashOf(`${folder}/${day}.ndjson`);
    checkDay(day, hash, sealed, found);
  }
  const { start = days[0] ?? "", end = days.at(-1) ?? "" } = range;
  const missing = [...new Set(seals.map(({ day }) => day))].filter((day) => !days.includes(day));
  const within = missing.filter((day) => start <= day && day <= end).sort();
  const outside = missing.length - within.length;
  if (within.length > 0) {
    found.problems.push(`Sealed days that have no file here: ${within.join(", ")}`);
  }
  if (outside > 0) {
    found.notes.push(`Sealed days outside ${start} to ${end} that have no file here: ${outside}`);
  }
  const others = names.filter((name) => !DAY_FILE.test(name));
  if (others.length > 0) {
    found.notes.push(`Not checked, because their names are no days: ${others.join(", ")}`);
  }
}

/** Compares a file with the seals of its day. */
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
      `${day} differs from seal ${last.sequence}: ${last.entries} entries were sealed, the file has ` +
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
