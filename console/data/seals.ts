import { queryOptions, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { call, SHOWN } from "./call.ts";
import { type LogFilter, queryOf } from "./entries.ts";

// Loose, because the file of seals has all that the API says of a seal.
const SEAL = z.looseObject({
  sequence: z.number(),
  day: z.string(),
  entries: z.number(),
  added: z.number(),
  removed: z.number(),
  sealed_at: z.string(),
  seal: z.string(),
});
export type Seal = z.infer<typeof SEAL>;

const SEAL_PAGE = z.object({
  total: z.number(),
  altered: z.array(z.string()),
  items: z.array(SEAL),
  /** When each altered day was found; null if there is none. */
  altered_at: z.nullable(z.record(z.string(), z.string())),
  /** Of each day that was first sealed after a later one: that day; null if there is none. */
  sealed_after: z.nullable(z.record(z.string(), z.string())),
  keep_days: z.nullable(z.number()),
  hold_reason: z.nullable(SHOWN),
});
export type SealPage = z.infer<typeof SEAL_PAGE>;

/** Whether a day is as it was sealed. */
export const SEAL_STATES = {
  altered: { name: "Altered", colour: "var(--bad)" },
  open: { name: "Not yet sealed", colour: "var(--waiting)" },
  sealed: { name: "Sealed", colour: "var(--good)" },
} as const;
export type SealState = keyof typeof SEAL_STATES;

const PAGE_SIZE = 1000;

/** Reads all seals of some days, as one answer. */
export async function readSeals(days: LogFilter, signal?: AbortSignal): Promise<SealPage> {
  const items: Seal[] = [];
  for (;;) {
    const query = queryOf(days, { page_limit: PAGE_SIZE, page_offset: items.length });
    const page = await call(SEAL_PAGE, "list_seals", query, signal);
    items.push(...page.items);
    if (page.items.length === 0 || items.length >= page.total) return { ...page, items };
  }
}

/** The upkeep seals days at night, so seals are read again after this time, or when a person refreshes. */
export const STALE_MS = 5 * 60_000;

/** The seals of some days, with what the organization keeps. */
export function sealsQuery({ organizationId, start, end }: LogFilter) {
  return queryOptions({
    queryKey: ["log", organizationId, "seals", start, end],
    queryFn: ({ signal }) => readSeals({ organizationId, start, end }, signal),
    staleTime: STALE_MS,
  });
}

export const ALL_DAYS = { start: "0001-01-01", end: "9999-12-31" };

function keptQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["log", organizationId, "kept"],
    queryFn: ({ signal }) => {
      const query = queryOf({ organizationId, ...ALL_DAYS }, { page_limit: 1 });
      return call(SEAL_PAGE, "list_seals", query, signal);
    },
    staleTime: STALE_MS,
  });
}

/** What an organization keeps: its retention and its hold. */
export function useKept(organizationId: string) {
  return useQuery(keptQuery(organizationId));
}

/** The days of the whole log whose entries were changed after sealing. */
export function useAlteredDays(organizationId: string) {
  return useQuery({ ...keptQuery(organizationId), select: ({ altered }) => altered });
}

/** The end of the organization's chain of seals. With a copy of it, a person can check all the others. */
export function useLatestSeal(organization_id: string) {
  return useQuery({
    queryKey: ["latest seal", organization_id],
    queryFn: ({ signal }) => call(z.nullable(SEAL), "latest_seal", { organization_id }, signal),
  });
}
