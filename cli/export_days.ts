import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import type { DayHash } from "./seals/seal_chain.ts";
import { type ApiOptions, ask, persist, type Selection, Temporary } from "./client.ts";
import { linesOf, lock, writeDurably } from "./files.ts";
import { fetchSeals, hashOf } from "./verify.ts";

const PAGE = 1000;

/** Writes each sealed day to a file of its own, with the lines that its last seal hashes, unless it has them. */
export async function exportDays(
  folder: string,
  options: ApiOptions & Pick<Selection, "start" | "end">,
): Promise<string> {
  const { start = "0001-01-01", end = "9999-12-31" } = options;
  mkdirSync(folder, { recursive: true });
  await lock(folder);
  const notes: string[] = [];
  let written = 0;
  const seals = (await fetchSeals(options)).flatMap(({ items }) => items);
  const last = new Map(seals.map((seal) => [seal.day, seal]));
  const reduced = new Set(seals.filter(({ removed }) => removed > 0).map(({ day }) => day));
  const days = [...last.values()].filter(({ day }) => start <= day && day <= end)
    .sort((one, other) => one.day < other.day ? -1 : 1);
  for (const { day, sha256, entries } of days) {
    const file = `${folder}/${day}.ndjson`;
    const own = existsSync(file) ? await hashOf(file) : undefined;
    if (own?.sha256 === sha256) continue;
    const read = own && reduced.has(day)
      ? undefined
      : await persist(() => readDay(day, `${file}.new`, options), options);
    if (!read || own && !await hasLinesOf(`${file}.new`, file)) {
      rmSync(`${file}.new`, { force: true });
      const inLog = read?.entries ?? entries;
      notes.push(
        `${file} is kept as it is, with ${own?.entries} entries: the log has ${inLog}, and some of the file were ` +
          "deleted or changed there. To write it anew, move it away",
      );
      continue;
    }
    if (own) chmodSync(`${file}.new`, statSync(file).mode);
    renameSync(`${file}.new`, file);
    written++;
    if (read.sha256 !== sha256) {
      notes.push(
        `${file} differs from its seal: entries have come late, or the log was changed. verify says more`,
      );
    }
  }
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

/** Reads all pages of a day into a file. An entry that comes late meanwhile would shift them: then it begins anew. */
async function readDay(day: string, file: string, options: ApiOptions): Promise<DayHash> {
  const url = new URL(options.url);
  rmSync(file, { force: true });
  writeDurably(file, "wx", "");
  let total: number | undefined;
  for (let read = 0; total === undefined || read < total;) {
    url.search = `start=${day}&end=${day}&limit=${PAGE}&offset=${read}`;
    const answer = await persist(() => ask(url, options, "application/x-ndjson"), options);
    const lines = answer.body.split("\n").length - 1;
    const now = Number(answer.headers.get("X-Total-Count") ?? NaN);
    total ??= now;
    if (now !== total || lines !== Math.min(PAGE, total - read)) {
      throw new Temporary(`${day} was not read whole, or has changed meanwhile`);
    }
    writeDurably(file, "a", answer.body);
    read += lines;
  }
  return await hashOf(file);
}
