/** The log line of a request, a JSON object. It never has a token or the hash of one. */
export interface LogLine {
  request_id: string;
  /** The API key, once the database has recognized it. */
  api_key_id?: string;
  status: number;
  ms: number;
  /** How many of these milliseconds the database took. */
  db_ms?: number;
  error?: string;
}

/** Cuts text from outside, and replaces what could start a new line of a log or control a terminal. */
export function sanitizeForLog(text: string, maxLength = 500): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
}
