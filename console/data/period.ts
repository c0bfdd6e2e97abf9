import * as z from "zod/mini";
import { isSealsPage, type SealsPage } from "../../seals/judge.ts";
import { RequestError } from "../shared/transport.ts";
import { call, retried } from "./call.ts";
import { linesOf, LOG_PAGE, queryOf } from "./entries.ts";
import { ALL_DAYS, readSeals } from "./log_days.ts";

const PAGE_SIZE = 1000;
const SEALS = z.custom<SealsPage>(isSealsPage);

/** Reads an organization's whole chain of seals, as one answer of `…/seals`. */
export async function readChain(organizationId: string, signal: AbortSignal): Promise<SealsPage> {
  const read = () => readSeals(SEALS, { organizationId, ...ALL_DAYS }, signal);
  const { total, altered, items } = await retried(read, signal);
  return { total, altered, items };
}

/** The text of seals.json, as an answer of `…/seals`. */
export function sealsJson(organization_id: string, chain: SealsPage): string {
  return `${JSON.stringify({ organization_id, ...ALL_DAYS, ...chain })}\n`;
}

/** Reads the lines of a day in pages, as a seal hashes them. Fails if an entry comes late meanwhile. */
export async function* readDay(
  organizationId: string,
  day: string,
  signal: AbortSignal,
): AsyncGenerator<string[]> {
  let expected: number | undefined;
  for (let read = 0; expected === undefined || read < expected;) {
    const page = { page_limit: PAGE_SIZE, page_offset: read, newest_first: false };
    const query = queryOf({ organizationId, start: day, end: day }, page);
    const { total, items } = await retried(
      () => call(LOG_PAGE, "read_audit_log", query, signal),
      signal,
    );
    expected ??= total;
    const lines = linesOf(items);
    if (total !== expected || lines.length !== Math.min(PAGE_SIZE, total - read)) {
      throw new RequestError(`Entries of ${day} came or went while it was read. Try again.`);
    }
    if (lines.length > 0) yield lines;
    read += lines.length;
  }
}
