import { keepPreviousData, type QueryClient, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { countDays, type Days } from "../shared/days.ts";
import { call, SHOWN } from "./call.ts";
import { type LogFilter, queryOf } from "./entries.ts";

const SEAL = z.object({
  sequence: z.number(),
  day: z.string(),
  entries: z.number(),
  sealed_at: z.string(),
  seal: z.string(),
});
export type Seal = z.infer<typeof SEAL>;

const SEAL_PAGE = z.object({
  total: z.number(),
  altered: z.array(z.string()),
  items: z.array(SEAL),
  keep_days: z.nullable(z.number()),
  holds: z.array(z.object({ reason: SHOWN, held_by: SHOWN, held_at: z.string() })),
});

const PAGE_SIZE = 1000;

/** Reads all seals of some days, as one answer. */
export async function readSeals<Page extends { total: number; items: unknown[] }>(
  schema: z.ZodMiniType<Page>,
  days: LogFilter,
  signal: AbortSignal,
): Promise<Page> {
  const items: Page["items"] = [];
  for (;;) {
    const query = queryOf(days, { page_limit: PAGE_SIZE, page_offset: items.length });
    const page = await call(schema, "list_seals", query, signal);
    items.push(...page.items);
    if (page.items.length === 0 || items.length >= page.total) return { ...page, items };
  }
}

const COUNTS = z.object({
  items: z.array(z.object({ day: z.string(), hour: z.optional(z.number()), entries: z.number() })),
});

const MAX_DAYS_BY_HOUR = 7;

/** Whether a day is as it was sealed. The worst state comes first. */
export const SEAL_STATES = {
  altered: { name: "Altered after sealing", colour: "var(--bad)" },
  open: { name: "Not yet sealed", colour: "var(--waiting)" },
  sealed: { name: "Sealed", colour: "var(--good)" },
  empty: { name: "", colour: "transparent" },
} as const;
export type SealState = keyof typeof SEAL_STATES;

/** A day that has entries or a seal. */
export interface LogDay {
  day: string;
  entries: number;
  seal: Seal | undefined;
  state: SealState;
}

/** A range of days. Those without entries or a seal are left out of `days`. */
export interface LogDays extends Days {
  days: LogDay[];
  /** Entries by day, and of a short range by hour. */
  counts: z.infer<typeof COUNTS>["items"];
  isByHour: boolean;
  keep_days: number | null;
  holds: z.infer<typeof SEAL_PAGE>["holds"];
}

/** The upkeep seals days at night, so seals are read again after this time, or when a person refreshes. */
const SEALS_STALE_MS = 5 * 60_000;

async function readDays(
  filter: LogFilter,
  { client, signal }: { client: QueryClient; signal: AbortSignal },
): Promise<LogDays> {
  const { organizationId, start, end } = filter;
  const by_hour = countDays(filter) <= MAX_DAYS_BY_HOUR;
  const [{ items }, { items: allSeals, altered, keep_days, holds }] = await Promise.all([
    call(COUNTS, "daily_entry_counts", { ...queryOf(filter), by_hour }, signal),
    // Seals are of whole days, so all filters of a range share this answer.
    client.fetchQuery({
      queryKey: ["log", organizationId, "seals", start, end],
      queryFn: ({ signal }) => readSeals(SEAL_PAGE, { organizationId, start, end }, signal),
      staleTime: SEALS_STALE_MS,
    }),
  ]);
  // The latest seal of each day that has one.
  const seals = new Map(allSeals.map((seal) => [seal.day, seal]));
  const counts = new Map<string, number>();
  for (const { day, entries } of items) counts.set(day, (counts.get(day) ?? 0) + entries);
  const days = [...new Set([...counts.keys(), ...seals.keys(), ...altered])].sort()
    .map((day): LogDay => {
      const seal = seals.get(day);
      const state = seal ? "sealed" : "open";
      const entries = counts.get(day) ?? 0;
      return { day, entries, seal, state: altered.includes(day) ? "altered" : state };
    });
  return { start, end, days, counts: items, isByHour: by_hour, keep_days, holds };
}

/** The days of a filter. Until the answer comes, the query returns those of the filter before. */
export function useLogDays(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "days", filter],
    queryFn: (context) => readDays(filter, context),
    placeholderData: keepPreviousData,
  });
}

export const ALL_DAYS = { start: "0001-01-01", end: "9999-12-31" };

/** The days of the whole log whose entries were changed after sealing. */
export function useAlteredDays(organizationId: string) {
  return useQuery({
    queryKey: ["log", organizationId, "altered"],
    queryFn: async ({ signal }) => {
      const query = queryOf({ organizationId, ...ALL_DAYS }, { page_limit: 1 });
      return (await call(SEAL_PAGE, "list_seals", query, signal)).altered;
    },
    staleTime: SEALS_STALE_MS,
  });
}

/** The end of the organization's chain of seals. With a copy of it, a person can check all the others. */
export function useLatestSeal(organization_id: string) {
  return useQuery({
    queryKey: ["latest seal", organization_id],
    queryFn: ({ signal }) => call(z.nullable(SEAL), "latest_seal", { organization_id }, signal),
  });
}
