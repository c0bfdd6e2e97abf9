import * as z from "zod/mini";
import { type Days, isDay, type Preset, presetDays, PRESETS } from "./days.ts";

// What the address of each screen says after its "?". Each part is optional, and a wrong one counts as absent.

function optional<T extends z.ZodMiniType>(schema: T) {
  return z.catch(z.optional(schema), undefined as z.output<T> | undefined);
}

const DAY = optional(z.string().check(z.refine(isDay)));
const PAGE = optional(z.int().check(z.gte(1)));

/** Days: a preset, which moves with the calendar, or two fixed days. */
export const RANGE = z.object({
  range: optional(z.enum(Object.keys(PRESETS) as Preset[])),
  start: DAY,
  end: DAY,
});
export type Range = z.infer<typeof RANGE>;

export const DEFAULT_PRESET: Preset = "7d";

export function daysOf({ range, start, end }: Range, preset = DEFAULT_PRESET): Days {
  return start && end && start <= end ? { start, end } : presetDays(range ?? preset);
}

/** The column by which a table is sorted. */
const SORTING = z.object({ sort: optional(z.string()), descending: optional(z.literal(true)) });
export type Sorting = z.infer<typeof SORTING>;

/** Which of the days' entries. A person may give each filter in the form and remove it as a chip. */
const FILTER = z.object({ action: optional(z.string()), person: optional(z.string()) });
export type Filter = z.infer<typeof FILTER>;

export const NO_FILTER: Required<Filter> = { action: undefined, person: undefined };

export function filterOf(search: LogSearch): Filter {
  return z.parse(FILTER, search);
}

export const PAGE_SIZES = [50, 100, 1000] as const;

export const LOG_SEARCH = z.object({
  ...RANGE.shape,
  ...FILTER.shape,
  page: PAGE,
  size: optional(z.literal(PAGE_SIZES)),
  time: optional(z.literal("local")),
  follow: optional(z.literal(true)),
  /** The id of the open entry, and its `created_at`. Together they identify it. */
  entry: optional(z.guid()),
  at: optional(z.iso.datetime()),
});
export type LogSearch = z.infer<typeof LOG_SEARCH>;

export const KEY_STATES = ["active", "expiring", "expired", "revoked"] as const;

export const KEYS_SEARCH = z.object({
  ...SORTING.shape,
  text: optional(z.coerce.string()),
  state: optional(z.enum(KEY_STATES)),
  page: PAGE,
});
export type KeysSearch = z.infer<typeof KEYS_SEARCH>;

export const USAGE_SEARCH = z.object({ ...RANGE.shape, ...SORTING.shape });
export type UsageSearch = z.infer<typeof USAGE_SEARCH>;
