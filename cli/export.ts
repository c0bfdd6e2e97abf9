import { existsSync, statSync, truncateSync } from "node:fs";
import process from "node:process";
import { follow, type FollowOptions, refuse } from "./client.ts";
import { lock, readPlace, writeDurably, writeWhole } from "./files.ts";

/** Where FILE ends, as FILE.progress has it. */
interface Place {
  after: string;
  bytes: number;
  entries: number;
}

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;

/**
 * Writes entries to a file, each once, however often it is interrupted: FILE.progress is replaced when the bytes
 * that it counts are on the disk, and a start cuts FILE to them. Returns what to say at the end.
 */
export async function exportLog(out: string, options: FollowOptions): Promise<string> {
  await lock(out);
  const isTerminal = process.stderr.isTTY;
  let state = "";
  let place = cutToPlace(out);
  for await (const { lines, total, next } of follow({ ...options, after: place.after })) {
    const bytes = place.bytes + writeDurably(out, "a", textOf(lines, out, place.bytes === 0));
    place = { after: next, bytes, entries: place.entries + lines.length };
    writeWhole(`${out}.progress`, JSON.stringify(place));
    state = `${place.entries} of ${total} entries are in ${out}`;
    if (isTerminal) process.stderr.write(`\r${state} `);
  }
  return isTerminal ? `\n${state}` : state;
}

function cutToPlace(out: string): Place {
  const saved = readPlace<Place>(`${out}.progress`);
  const size = existsSync(out) ? statSync(out).size : 0;
  if (saved ? size < saved.bytes : size > 0) {
    refuse(`${out} is not as ${out}.progress says: move both away.`);
  }
  const place = saved ?? { after: "beginning", bytes: 0, entries: 0 };
  writeWhole(`${out}.progress`, JSON.stringify(place));
  if (size > place.bytes) truncateSync(out, place.bytes);
  return place;
}

function textOf(lines: string[], out: string, isFirst: boolean): string {
  if (!out.endsWith(".csv")) return lines.map((line) => `${line}\n`).join("");
  const header = isFirst ? `${COLUMNS.join(",")}\r\n` : "";
  return header + lines.map((line) => `${csvRecord(line)}\r\n`).join("");
}

/** A record as RFC 4180 has it. `data` stays as it was written: parsing rounds long numbers. */
function csvRecord(line: string): string {
  const entry = JSON.parse(line);
  // The first: within a string, its quotes would be escaped.
  entry.data = line.slice(line.indexOf(',"data":') + ',"data":'.length, -1);
  return COLUMNS.map((name) => `"${entry[name].replaceAll('"', '""')}"`).join(",");
}
