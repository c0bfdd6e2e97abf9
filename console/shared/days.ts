// Days of the API (`YYYY-MM-DD` in UTC), and times as the console writes them.

export const DAY_MS = 24 * 60 * 60 * 1000;

/** A range of days, both inclusive. */
export interface Days {
  start: string;
  end: string;
}

/** Ranges that move with the calendar, by their name in the address. */
export const PRESETS = {
  today: { name: "Today", days: () => lastDays(1) },
  "7d": { name: "7 days", days: () => lastDays(7) },
  "30d": { name: "30 days", days: () => lastDays(30) },
  "90d": { name: "90 days", days: () => lastDays(90) },
  quarter: { name: "Last quarter", days: lastQuarter },
  year: { name: "Year", days: () => lastDays(365) },
  all: { name: "All", days: () => ({ start: "1000-01-01", end: "9999-12-31" }) },
} as const;
export type Preset = keyof typeof PRESETS;

export function today(): string {
  return dayOf(now());
}

/** How many milliseconds this machine's clock is behind the server's, as far as is known. */
let slowness = 0;

/** Learns the time from an answer of the server. With a slow clock, the log would end before its newest entries. */
export function learnTime(date: string | null): void {
  slowness = Math.max(0, Date.parse(date ?? "") - Date.now()) || 0;
}

export function now(): number {
  return Date.now() + slowness;
}

export function lastDays(count: number): Days {
  return { start: addDays(today(), 1 - count), end: today() };
}

/** The last quarter of a calendar year that is over. */
function lastQuarter(): Days {
  const [year = 0, month = 0] = today().split("-").map(Number);
  const first = Math.floor((month - 1) / 3) * 3;
  const start = dayOf(Date.UTC(year, first - 3, 1));
  return { start, end: dayOf(Date.UTC(year, first, 0)) };
}

export function formatDays({ start, end }: Days): string {
  return start === end ? start : `${start} – ${end}`;
}

export function addDays(day: string, days: number): string {
  return dayOf(Date.parse(day) + days * DAY_MS);
}

export function countDays({ start, end }: Days): number {
  return (Date.parse(end) - Date.parse(start)) / DAY_MS + 1;
}

/** Whether a text is a real day. Years before 1000 are typing errors. */
export function isDay(text: string): boolean {
  return /^[1-9]\d{3}-\d{2}-\d{2}$/.test(text) &&
    !Number.isNaN(Date.parse(text)) && dayOf(Date.parse(text)) === text;
}

/** The day (UTC) of a time in milliseconds or ISO 8601. */
export function dayOf(time: number | string): string {
  return new Date(time).toISOString().slice(0, 10);
}

/** A time in UTC with milliseconds. */
export function formatTime(value: string): string {
  return new Date(value).toISOString().slice(0, 23).replace("T", " ");
}

const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]] as const;
const RELATIVE = new Intl.RelativeTimeFormat("en");

/** "2 minutes ago", "in 2 minutes". After 47 hours, it is "1 day ago". */
export function formatRelative(value: string): string {
  const seconds = (Date.parse(value) - now()) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = unitOf(seconds);
  return RELATIVE.format((seconds < 0 ? Math.trunc : Math.round)(seconds / size), unit);
}

/** "2 minutes". */
export function formatSeconds(seconds: number): string {
  const [unit, size] = unitOf(seconds);
  return count(Math.trunc(seconds / size), unit);
}

function unitOf(seconds: number) {
  return UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1] as const;
}

export function secondsSince(value: string): number {
  return Math.max(0, (now() - Date.parse(value)) / 1000);
}

/** "1 entry", "1,204 entries". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
