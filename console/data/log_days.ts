import { keepPreviousData, type QueryClient, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { countDays, type Days } from "../shared/days.ts";
import { call } from "./call.ts";
import { type LogFilter, queryOf } from "./entries.ts";
import { type Seal, type SealPage, sealsQuery, type SealState } from "./seals.ts";

const COUNTS = z.object({
  items: z.array(z.object({ day: z.string(), hour: z.optional(z.number()), entries: z.number() })),
});

const MAX_DAYS_BY_HOUR = 7;

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
}

/** A range of days. Those without entries or a seal are left out of `days`. */
export interface LogDays
  extends Days, Omit<SealPage, "total" | "altered" | "altered_at" | "items"> {
  days: LogDay[];
  /** Entries by day, and of a short range by hour. */
  counts: z.infer<typeof COUNTS>["items"];
  isByHour: boolean;
}

async function readDays(
  filter: LogFilter,
  { client, signal }: { client: QueryClient; signal: AbortSignal },
): Promise<LogDays> {
  const { start, end } = filter;
  const by_hour = countDays(filter) <= MAX_DAYS_BY_HOUR;
  const [{ items }, { total: _, items: allSeals, altered, altered_at, ...orders }] = await Promise
    .all([
      call(COUNTS, "daily_entry_counts", { ...queryOf(filter), by_hour }, signal),
      client.fetchQuery(sealsQuery(filter)),
    ]);
  // The latest seal of each day that has one.
  const seals = new Map(allSeals.map((seal) => [seal.day, seal]));
  const declared = new Map<string, Pick<LogDay, "added" | "removed">>();
  for (const { day, added, removed } of allSeals) {
    const before = declared.get(day) ?? { added: 0, removed: 0 };
    declared.set(day, { added: before.added + added, removed: before.removed + removed });
  }
  const counts = new Map<string, number>();
  for (const { day, entries } of items) counts.set(day, (counts.get(day) ?? 0) + entries);
  const days = [...new Set([...counts.keys(), ...seals.keys(), ...altered])].sort()
    .map((day): LogDay => {
      const seal = seals.get(day);
      const entries = counts.get(day) ?? 0;
      const alteredAt = altered_at?.[day];
      const state = alteredAt ? "altered" : seal ? "sealed" : "open";
      const { added = 0, removed = 0 } = declared.get(day) ?? {};
      return { day, entries, seal, added, removed, state, alteredAt };
    });
  return { start, end, days, counts: items, isByHour: by_hour, ...orders };
}

/** The days of a filter. Until the answer comes, the query returns those of the filter before. */
export function useLogDays(filter: LogFilter) {
  return useQuery({
    queryKey: ["log", filter.organizationId, "days", filter],
    queryFn: (context) => readDays(filter, context),
    placeholderData: keepPreviousData,
  });
}
