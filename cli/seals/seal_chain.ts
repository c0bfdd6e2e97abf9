// What makes a chain of seals right, and the hash of a day. docs/verifying.md says the same for a verifier of your
// own.

import { isWrittenAnew } from "../../supabase/functions/_shared/entry_lines.ts";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";
import type { SealsPage } from "../../supabase/functions/public-audit-log/page_schema.ts";
import type { Findings, Problem } from "./findings.ts";

export type Seal = SealsPage["items"][number];

export type Saved = Pick<Seal, "sequence" | "seal">;

const FORMAT = 1;
export const DAY = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const HASH = /^[0-9a-f]{64}$/;
const NUMBER = /^-?\d{1,15}$/;
const FORM: Record<keyof Seal, RegExp> = {
  format: NUMBER,
  sequence: NUMBER,
  day: DAY,
  entries: NUMBER,
  added: NUMBER,
  removed: NUMBER,
  sha256: HASH,
  sealed_at: TIME,
  previous: HASH,
  seal: HASH,
};
const BLOCK = 1000;
/** No 1000 entries are larger, so this bounds the memory for a file of somebody else. */
const MOST_BLOCK = 64_000_000;
const NO_SEAL = "0".repeat(64);
const LINE_BREAK = 0x0a;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const ONE_DAY = 24 * 60 * 60 * 1000;

/** Whether a value from outside has all fields of a seal in their form. What they say may still be wrong. */
export function isSeal(value: unknown): value is Seal {
  const seal = (value ?? {}) as Record<string, unknown>;
  // A number in quotes has the same hash, but "4" + 1 is 41.
  const isFormed = ([name, form]: [string, RegExp]) =>
    typeof seal[name] === (form === NUMBER ? "number" : "string") && form.test(`${seal[name]}`);
  return Object.entries(FORM).every(isFormed) && !Number.isNaN(Date.parse(`${seal["sealed_at"]}`));
}

/** Checks that a chain is whole, keeps its rules, and has the seal that was saved elsewhere. */
export async function checkChain(seals: Seal[], saved?: Saved): Promise<Findings> {
  const found: Findings = { problems: [], notes: [] };
  const last = new Map<string, Seal>();
  let before: Seal | undefined;
  let latestDay = "";
  for (const seal of seals) {
    const { day, sequence, entries } = seal;
    for (const [code, fault] of await faultsOf(seal, before, last.get(day))) {
      found.problems.push({ code, day, sequence, text: `${nameOf(seal)} ${fault}` });
    }
    if (!last.has(day) && day < latestDay) {
      const text =
        `${day} was first sealed after ${latestDay}: the entries that seal ${sequence} has ` +
        `(${entries}) came late, or were backdated`;
      found.notes.push({ code: "sealed_late", day, sequence, text });
    }
    if (day > latestDay) latestDay = day;
    last.set(day, seal);
    before = seal;
  }
  if (saved) checkSaved(seals, saved, found);
  checkRemovals(seals, last, found);
  return found;
}

/** Says what is wrong with a seal, beside the one before it in the chain and the one before it of its day. */
async function faultsOf(seal: Seal, before?: Seal, ofDay?: Seal): Promise<[Problem, string][]> {
  const { sequence = 0, seal: previous = NO_SEAL, sealed_at = "" } = before ?? {};
  const { entries, added, removed } = seal;
  const isNegative = entries < 0 || added < 0 || removed < 0;
  const isChange = added + removed > 0;
  const expected = (ofDay?.entries ?? 0) + added - removed;
  const faults: Partial<Record<Problem, string | false>> = {
    format_unknown: seal.format !== FORMAT &&
      `has the format ${seal.format}, which this program does not know`,
    seals_missing: seal.sequence !== sequence + 1 &&
      `follows ${sequence || "nothing"}: seals are missing`,
    chain_broken: seal.previous !== previous &&
      "does not continue the seal before: the chain was rewritten",
    seal_changed: seal.seal !== await sealOf(seal) &&
      "is not the hash of what it says: it was changed",
    seal_older: seal.sealed_at < sealed_at &&
      `is older than the seal before, of ${sealed_at}: somebody made it by hand`,
    number_negative: isNegative && "has numbers below 0: somebody made it by hand",
    first_seal_declares: !isNegative && !ofDay && isChange &&
      "is the first of its day and declares a change: somebody made it by hand",
    change_undeclared: !isNegative && ofDay !== undefined && !isChange &&
      "declares nothing, but the day was sealed before: entries were changed silently",
    sum_wrong: !isNegative && ofDay !== undefined && isChange && entries !== expected &&
      `says ${entries} entries, but its changes make ${expected}: somebody made it by hand`,
  };
  return Object.entries(faults).flatMap(([code, fault]) => fault ? [[code as Problem, fault]] : []);
}

function checkSaved(seals: Seal[], saved: Saved, { problems, notes }: Findings): void {
  const { sequence } = saved;
  const found = seals.find((seal) => seal.sequence === sequence);
  const { sequence: last = "none", sealed_at = "before the first" } = seals.at(-1) ?? {};
  if (!found) {
    const text =
      `The seal ${sequence} that you have is not there, the last is ${last}: the log was restored ` +
      `from a backup of ${sealed_at} or soon after`;
    problems.push({ code: "saved_seal_missing", sequence, text });
  } else if (found.seal !== saved.seal) {
    const text = `${nameOf(found)} is not the one that you have: the log was rewritten, or ` +
      "restored from a backup older than that, and nothing since is proven";
    problems.push({ code: "saved_seal_differs", sequence, text });
  } else {
    const sealed = new Set(seals.slice(0, seals.indexOf(found) + 1).map(({ day }) => day));
    for (const seal of seals.slice(seals.indexOf(found) + 1)) {
      const { day, sequence, added, removed } = seal;
      if (!sealed.has(day)) continue;
      const text =
        `${day} was sealed again after the seal that you saved: seal ${sequence} declares ` +
        `${added} added and ${removed} removed entries`;
      notes.push({ code: "sealed_again", day, sequence, text });
    }
  }
}

/**
 * Retention removes the oldest entries first, and whole days. So the days before one that lost entries are empty, and it
 * is empty itself, or will be after the next upkeep. Everything else was removed by somebody.
 */
function checkRemovals(
  seals: Seal[],
  last: Map<string, Seal>,
  { problems, notes }: Findings,
): void {
  const end = Date.parse(seals.at(-1)?.sealed_at ?? "");
  const filled = [...last.values()].filter(({ entries }) => entries > 0).map(({ day }) => day)
    .sort();
  const removals = new Map(
    seals.filter(({ removed }) => removed > 0).map((seal) => [seal.day, seal]),
  );
  for (const { day, sequence, removed, sealed_at } of removals.values()) {
    const oldest = filled[0] ?? "";
    const left = last.get(day)?.entries ?? 0;
    const what = `Seal ${sequence} declares that entries of ${day} were removed (${removed})`;
    if (oldest !== "" && oldest < day) {
      const text =
        `${what}, but ${oldest} still has entries: it was not retention, which removes the oldest first`;
      problems.push({ code: "removed_not_oldest", day, sequence, text });
    } else if (left > 0 && end - Date.parse(sealed_at) >= ONE_DAY) {
      const text =
        `${what}, but it still has ${left}: it was not retention, which removes whole days`;
      problems.push({ code: "removed_in_part", day, sequence, text });
    } else if (left > 0) {
      const text =
        `${what}, and it still has ${left}: right only if retention is at work. Verify again tomorrow`;
      notes.push({ code: "retention_at_work", day, sequence, text });
    }
  }
}

export async function sealOf(seal: Seal): Promise<string> {
  const { format, previous, sequence, day, entries, added, removed, sealed_at } = seal;
  const fields = [format, previous, sequence, day, entries, added, removed, seal.sha256, sealed_at];
  return await sha256(fields.join(" "));
}

export function nameOf({ sequence, day, sealed_at }: Seal): string {
  return `Seal ${sequence} of ${day} (made ${sealed_at})`;
}

export interface DayHash {
  sha256: string;
  entries: number;
  /** Whether another program rewrote a line. Its hash then says nothing of the entries. */
  isWrittenAnew: boolean;
}

/** Hashes the lines of a day, given in pieces: each 1000 lines, and then the list of these hashes. */
export class DayHasher {
  #list = "";
  #block: Uint8Array<ArrayBuffer>[] = [];
  #size = 0;
  #entries = 0;
  // The last line may lack its line break.
  #isLineOpen = false;
  #isWrittenAnew = false;

  async add(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    if (piece.length === 0) return;
    let start = 0;
    for (let i = piece.indexOf(LINE_BREAK); i >= 0; i = piece.indexOf(LINE_BREAK, i + 1)) {
      if (++this.#entries % BLOCK > 0) continue;
      this.#keep(piece.subarray(start, i + 1));
      await this.#endBlock();
      start = i + 1;
    }
    if (start < piece.length) this.#keep(piece.subarray(start));
    this.#isLineOpen = piece.at(-1) !== LINE_BREAK;
  }

  async end(): Promise<DayHash> {
    if (this.#isLineOpen) this.#entries++;
    if (this.#block.length > 0) await this.#endBlock();
    return {
      sha256: await sha256(this.#list),
      entries: this.#entries,
      isWrittenAnew: this.#isWrittenAnew,
    };
  }

  #keep(piece: Uint8Array<ArrayBuffer>): void {
    this.#size += piece.length;
    if (this.#size > MOST_BLOCK) {
      throw new RangeError(`${BLOCK} lines are larger than ${MOST_BLOCK} bytes: not entries`);
    }
    this.#block.push(piece);
  }

  async #endBlock(): Promise<void> {
    // Not bytes(), which Node 20 lacks.
    const block = new Uint8Array(await new Blob(this.#block).arrayBuffer());
    const hasMark = this.#list === "" && BYTE_ORDER_MARK.every((byte, n) => block[n] === byte);
    this.#list += `${await sha256(hasMark ? block.subarray(BYTE_ORDER_MARK.length) : block)}\n`;
    this.#isWrittenAnew ||= isWrittenAnew(new TextDecoder().decode(block));
    this.#block = [];
    this.#size = 0;
  }
}
