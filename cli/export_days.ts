import { mkdirSync, renameSync, rmSync } from "node:fs";
import process from "node:process";
import { readLine } from "../supabase/functions/_shared/entry_lines.ts";
import type { DayHash, Seal } from "./seals/seal_chain.ts";
import { type ApiOptions, ask, persist, Temporary } from "./client.ts";
import { linesOf, lock, ownFile, writeDurably } from "./files.ts";
import { fetchSeals, hashOf } from "./verify.ts";

const PAGE = 1000;
/** So many entries are read in one go, or one day. */
const MOST_ENTRIES = 10 * PAGE;

/** A day to read, with its last seal and what its file has now. */
interface Day extends Pick<Seal, "day" | "sha256" | "entries"> {
  file: string;
  own: DayHash | undefined;
}

/** Writes each sealed day to a file of its own, with the lines that its last seal hashes, unless it has them. */
export async function exportDays(
  folder: string,
  options: ApiOptions & { start?: string | undefined; end?: string | undefined },
): Promise<string> {
  const { start = "0001-01-01", end = "9999-12-31" } = options;
  mkdirSync(folder, { recursive: true });
  await lock(folder);
  const notes: string[] = [];
  const noteKept = ({ file, own }: Day, inLog: number) =>
    notes.push(
      `${file} is kept as it is, with ${own?.entries} entries: the log has ${inLog}, and some of the file were ` +
        "deleted or changed there. To rewrite it, move it away",
    );
  const seals = (await fetchSeals(options)).flatMap(({ items }) => items);
  const last = new Map(seals.map((seal) => [seal.day, seal]));
  const reduced = new Set(seals.filter(({ removed }) => removed > 0).map(({ day }) => day));
  const days = [...last.values()].filter(({ day }) => start <= day && day <= end)
    .sort((one, other) => one.day < other.day ? -1 : 1);
  // Days that follow each other are read together.
  const groups: Day[][] = [[]];
  for (const { day, sha256, entries } of days) {
    const file = `${folder}/${day}.ndjson`;
    const own = ownFile(file) ? await hashOf(file) : undefined;
    const group = groups.at(-1) ?? [];
    const mustRead = own?.sha256 !== sha256 && !(own && reduced.has(day));
    const size = group.reduce((sum, { entries }) => sum + entries, entries);
    if (group.length > 0 && (!mustRead || size > MOST_ENTRIES)) groups.push([]);
    if (mustRead) groups.at(-1)?.push({ day, sha256, entries, file, own });
    else if (own?.sha256 !== sha256) noteKept({ day, sha256, entries, file, own }, entries);
  }

  let written = 0;
  for (const group of groups.filter(({ length }) => length > 0)) {
    const read = await persist(() => readDays(group, options), options);
    for (const day of group) {
      const { file, own, sha256 } = day;
      const { entries = 0, sha256: hash } = read.get(day) ?? {};
      if (own && !await hasLinesOf(`${file}.new`, file)) {
        rmSync(`${file}.new`, { force: true });
        noteKept(day, entries);
        continue;
      }
      renameSync(`${file}.new`, file);
      written++;
      if (hash !== sha256) {
        notes.push(
          `${file} differs from its seal: entries have come late, or the log was changed. verify says more`,
        );
      }
    }
    if (process.stderr.isTTY) {
      process.stderr.write(`\r${written} days are written, up to ${group.at(-1)?.day} `);
    }
  }
  if (process.stderr.isTTY && written > 0) process.stderr.write("\n");
  notes.push(`${days.length} sealed days are in ${folder}, ${written} of them new`);
  return notes.join("\n");
}

/** Whether a file has all lines of another, in their order: else it must not take the place of what it may disprove. */
async function hasLinesOf(path: string, other: string): Promise<boolean> {
  const lines = linesOf(path);
  for await (const line of linesOf(other)) {
    for (;;) {
      const { value, done } = await lines.next();
      if (done) return false;
      if (value === line) break;
    }
  }
  await lines.return(undefined);
  return true;
}

/** Reads all pages of days into their files. An entry that comes late meanwhile would shift them: then it begins again. */
async function readDays(days: Day[], options: ApiOptions): Promise<Map<Day, DayHash>> {
  const url = new URL(options.url);
  const range = `start=${days[0]?.day}&end=${days.at(-1)?.day}`;
  for (const { file } of days) {
    rmSync(`${file}.new`, { force: true });
    writeDurably(`${file}.new`, "wx", "");
  }
  let total: number | undefined;
  for (let read = 0; total === undefined || read < total;) {
    url.search = `${range}&limit=${PAGE}&offset=${read}`;
    const answer = await persist(() => ask(url, options, "application/x-ndjson"), options);
    const lines = answer.body.split("\n").slice(0, -1);
    const now = Number(answer.headers.get("X-Total-Count") ?? NaN);
    total ??= now;
    if (now !== total || lines.length !== Math.min(PAGE, total - read)) {
      throw new Temporary(`${range} was not read whole, or has changed meanwhile`);
    }
    const dayOf = new Map(lines.map((line) => [line, readLine(line)?.hour.slice(0, 10)]));
    for (const { day, file } of days) {
      const own = lines.filter((line) => dayOf.get(line) === day);
      if (own.length > 0) writeDurably(`${file}.new`, "a", `${own.join("\n")}\n`);
    }
    read += lines.length;
  }
  const hashes = new Map<Day, DayHash>();
  for (const day of days) hashes.set(day, await hashOf(`${day.file}.new`));
  return hashes;
}
