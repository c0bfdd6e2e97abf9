import { splitData } from "./entry_lines.ts";

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;

/** Begins a CSV file. Without the byte order mark, Excel does not read it as UTF-8. */
export const CSV_HEADER = `\uFEFF${COLUMNS.join(",")}\r\n`;

/** A record of RFC 4180. `data` stays as it was written, because parsing would round its long numbers. */
export function csvRecord(line: string): string {
  const { fields, data } = splitData(line);
  const entry = { ...fields, data };
  return `${COLUMNS.map((name) => `"${entry[name].replaceAll('"', '""')}"`).join(",")}\r\n`;
}
