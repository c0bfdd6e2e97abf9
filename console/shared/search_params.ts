import * as z from "zod/mini";
import { type Days, isDay, type Preset, PRESETS } from "./days.ts";

// What the address of each screen says after its "?". Each part is optional, and a wrong one counts as absent.

function optional<T extends z.ZodMiniType>(schema: T) {
  return z.catch(z.optional(schema), undefined as z.output<T> | undefined);
}

/** The router gives what looks like a number as one. */
const TEXT = optional(z.coerce.string());
const PAGE = optional(z.int().check(z.gte(1)));

/** Days: a preset, which moves with the calendar, or two fixed days. */
export const RANGE = z.object({
  range: optional(z.enum(Object.keys(PRESETS) as Preset[])),
  start: TEXT,
  end: TEXT,
});
export type Range = z.infer<typeof RANGE>;

export const DEFAULT_PRESET: Preset = "7d";

function fixedDays({ start = "", end = "" }: Range): Days | undefined {
  return isDay(start) && isDay(end) && start <= end ? { start, end } : undefined;
}

export function daysOf(range: Range, preset = DEFAULT_PRESET): Days {
  return fixedDays(range) ?? PRESETS[range.range ?? preset].days();
}

/** Why the days in an address are not a range. Empty if they are one, or if there are none. */
export function explainDays(range: Range): string {
  const { start, end } = range;
  if ((start ?? end) === undefined || fixedDays(range)) return "";
  if (start === undefined || end === undefined) {
    return `The address has no ${start === undefined ? "first" : "last"} day.`;
  }
  const wrong = [start, end].find((day) => !isDay(day));
  // Short, because anybody can make a link.
  if (wrong !== undefined) return `“${wrong.slice(0, 10)}” is not a day.`;
  return `The first day, ${start}, is after the last one, ${end}.`;
}

/** The range that such days most likely mean, if any. */
export function likelyDays({ start, end }: Range): Days | undefined {
  const [first, last] = [start ?? end, end ?? start].map(likelyDay).sort();
  return first && last ? { start: first, end: last } : undefined;
}

/** The 30th of February is its last day. */
function likelyDay(text = ""): string {
  const month = text.slice(0, 8);
  return [text, `${month}30`, `${month}29`, `${month}28`].find(isDay) ?? "";
}

/** The column by which a table is sorted. */
const SORTING = z.object({ sort: optional(z.string()), descending: optional(z.literal(true)) });
export type Sorting = z.infer<typeof SORTING>;

/** Which of the days' entries, as the API calls it. `action` is one code, or several with commas between them. */
const FILTER = z.object({ action: TEXT, user_email: TEXT });
export type Filter = z.infer<typeof FILTER>;

export const NO_FILTER: Required<Filter> = { action: undefined, user_email: undefined };

export function filterOf(search: LogSearch): Filter {
  return z.parse(FILTER, search);
}

export function actionsOf({ action }: Filter): string[] {
  return action?.split(",") ?? [];
}

export const PAGE_SIZES = [50, 100, 1000] as const;

export const LOG_SEARCH = z.object({
  ...RANGE.shape,
  ...FILTER.shape,
  page: PAGE,
  size: optional(z.literal(PAGE_SIZES)),
  follow: optional(z.literal(true)),
  /** The id of the open entry, and its `created_at`. Together they identify it. */
  entry: optional(z.guid()),
  at: optional(z.iso.datetime()),
});
export type LogSearch = z.infer<typeof LOG_SEARCH>;

export const KEYS_SEARCH = z.object({
  ...SORTING.shape,
  text: TEXT,
  page: PAGE,
});
export type KeysSearch = z.infer<typeof KEYS_SEARCH>;

export const USAGE_SEARCH = z.object({ ...RANGE.shape, ...SORTING.shape });
export type UsageSearch = z.infer<typeof USAGE_SEARCH>;
