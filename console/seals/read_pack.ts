import type { Entry, FileEntry } from "@zip.js/zip.js/lib/zip-core-custom.js";
import { isSealsPage, judge, missingSeals, parseKept, type SealsPage } from "../../seals/judge.ts";
import { type DayHash, DayHasher, type Kept } from "../../seals/seal_chain.ts";
import { isDay } from "../shared/days.ts";
import { visible } from "../../common/visible.ts";
import { loadZip, monthDays, type Named, type PackOptions, type Proof } from "./pack.ts";

// Nothing that a pack says of itself is believed. Its days are hashed again, kept.txt only says which seal its maker
// had, and the report is not read.

export interface ReadProof extends Proof {
  /** What seals.json says. Anybody can write it. */
  organization: Named;
  /** The seal that whoever made the pack had kept. */
  makersSeal: Kept | undefined;
}

/** A file that is no evidence pack, or a damaged one. */
class PackError extends Error {
  override name = "PackError";
}

const DAY_FILE = /^days\/(.{10})\.ndjson$/;
const OTHER_FILES = ["days/", "seals.json", "kept.txt", "report.html"];
const MOST_FILES = 100;
/** No entries compress better, because their ids are random. */
const MOST_GROWTH = 200;
/** Of a text. Seals of 500 years are smaller. */
const MOST_TEXT = 100_000_000;

/** Checks a pack. Memory holds a block of entries, and all seals. */
export async function readPack(
  file: Blob,
  { kept, signal, onProgress }: PackOptions,
): Promise<ReadProof> {
  const days = new Map<string, DayHash>();
  const texts = new Map<string, string>();
  let done = 0;
  for await (const [name, entry] of filesOf(file, signal)) {
    const [, day] = name.match(DAY_FILE) ?? [];
    if (day) {
      const hasher = new DayHasher();
      await unpack(entry, (bytes) => hasher.add(bytes), { signal });
      days.set(day, await hasher.end());
    } else if (name !== "report.html") texts.set(name, await readText(entry, signal));
    onProgress((done += entry.compressedSize) / file.size);
  }
  const { chain, organization } = parseSeals(texts.get("seals.json"));
  const [first, ...others] = [...days.keys()].sort();
  if (!first) refuse("It has no days.");
  const { start } = monthDays(first.slice(0, 7));
  const { end } = monthDays((others.at(-1) ?? first).slice(0, 7));
  const verdict = await judge({ pages: [chain], days, kept, start, end });
  const entries = new Map([...days].map(([day, { entries }]) => [day, entries]));
  const makersSeal = parseKept(texts.get("kept.txt")?.trim() ?? "");
  return { start, end, verdict, kept, entries, makersSeal, organization };
}

/** Reads the seal that an earlier pack proves, to keep it from then on. */
export async function lastSealOf(file: Blob, signal: AbortSignal): Promise<Kept> {
  for await (const [name, entry] of filesOf(file, signal)) {
    if (name !== "seals.json") continue;
    const last = parseSeals(await readText(entry, signal)).chain.items.at(-1);
    return last ?? refuse("It has no seals.");
  }
  refuse("It has no seals.json.");
}

/** The files of a pack. They are found as any program would find them, or refused. */
async function* filesOf(
  file: Blob,
  signal: AbortSignal,
): AsyncGenerator<[name: string, entry: FileEntry]> {
  const { BlobReader, ZipReader } = await loadZip();
  const zip = new ZipReader(new BlobReader(file), {
    strictness: "strict",
    checkSignature: true,
    signal,
  });
  const entries = zip.getEntriesGenerator();
  let end = { least: 0, most: 0 };
  for (let number = 1;; number++) {
    const { value: entry, done } = await entries.next().catch(damaged);
    const start = done ? zip.directoryOffset ?? 0 : entry.offset;
    if (start < end.least || start > end.most) refuse("It has bytes between its files.");
    if (done) return;
    end = await endOf(entry, file);
    const { filename } = entry;
    if (number > MOST_FILES) refuse(`It has more than ${MOST_FILES} files.`);
    if (new TextDecoder().decode(entry.rawFilename) !== filename) {
      refuse("It has a file with two names.");
    }
    const [, day = ""] = filename.match(DAY_FILE) ?? [];
    if (!isDay(day) && !OTHER_FILES.includes(filename)) {
      refuse(`It has a file that does not belong: ${visible(filename.slice(0, 80))}`);
    }
    if (!entry.directory) yield [filename, entry];
  }
}

/** Where a file ends in a pack. A program that reads from the beginning would find others after it. */
async function endOf({ offset, bitFlag, compressedSize }: Entry, file: Blob) {
  const header = new DataView(await file.slice(offset, offset + 30).arrayBuffer());
  if (header.byteLength < 30) refuse("A file in it is cut off.");
  const lengths = header.getUint16(26, true) + header.getUint16(28, true);
  const least = offset + 30 + lengths + compressedSize;
  // A data descriptor, which repeats sizes and checksum.
  return { least, most: least + (bitFlag?.dataDescriptor ? 24 : 0) };
}

/** Takes the bytes of a file. Stops when they are more than entries can make. */
async function unpack(
  entry: FileEntry,
  take: (bytes: Uint8Array<ArrayBuffer>) => Promise<void> | void,
  { signal, limit = Infinity }: { signal: AbortSignal; limit?: number },
): Promise<void> {
  const most = Math.min(limit, MOST_GROWTH * (entry.compressedSize + 100));
  const check = (size: number) =>
    size > most && refuse(`Unpacked, ${entry.filename} is larger than any file of a pack.`);
  check(entry.uncompressedSize);
  let size = 0;
  const sink = new WritableStream<Uint8Array<ArrayBuffer>>({
    write: async (bytes) => {
      // The ZIP may have said less.
      check(size += bytes.length);
      await take(bytes);
    },
  });
  await entry.getData(sink, { signal }).catch(damaged);
}

async function readText(entry: FileEntry, signal: AbortSignal): Promise<string> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  await unpack(entry, (bytes) => void pieces.push(bytes), { signal, limit: MOST_TEXT });
  return await new Blob(pieces).text();
}

function parseSeals(text = ""): { chain: SealsPage; organization: Named } {
  let chain: unknown;
  try {
    chain = JSON.parse(text);
  } catch {
    // Refused below.
  }
  if (!isSealsPage(chain)) refuse("Its seals.json is missing, or is not what …/seals answers.");
  const missing = missingSeals([chain]);
  if (missing) refuse(`Its seals.json has ${missing.found} of ${missing.total} seals.`);
  const { organization_id, organization_name }: Record<string, unknown> = { ...chain };
  const told = (value: unknown) => visible(String(value ?? "").slice(0, 200));
  return { chain, organization: { id: told(organization_id), name: told(organization_name) } };
}

function refuse(why: string): never {
  throw new PackError(`This is not an evidence pack, or it is damaged. ${why}`);
}

function damaged(error: unknown): never {
  if (error instanceof PackError) throw error;
  // The library's words mean nothing to whoever was sent the pack.
  console.info(error);
  refuse("Get it again from whoever made it.");
}
