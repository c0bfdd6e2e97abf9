import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { type Arguments, call } from "../shared/transport.ts";

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
  holds: z.array(z.object({ reason: z.string(), held_by: z.string(), held_at: z.string() })),
});

export interface Sealing extends Pick<z.infer<typeof SEAL_PAGE>, "keep_days" | "holds"> {
  /** The latest seal of each day that has one. */
  seals: Map<string, Seal>;
  /** Days whose entries differ from their seal, while no seal declares the change. */
  altered: Set<string>;
}

const PAGE_SIZE = 1000;

/** Reads all seals of some days. `pageOf` makes the arguments for a page of them. */
export async function readSeals(
  pageOf: (page: { page_limit: number; page_offset: number }) => Arguments<"list_seals">,
  signal: AbortSignal,
): Promise<Sealing> {
  const seals = new Map<string, Seal>();
  const altered = new Set<string>();
  for (let offset = 0;;) {
    const query = pageOf({ page_limit: PAGE_SIZE, page_offset: offset });
    const page = await call(SEAL_PAGE, "list_seals", query, signal);
    for (const seal of page.items) seals.set(seal.day, seal);
    for (const day of page.altered) altered.add(day);
    offset += PAGE_SIZE;
    if (offset >= page.total) return { ...page, seals, altered };
  }
}

/** The end of the organization's chain of seals. With a copy of it, a person can check all the others. */
export function useLatestSeal(organization_id: string) {
  return useQuery({
    queryKey: ["latest seal", organization_id],
    queryFn: ({ signal }) => call(z.nullable(SEAL), "latest_seal", { organization_id }, signal),
  });
}

/** Whether a day is as it was sealed. The worst state comes first. */
export const SEAL_STATES = {
  altered: { name: "Altered after sealing", colour: "var(--bad)" },
  open: { name: "Not yet sealed", colour: "var(--waiting)" },
  sealed: { name: "Sealed", colour: "var(--good)" },
  empty: { name: "", colour: "transparent" },
} as const;
export type SealState = keyof typeof SEAL_STATES;

export function sealState(
  day: string,
  { counts, seals, altered }: Sealing & { counts: Map<string, number> },
): SealState {
  if (altered.has(day)) return "altered";
  if (seals.has(day)) return "sealed";
  return counts.has(day) ? "open" : "empty";
}
