import { keepPreviousData, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import type { Days } from "../shared/days.ts";
import { call } from "./call.ts";
import { type LogFilter, queryOf } from "./entries.ts";

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
