import type { ZipWriter } from "@zip.js/zip.js/lib/zip-core-custom.js";
import { readLine } from "../../common/entry_lines.ts";
import { judge } from "../../seals/judge.ts";
import { type DayHash, DayHasher } from "../../seals/seal_chain.ts";
import { readDay } from "../data/entries.ts";
import type { Days } from "../shared/days.ts";
import {
  keptSeal,
  loadZip,
  type Named,
  type PackOptions,
  type Proof,
  readChain,
  sealsJson,
} from "./pack.ts";
import { type Actions, reportOf } from "./report.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A month of an organization, and which days of it the log has. */
export interface Period extends Days {
  organization: Named;
  days: { day: string; entries: number }[];
}

/** More entries than these may need ZIP64, which not every program reads. */
const MOST_WITHOUT_ZIP64 = 100_000;

/** Reads a month of the log into a pack, and judges it on the way. Memory holds a page of entries. */
export async function writePack(
  file: WritableStream<Bytes>,
  period: Period,
  options: PackOptions,
): Promise<Proof> {
  const { ZipWriter } = await loadZip();
  const { readable, writable } = new TransformStream<Bytes, Bytes>();
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const zip = new ZipWriter(writable, { signal });
  const [proof] = await Promise.all([
    addAll(zip, period, { ...options, signal }).catch((error) => {
      // Otherwise half a file would stay open.
      failed.abort(error);
      throw error;
    }),
    readable.pipeTo(file, { signal }),
  ]);
  return proof;
}

async function addAll(
  zip: ZipWriter<unknown>,
  { organization, start, end, days }: Period,
  { kept, signal, onProgress }: PackOptions,
): Promise<Proof> {
  const addText = (name: string, text: string) => zip.add(name, new Blob([text]).stream());
  const chain = await readChain(organization.id, signal);
  const total = days.reduce((sum, { entries }) => sum + entries, 0);
  const hashes = new Map<string, DayHash>();
  const entries = new Map<string, number>();
  const actions = new Map<string, Actions>();
  let done = 0;
  for (const { day, entries: expected } of days) {
    const pages = readDay(organization.id, day, signal);
    const { text, hasher, found } = hashed(pages, (read) => onProgress((done += read) / total));
    await zip.add(`days/${day}.ndjson`, text, { zip64: expected > MOST_WITHOUT_ZIP64 });
    const hash = await hasher.end();
    hashes.set(day, hash);
    entries.set(day, hash.entries);
    actions.set(day, found);
  }
  const verdict = await judge({ pages: [chain], days: hashes, kept, start, end });
  const proof = { start, end, verdict, kept, entries };
  await addText("seals.json", sealsJson(organization, chain));
  if (kept) await addText("kept.txt", `${keptSeal(kept)}\n`);
  await addText("report.html", reportOf({ ...proof, organization, actions }));
  await zip.close();
  return proof;
}

/** The text of a day, which is hashed, and whose actions are counted, as it is read. */
function hashed(pages: AsyncGenerator<string[]>, onRead: (entries: number) => void) {
  const hasher = new DayHasher();
  const found: Actions = new Map();
  const text = new ReadableStream<Bytes>({
    pull: async (stream) => {
      const { value: lines, done } = await pages.next();
      if (done) return stream.close();
      for (const line of lines) {
        const action = readLine(line)?.action ?? "";
        found.set(action, (found.get(action) ?? 0) + 1);
      }
      const bytes = new TextEncoder().encode(`${lines.join("\n")}\n`);
      await hasher.add(bytes);
      stream.enqueue(bytes);
      onRead(lines.length);
    },
  });
  return { text, hasher, found };
}
