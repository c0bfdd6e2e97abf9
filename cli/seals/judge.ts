import type { SealsPage as Answer } from "../../supabase/functions/public-audit-log/page_schema.ts";
import type { Findings } from "./findings.ts";
import {
  checkChain,
  DAY,
  type DayHash,
  isSeal,
  nameOf,
  type Saved,
  type Seal,
} from "./seal_chain.ts";

export type SealsPage = Pick<Answer, "total" | "altered" | "items">;

export interface Evidence {
  pages: SealsPage[];
  days: Map<string, DayHash>;
  saved?: Saved | undefined;
  /** Each sealed day between these must be here. By default, they are the first and the last day that is. */
  start?: string | undefined;
  end?: string | undefined;
}

/**
 * What a day is: `proven` as the saved seal proves it; `sealed`, as the chain says, which its owner could have rewritten;
 * `open`, not sealed yet; `differs`, or cannot be compared; `missing`, sealed and not here.
 */
export type DayState = "proven" | "sealed" | "open" | "differs" | "missing";

export interface Verdict extends Findings {
  days: Map<string, DayState>;
  last: Seal | undefined;
}

export function parseSaved(text: string): Saved | undefined {
  const [, sequence, seal] = text.match(/^(\d{1,15}):([0-9a-f]{64})$/) ?? [];
  return seal ? { sequence: Number(sequence), seal } : undefined;
}

export function isSealsPage(value: unknown): value is SealsPage {
  const { total, items, altered } = (value ?? {}) as Record<string, unknown>;
  return Number.isInteger(total) && Array.isArray(items) && items.every(isSeal) &&
    Array.isArray(altered) && altered.every((day) => typeof day === "string" && DAY.test(day));
}

/** Says how many seals there are in answers that lack some. */
export function missingSeals(pages: SealsPage[]): string | undefined {
  const seals = pages.flatMap(({ items }) => items);
  const total = Math.max(...pages.map(({ total }) => total));
  const found = seals.length;
  const isCut = found < total && (seals.at(-1)?.sequence ?? 0) === found;
  return isCut ? `${found} of ${total}` : undefined;
}

/** Checks the chain, that it has the saved seal, and each day by it. */
export async function judge({ pages, days, saved, ...range }: Evidence): Promise<Verdict> {
  const seals = pages.flatMap(({ items }) => items);
  const altered = new Set(pages.flatMap((page) => page.altered));
  const last = new Map(seals.map((seal) => [seal.day, seal]));
  const found = await checkChain(seals, saved);
  for (const day of altered) {
    const since = last.get(day)?.sealed_at ?? "it was sealed";
    const text =
      `The service reports ${day} as altered: entries were changed since ${since}, and no seal ` +
      "declares it";
    found.problems.push({ code: "day_altered", day, text });
  }
  const proven = saved && found.problems.length === 0 ? saved.sequence : 0;
  const states = new Map<string, DayState>();
  const known = [...days].sort(([one], [other]) => one < other ? -1 : 1);
  for (const [day, file] of known) {
    const until = judgeDay(day, file, { seals, altered }, found);
    const isProven = typeof until === "number" && until <= proven;
    states.set(day, typeof until === "string" ? until : isProven ? "proven" : "sealed");
  }
  const { start = known[0]?.[0] ?? "", end = known.at(-1)?.[0] ?? "" } = range;
  const missing = [...last.values()].filter(({ day, entries }) => entries > 0 && !days.has(day))
    .map(({ day }) => day).sort();
  const latest = [...last.keys()].sort().at(-1);
  if (range.end !== undefined && latest !== undefined && latest < range.end) {
    const text =
      `The last sealed day is ${latest}: later days have no entries, or are not sealed yet`;
    found.notes.push({ code: "days_open", text });
  }
  const within = missing.filter((day) => start <= day && day <= end);
  const outside = missing.length - within.length;
  for (const day of within) states.set(day, "missing");
  if (within.length > 0) {
    const text = `Sealed days that are not here: ${within.join(", ")}`;
    found.problems.push({ code: "days_missing", text });
  }
  if (outside > 0) {
    const text = `Other sealed days, which are not asked for: ${outside}`;
    found.notes.push({ code: "other_days", text });
  }
  const later = [...states.values()].filter((state) => state === "sealed").length;
  if (proven > 0 && later > 0) {
    const text = `Days sealed after the seal that you saved, which does not prove them: ${later}`;
    found.notes.push({ code: "days_unproven", text });
  }
  const isCompared = known.some(([day, { entries }]) =>
    entries > 0 && states.get(day) !== "open" && start <= day && day <= end
  );
  if (found.problems.length === 0 && !isCompared) {
    const why = seals.length === 0
      ? "There are no seals yet"
      : known.every(([, { entries }]) => entries === 0)
      ? "There is no entry here"
      : "No entry here is of a sealed day that was asked for";
    found.problems.push({ code: "nothing_verified", text: `${why}: nothing was verified` });
  }
  return { ...found, days: states, last: seals.at(-1) };
}

/** Compares the entries of a day with its seals. Returns the sequence of the one that fits, or what the day is. */
function judgeDay(
  day: string,
  file: DayHash,
  { seals: all, altered }: { seals: Seal[]; altered: Set<string> },
  { problems, notes }: Findings,
): number | "open" | "differs" {
  const seals = all.filter((seal) => seal.day === day);
  const last = seals.at(-1);
  const same = seals.findLast(({ sha256 }) => sha256 === file.sha256);
  if (!last) {
    if (file.entries === 0) return "open";
    if (!all.some((seal) => seal.day > day)) {
      const text = `${day} is not sealed yet: nothing is proven about it`;
      notes.push({ code: "day_open", day, text });
      return "open";
    }
    const text =
      `${day} has no seal, but ${file.entries} entries, and later days are sealed: the entries came ` +
      "late (verify again after the next upkeep), or were inserted";
    problems.push({ code: "day_unsealed", day, text });
    return "differs";
  }
  if (!same && file.isWrittenAnew) {
    const text =
      `${day} cannot be compared with seal ${last.sequence}: another program rewrote its lines, as jq ` +
      "and DuckDB do. Give the file as the API or export wrote it";
    problems.push({ code: "day_rewritten", day, sequence: last.sequence, text });
    return "differs";
  }
  if (!same) {
    // An altered day is never sealed again.
    const why = altered.has(day)
      ? "the log itself was changed, as said above"
      : file.entries > last.entries
      ? "entries came late (export the day again after the next upkeep), or were inserted"
      : `changed since ${last.sealed_at}, or not exported whole`;
    const text =
      `${day} differs from seal ${last.sequence}: ${last.entries} entries were sealed, here are ` +
      `${file.entries}; ${why}`;
    problems.push({ code: "day_differs", day, sequence: last.sequence, text });
    return "differs";
  }
  if (same.entries !== file.entries) {
    const text =
      `${nameOf(same)} says ${same.entries} entries, but its hash is that of ${file.entries}: ` +
      "somebody made it by hand";
    problems.push({ code: "count_wrong", day, sequence: same.sequence, text });
    return "differs";
  }
  if (same !== last) {
    const later = seals.slice(seals.indexOf(same) + 1);
    const added = later.reduce((sum, seal) => sum + seal.added, 0);
    const removed = later.reduce((sum, seal) => sum + seal.removed, 0);
    const text =
      `${day} is as it was sealed at ${same.sealed_at}. Later seals declare ${added} added and ` +
      `${removed} removed entries`;
    notes.push({ code: "change_declared", day, sequence: same.sequence, text });
  }
  return same.sequence;
}
