// The console's export imports this, too.

export const COLUMNS = ["id", "created_at", "action", "user_email", "agent_name", "data"] as const;
export type ColumnName = typeof COLUMNS[number];

/** A record of RFC 4180. `data` stays as it was written, because parsing would round its long numbers. */
export function csvRecord(line: string, columns: readonly ColumnName[]): string {
  // The first match is the field: within a string, the quotes would be escaped.
  const mark = ',"data":';
  const end = line.indexOf(mark);
  const entry: Record<ColumnName, string> = JSON.parse(`${line.slice(0, end)}}`);
  entry.data = line.slice(end + mark.length, -1);
  return `${columns.map((name) => `"${entry[name].replaceAll('"', '""')}"`).join(",")}\r\n`;
}
