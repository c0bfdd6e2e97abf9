// The console's export imports this, too.

const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;

/** Begins a CSV file. Without the byte order mark, Excel does not read it as UTF-8. */
export const CSV_HEADER = `\uFEFF${COLUMNS.join(",")}\r\n`;

/** A record of RFC 4180. `data` stays as it was written, because parsing would round its long numbers. */
export function csvRecord(line: string): string {
  // The first match is the field: within a string, the quotes would be escaped.
  const mark = ',"data":';
  const end = line.indexOf(mark);
  const entry: Record<typeof COLUMNS[number], string> = JSON.parse(`${line.slice(0, end)}}`);
  entry.data = line.slice(end + mark.length, -1);
  return `${COLUMNS.map((name) => `"${entry[name].replaceAll('"', '""')}"`).join(",")}\r\n`;
}
