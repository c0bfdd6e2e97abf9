import type { Verdict } from "../../seals/judge.ts";
import type { Kept } from "../../seals/seal_chain.ts";
import type { WorkOptions } from "../export/work.tsx";
import { addDays, type Days } from "../shared/days.ts";
import { loaded } from "../shared/transport.ts";

// An evidence pack is a ZIP with the proof of a month: days/YYYY-MM-DD.ndjson, seals.json, kept.txt if somebody has kept
// a seal, and report.html. Unzipped, it is what `public-audit-log verify` takes.

/** What was proven of a month. */
export interface Proof extends Days {
  verdict: Verdict;
  kept: Kept | undefined;
  /** How many entries each day has. */
  entries: Map<string, number>;
}

export interface PackOptions extends WorkOptions {
  kept: Kept | undefined;
}

/** The library comes only now. Its workers would need what the page's policy forbids. */
export async function loadZip() {
  const library = await loaded(import("@zip.js/zip.js/lib/zip-core-custom.js"));
  library.configure({ useWebWorkers: false });
  return library;
}

/** The days of a month, `YYYY-MM`. */
export function monthDays(month: string): Days {
  const next = addDays(`${month}-28`, 4).slice(0, 7);
  return { start: `${month}-01`, end: addDays(`${next}-01`, -1) };
}

/** A seal as people keep it. */
export function keptSeal({ sequence, seal }: Kept): string {
  return `${sequence}:${seal}`;
}
