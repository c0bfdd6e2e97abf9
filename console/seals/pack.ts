import * as z from "zod/mini";
import { isSealsPage, type SealsPage, type Verdict } from "../../seals/judge.ts";
import type { Kept } from "../../seals/seal_chain.ts";
import { check, retried } from "../data/call.ts";
import { ALL_DAYS, readSeals } from "../data/seals.ts";
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

export interface Named {
  id: string;
  name: string;
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

/** Reads an organization's whole chain of seals, as one answer of `…/seals`. */
export async function readChain(organizationId: string, signal: AbortSignal): Promise<SealsPage> {
  const read = () => readSeals({ organizationId, ...ALL_DAYS }, signal);
  const { total, altered, items } = await retried(read, signal);
  return check(z.custom<SealsPage>(isSealsPage), { total, altered, items });
}

/** The text of seals.json: an answer of `…/seals`, with the organization's name. */
export function sealsJson({ id, name }: Named, chain: SealsPage): string {
  const organization = { organization_id: id, organization_name: name };
  return `${JSON.stringify({ ...organization, ...ALL_DAYS, ...chain })}\n`;
}
