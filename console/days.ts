/** A day before today, `YYYY-MM-DD`, UTC: what the API calls a day. */
export function daysAgo(days: number): string {
  return new Date(Date.now() - days * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
}
