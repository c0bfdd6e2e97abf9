import * as z from "zod/mini";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import { type Days, isDay, type Preset, PRESETS } from "./days.ts";
import { actionName } from "./parts.tsx";

// What the address of each screen says after its "?". Each part is optional, and a wrong one counts as absent.

function optional<T extends z.ZodMiniType>(schema: T) {
  return z.catch(z.optional(schema), undefined as z.output<T> | undefined);
}

/** The router gives what looks like a number as one. */
const TEXT = optional(z.coerce.string());

/** Days: a preset, which moves with the calendar, or two fixed days. */
export const RANGE = z.object({
  range: optional(z.enum(Object.keys(PRESETS) as Preset[])),
  start: TEXT,
  end: TEXT,
});
export type Range = z.infer<typeof RANGE>;

export const ALL_TIME = { range: "all", start: undefined, end: undefined } as const;

export const DEFAULT_PRESET: Preset = "7d";

function fixedDays({ start = "", end = "" }: Range): Days | undefined {
  return isDay(start) && isDay(end) && start <= end ? { start, end } : undefined;
}

export function daysOf(range: Range, preset = DEFAULT_PRESET): Days {
  return fixedDays(range) ?? PRESETS[range.range ?? preset].days();
}

/** Says what is wrong with the days of a link. Empty if they are a range, or if there are none. */
export function explainDays(range: Range): string {
  const { start = "", end = "" } = range;
  if (start + end === "" || fixedDays(range)) return "";
  // Short, because anybody can make a link.
  const [first, last] = [start, end].map((day) => `“${day.slice(0, 10)}”`);
  return `The link asks for days from ${first} to ${last}, which are no range after 1000-01-01.`;
}

/** Which of the days' entries, as the API calls it. `action` is one code, or several with commas between them. */
const FILTER = z.object({ action: TEXT, user_email: TEXT, object: TEXT });
export type Filter = z.infer<typeof FILTER>;

const NAMES: Record<keyof Filter, string> = {
  action: "Action",
  user_email: "Person",
  object: "Target or value",
};

export const NO_FILTER = Object.fromEntries(
  Object.keys(NAMES).map((name) => [name, undefined]),
) as Required<Filter>;

export function filterOf(search: LogSearch): Filter {
  return z.parse(FILTER, search);
}

/** A filter as people see it: each condition, and what changes without it. */
export function conditionsOf(filter: Filter): { text: string; without: Filter }[] {
  const actions = actionsOf(filter);
  const { action: _, ...others } = NAMES;
  return [
    ...actions.map((code) => ({
      text: `${NAMES.action}: ${visible(actionName(code))}`,
      without: { action: actions.filter((other) => other !== code).join(",") || undefined },
    })),
    ...(Object.keys(others) as (keyof typeof others)[]).flatMap((name) => {
      const value = filter[name];
      if (value === undefined) return [];
      return [{ text: `${NAMES[name]}: ${visible(value)}`, without: { [name]: undefined } }];
    }),
  ];
}

export function actionsOf({ action }: Filter): string[] {
  return action?.split(",") ?? [];
}

export const LOG_SEARCH = z.object({
  ...RANGE.shape,
  ...FILTER.shape,
  /** The id of the open entry, and its `created_at`. Together they identify it. */
  entry: optional(z.guid()),
  at: optional(z.iso.datetime()),
});
export type LogSearch = z.infer<typeof LOG_SEARCH>;

/** `saved` is a seal that a person has saved, to be checked. With `days`, the list of days is open. */
export const SEALS_SEARCH = z.object({ saved: TEXT, days: optional(z.literal(true)) });

/** Without `all`, the screen shows live keys only. */
export const KEYS_SEARCH = z.object({ text: TEXT, all: optional(z.literal(true)) });
export type KeysSearch = z.infer<typeof KEYS_SEARCH>;
