import { chmodSync, truncateSync } from "node:fs";
import process from "node:process";
import { csvHeader, csvRecord } from "../supabase/functions/_shared/csv.ts";
import { refuse } from "./client.ts";
import { lock, ownFile, PRIVATE, readProgress, writeDurably, writeWhole } from "./files.ts";
import { follow, type FollowOptions } from "./follow.ts";

/** How much of FILE is written, as in FILE.progress. */
interface Progress {
  after: string;
  bytes: number;
  entries: number;
}

/** Writes entries to a file, each once. The next start cuts FILE to the size that FILE.progress has with the cursor. */
export async function exportLog(
  out: string,
  { rawCsv, isSearching, ...options }: FollowOptions & { rawCsv: boolean; isSearching: boolean },
): Promise<string> {
  const format = formatOf(out, rawCsv);
  await lock(out);
  const isTerminal = process.stderr.isTTY;
  let state = "";
  let progress = cutToProgress(out);
  for await (const { lines, total, cursor } of follow({ ...options, after: progress.after })) {
    const bytes = progress.bytes + writeDurably(out, "a", format(lines, progress.bytes === 0));
    progress = { after: cursor, bytes, entries: progress.entries + lines.length };
    writeWhole(`${out}.progress`, JSON.stringify(progress));
    // While entries are searched, the total may be of those that are looked through.
    state = `${progress.entries} ${isSearching ? "" : `of ${total} `}entries are in ${out}`;
    if (isTerminal) process.stderr.write(`\r${state} `);
  }
  return isTerminal ? `\n${state}` : state;
}

function cutToProgress(out: string): Progress {
  const saved = readProgress<Progress>(`${out}.progress`);
  const file = ownFile(out);
  const size = file?.size ?? 0;
  if (saved ? size < saved.bytes : size > 0) {
    refuse(`${out} is not as ${out}.progress says: move both away.`);
  }
  const progress = saved ?? { after: "beginning", bytes: 0, entries: 0 };
  writeWhole(`${out}.progress`, JSON.stringify(progress));
  if (file) chmodSync(out, PRIVATE);
  if (size > progress.bytes) truncateSync(out, progress.bytes);
  return progress;
}

function formatOf(out: string, isRaw = false): (lines: string[], isFirst: boolean) => string {
  if (/\.csv$/i.test(out)) {
    return (lines, isFirst) =>
      `${isFirst ? csvHeader() : ""}${lines.map((line) => csvRecord(line, isRaw)).join("")}`;
  }
  if (isRaw) refuse("--raw-csv: name a file that ends in .csv. Try --help.");
  return (lines) => lines.map((line) => `${line}\n`).join("");
}
