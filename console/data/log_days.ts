import { keepPreviousData, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import type { Days } from "../shared/days.ts";
import { call } from "./call.ts";
import { type LogFilter, queryOf } from "./entries.ts";
import { readSeals, type Seal, type SealPage, type SealState, STALE_MS } from "./seals.ts";

const COUNTS = z.object({
  items: z.array(z.object({ day: z.string(), entries: z.number() })),
});

/** How many entries match a filter on each day of a range that has some. */
export interface EntryCounts extends Days, z.infer<typeof COUNTS> {}

async function readCounts(filter: LogFilter, signal: AbortSignal): Promise<EntryCounts> {
  const { items } = await call(COUNTS, "daily_entry_counts", queryOf(filter), signal);
  return { start: filter.start, end: filter.end, items };
}

export function useEntryCounts(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "counts", filter],
    queryFn: ({ signal }) => readCounts(filter, signal),
    placeholderData: keepPreviousData,
  });
}

/** A day that has entries or a seal. */
export interface LogDay {
  day: string;
  entries: number;
  seal: Seal | undefined;
  /** What the seals of the day declare after its first one. */
  added: number;
  removed: number;
  state: SealState;
  /** When it was found altered. */
  alteredAt: string | undefined;
  /** The later day that was sealed before it, when it was empty. */
  sealedAfter: string | undefined;
}

/** A range of days. Those without entries or a seal are left out of `days`. */
export interface LogDays
  extends Days, Omit<SealPage, "total" | "altered" | "altered_at" | "sealed_after" | "items"> {
  days: LogDay[];
}

async function readDays(filter: LogFilter, signal: AbortSignal): Promise<LogDays> {
  const { start, end } = filter;
  const [{ items }, { total: _, items: allSeals, altered, altered_at, sealed_after, ...orders }] =
    await Promise
      .all([readCounts(filter, signal), readSeals(filter, signal)]);
  // The latest seal of each day that has one.
  const seals = new Map(allSeals.map((seal) => [seal.day, seal]));
  const declared = new Map<string, Pick<LogDay, "added" | "removed">>();
  for (const { day, added, removed } of allSeals) {
    const before = declared.get(day) ?? { added: 0, removed: 0 };
    declared.set(day, { added: before.added + added, removed: before.removed + removed });
  }
  const counts = new Map(items.map(({ day, entries }) => [day, entries]));
  const days = [...new Set([...counts.keys(), ...seals.keys(), ...altered])].sort()
    .map((day): LogDay => {
      const seal = seals.get(day);
      const entries = counts.get(day) ?? 0;
      const alteredAt = altered_at?.[day];
      const state = alteredAt ? "altered" : seal ? "sealed" : "open";
      const { added = 0, removed = 0 } = declared.get(day) ?? {};
      const sealedAfter = sealed_after?.[day];
      return { day, entries, seal, added, removed, state, alteredAt, sealedAfter };
    });
  return { start, end, days, ...orders };
}

/** The days of a range. Until the answer comes, the query returns those of the range before. */
export function useLogDays(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "days", filter],
    queryFn: ({ signal }) => readDays(filter, signal),
    placeholderData: keepPreviousData,
    staleTime: STALE_MS,
  });
}
