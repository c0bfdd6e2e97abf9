import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { parseSaved } from "../../cli/seals/judge.ts";
import { checkChain, isSeal, type Seal as Chained } from "../../cli/seals/seal_chain.ts";
import { call, check, SHOWN } from "./call.ts";
import { queryOf } from "./entries.ts";

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
  /** How many days have a seal, and the end of the chain. With a copy of that, a person can check all the others. */
  days: z.number(),
  latest: z.nullable(SEAL),
});
export type SealPage = z.infer<typeof SEAL_PAGE>;

const PAGE_SIZE = 1000;

const ALL_DAYS = { start: "0001-01-01", end: "9999-12-31" };

/** Reads all seals, as one answer. */
export async function readSeals(organizationId: string, signal?: AbortSignal): Promise<SealPage> {
  const items: Seal[] = [];
  for (;;) {
    const page = { page_limit: PAGE_SIZE, page_offset: items.length };
    const query = queryOf({ organizationId, ...ALL_DAYS }, page);
    const answer = await call(SEAL_PAGE, "list_seals", query, signal);
    items.push(...answer.items);
    if (answer.items.length === 0 || items.length >= answer.total) return { ...answer, items };
  }
}

/** The upkeep seals days at night, so seals are read again after this time, or when a person refreshes. */
const STALE_MS = 5 * 60_000;

/** What an organization keeps: its retention, its hold, and its seals in short, with the first of them. */
export function useKept(organizationId: string) {
  return useQuery({
    queryKey: ["log", organizationId, "kept"],
    queryFn: ({ signal }) => {
      const query = queryOf({ organizationId, ...ALL_DAYS }, { page_limit: 1 });
      return call(SEAL_PAGE, "list_seals", query, signal);
    },
    staleTime: STALE_MS,
  });
}

export interface SealedDay {
  seal: Seal;
  /** What its seals declare after the first one. */
  added: number;
  removed: number;
  alteredAt: string | undefined;
  /** The later day that was sealed before it, when it was empty. */
  sealedAfter: string | undefined;
}

export function useSealedDays(organizationId: string) {
  return useQuery({
    queryKey: ["log", organizationId, "seals"],
    queryFn: ({ signal }) => readSeals(organizationId, signal),
    select: sealedDays,
    staleTime: STALE_MS,
  });
}

function sealedDays({ items, altered_at, sealed_after }: SealPage): SealedDay[] {
  const days = new Map<string, SealedDay>();
  for (const seal of items) {
    const { added = 0, removed = 0 } = days.get(seal.day) ?? {};
    days.set(seal.day, {
      seal,
      added: added + seal.added,
      removed: removed + seal.removed,
      alteredAt: altered_at?.[seal.day],
      sealedAfter: sealed_after?.[seal.day],
    });
  }
  return [...days.values()].sort((a, b) => a.seal.day < b.seal.day ? 1 : -1);
}

export function savedSeal({ sequence, seal }: Seal): string {
  return `${sequence}:${seal}`;
}

/** Checks that the chain is whole, and has a seal that somebody saved. Null if that text is none. */
export function useSavedSeal(organizationId: string, text: string) {
  return useQuery({
    queryKey: ["log", organizationId, "saved", text],
    queryFn: async ({ signal }) => {
      const saved = parseSaved(text);
      if (!saved) return null;
      const page = await readSeals(organizationId, signal);
      const seals = check(z.array(z.custom<Chained>(isSeal)), page.items);
      const { problems, notes } = await checkChain(seals, saved);
      const altered = page.altered.map((day) => `${day} was altered after sealing`);
      return {
        problems: [...altered, ...problems.map(({ text }) => text)].slice(0, MOST_SHOWN),
        changes: notes.filter(({ code }) => code === "sealed_again").map(({ text }) => text)
          .slice(0, MOST_SHOWN),
      };
    },
  });
}

/** Of the lines that a check of a saved seal may have: one that fails may have one for each seal. */
const MOST_SHOWN = 10;
