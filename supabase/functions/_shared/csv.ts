import { splitData } from "./entry_lines.ts";

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;

/** Begins a CSV file, with columns beside those of an entry. Without the byte order mark, Excel does not read it as UTF-8. */
export function csvHeader(...others: string[]): string {
  return `\uFEFF${[...COLUMNS, ...others].join(",")}\r\n`;
}

/** A record of RFC 4180. Unless raw, a ' is put before what a spreadsheet would run (OWASP, CSV Injection). */
export function csvRecord(line: string, isRaw = false, ...others: string[]): string {
  const { fields, data } = splitData(line);
  const entry = { ...fields, data };
  const values = [...COLUMNS.map((name) => entry[name]), ...others]
    .map((value) => (isRaw ? value : harmless(value)).replaceAll('"', '""'));
  return `${values.map((value) => `"${value}"`).join(",")}\r\n`;
}

function harmless(value: string): string {
  // Where lists have semicolons, Excel splits a file at these, also within a field. Some spreadsheets drop spaces before
  // a formula, and Japanese ones take the wide forms of its first character.
  const text = value.replace(/((?:^|[;\t\r\n])[\s"]*)(?=[=+\-@＝＋－＠])/g, "$1'");
  return /^[\t\r\n]/.test(text) ? `'${text}` : text;
}
