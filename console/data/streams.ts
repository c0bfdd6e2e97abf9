import { queryOptions, useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { DAY_MS, dayOf, formatRelative, now } from "../shared/days.ts";
import type { RequestError } from "../shared/transport.ts";
import { call, SHOWN } from "./call.ts";

const DESTINATION = z.object({
  kind: z.string(),
  url: SHOWN,
  /** For a webhook: `ndjson` or `array`. */
  body: z.optional(z.string()),
  /** For a bucket. */
  region: z.optional(SHOWN),
});
export type Destination = z.infer<typeof DESTINATION>;

export const STREAM = z.object({
  id: z.string(),
  name: SHOWN,
  destination: DESTINATION,
  /** The end of its secret. */
  hint: z.nullable(SHOWN),
  signs_both_until: z.nullable(z.string()),
  /** Null means all. */
  actions: z.nullable(z.array(z.string())),
  includes_seals: z.boolean(),
  created_at: z.string(),
  /** The person who created, changed or resumed it last. */
  owner_email: z.nullable(SHOWN),
  owner_left_at: z.nullable(z.string()),
  state: z.enum([
    "testing",
    "test_failed",
    "catching_up",
    "up_to_date",
    "retrying",
    "failing",
    "paused",
    "stalled",
    "restored",
  ]),
  /** Since when it is paused, or has failed. */
  state_since: z.nullable(z.string()),
  paused_by: z.nullable(SHOWN),
  paused_why: z.nullable(SHOWN),
  failures: z.number(),
  last_error: z.nullable(SHOWN),
  last_status: z.nullable(z.number()),
  next_try_at: z.nullable(z.string()),
  delivered_at: z.nullable(z.string()),
  /** What was committed before is delivered. */
  caught_up_at: z.nullable(z.string()),
  /** When retention deletes what is not delivered. */
  loses_entries_at: z.nullable(z.string()),
  entries: z.number(),
  entries_rejected: z.number(),
});
export type Stream = z.infer<typeof STREAM>;

const REFRESH_INTERVAL_MS = 30_000;
export const SHORT_INTERVAL_MS = 5_000;

/** PostgREST's code for a function that is not there. */
const NO_FUNCTION = "PGRST202";

/** All streams of an organization, those in trouble first. Null where the service is installed without streams. */
function streamsOf(organization_id: string) {
  return queryOptions({
    queryKey: ["streams", organization_id],
    queryFn: async ({ signal }) => {
      const streams = await call(z.array(STREAM), "list_streams", { organization_id }, signal)
        .catch((error: RequestError) => {
          if (error.code === NO_FUNCTION) return null;
          throw error;
        });
      return streams?.sort((a, b) => Number(isInTrouble(b)) - Number(isInTrouble(a))) ?? null;
    },
    refetchInterval: ({ state: { data } }) =>
      data !== null && (data?.some(isInTrouble) ? SHORT_INTERVAL_MS : REFRESH_INTERVAL_MS),
  });
}

export function useStreams(organization_id: string) {
  // As for keys.
  return useQuery({
    ...streamsOf(organization_id),
    select: (streams) => streams ?? [],
    notifyOnChangeProps: "all",
  });
}

export function useHasStreams(organization_id: string, enabled = true): boolean {
  const select = (streams: Stream[] | null) => streams !== null;
  return useQuery({ ...streamsOf(organization_id), enabled, select }).data ?? true;
}

/** How long before retention deletes what a stream has not delivered people are told. */
const SOON_MS = 7 * DAY_MS;

/** Whether nothing arrives although it should, or retention is about to delete what waits. */
export function isInTrouble({ state, paused_by, loses_entries_at }: Stream): boolean {
  // Without a person, it was its destination that paused it.
  return ["failing", "stalled", "test_failed", "restored"].includes(state) ||
    state === "paused" && paused_by === null ||
    loses_entries_at !== null && Date.parse(loses_entries_at) < now() + SOON_MS;
}

/** Says what becomes of the entries that wait. */
export function promise({ loses_entries_at: at }: Stream): string {
  const isSafe = "Nothing is lost: entries wait in the log.";
  if (at === null) return isSafe;
  const time = Date.parse(at);
  if (time > now() + SOON_MS) return `${isSafe} Retention begins to delete them on ${dayOf(at)}.`;
  return time < now()
    ? "Entries wait, and retention deletes the oldest of them every night."
    : `Entries wait. Retention begins to delete them ${formatRelative(at)}, on ${dayOf(at)}.`;
}
