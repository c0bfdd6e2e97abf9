/** The log line of a request, a JSON object. It never has a token or the hash of one. */
export interface LogLine {
  request_id: string;
  /** The API key, once the database has recognized it. */
  key_id?: string;
  status: number;
  ms: number;
  /** How many of these milliseconds the database took. */
  db_ms?: number;
  error?: string;
}

/**
 * Makes text from outside safe for a log: cuts it at a length, and replaces characters that could start a new
 * line or control a terminal (control and format characters, line and paragraph separators).
 */
export function sanitizeForLog(text: string, maxLength = 500): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
}
