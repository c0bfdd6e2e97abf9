// How the API writes an entry: as one line of JSON, whose fields keep this order. Code that stores, hashes or
// sends on entries works with the lines, because parsing would round their long numbers.

import type { Page } from "../public-audit-log/page_schema.ts";

type Entry = Page["items"][number];

/** How a line begins. The action comes next, then the person, the agent, and last `data`. */
const LINE =
  /^\{"id":"[0-9a-f-]{36}","created_at":"(\d{4}-\d\d-\d\dT\d\d):\d\d:\d\d\.\d{3}Z",(?:"action":"([^"]*)")?/;

/** A line with other spaces than the API's: none after the first colon of `data`, or some between the fields. */
const WRITTEN_ANEW = /^\{\s|^\{"\w+":\s|,"data":(?:\s|\{"(?:[^"\\]|\\.)*":(?! ))/m;

const DATA = ',"data":';
const ITEMS = '"items":';
const SEPARATOR = ",\n";

/** Reads the hour, as 2026-11-20T15, and the action of a line; `undefined` if it does not begin as an entry does. */
export function readLine(line: string): { hour: string; action: string } | undefined {
  const [, hour, action = ""] = line.match(LINE) ?? [];
  return hour === undefined ? undefined : { hour, action };
}

/** Whether a line of a text is an entry that another program has parsed and rewritten, as jq and DuckDB do. */
export function isWrittenAnew(text: string): boolean {
  return WRITTEN_ANEW.test(text);
}

/** Throws if a line is not one entry. In files and collectors, a line break in it could begin something else. */
export function checkLine(line: string): void {
  if (!readLine(line) || /[\r\n]/.test(line)) throw new TypeError("not an entry on each line");
  JSON.parse(line);
}

/** Splits a line: its fields but `data`, and `data` as it was written. */
export function splitData(line: string): { fields: Omit<Entry, "data">; data: string } {
  // The first match is the field: within a string, the quotes would be escaped.
  const end = line.indexOf(DATA);
  return {
    fields: JSON.parse(`${line.slice(0, end)}}`),
    data: line.slice(end + DATA.length, -1),
  };
}

/** Compares two lines by the order of the log. Only the same line has the same place. */
export function byTimeAndId(one: string, other: string): number {
  if (one === other) return 0;
  // First when it happened, then its id.
  const key = (line: string) => line.slice(59, 83) + line.slice(7, 43) + line;
  return key(one) < key(other) ? -1 : 1;
}

export function linesOf(items: string): string[] {
  const lines = items.slice(1, -1);
  return lines === "" ? [] : lines.split(SEPARATOR);
}

/** Splits the text of a page: its other fields, and the lines of its `items`. Throws if it is cut off, or no page. */
export function splitPage(page: string): { fields: Record<string, unknown>; lines: string[] } {
  const [start, end] = [page.indexOf(ITEMS) + ITEMS.length, page.lastIndexOf("]") + 1];
  const fields = JSON.parse(`${page.slice(0, start)}[]${page.slice(end)}`);
  return { fields, lines: linesOf(page.slice(start, end)) };
}
