import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { dayOf, formatSeconds, secondsSince } from "../shared/days.ts";
import { fetchInTime, PROJECT_URL } from "../shared/transport.ts";
import { call, SHOWN } from "./call.ts";
import { useChange } from "./change.ts";
import { useOrganization } from "./organizations.ts";

const DESTINATION = z.object({
  kind: z.string(),
  url: SHOWN,
  /** For a webhook: `ndjson` or `array`. */
  body: z.optional(z.string()),
  /** For a bucket. */
  region: z.optional(SHOWN),
});
export type Destination = z.infer<typeof DESTINATION>;

const STREAM = z.object({
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
  created_by_email: z.nullable(SHOWN),
  maker_left_at: z.nullable(z.string()),
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
  since: z.nullable(z.string()),
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
  entries_left: z.nullable(z.number()),
  refused: z.number(),
  hours: z.array(z.object({ hour: z.string(), entries: z.number(), failures: z.number() })),
});
export type Stream = z.infer<typeof STREAM>;

const STREAM_DETAIL = z.object({
  stream: STREAM,
  attempts: z.array(z.object({
    at: z.string(),
    /** entries, again, seals or test. */
    what: z.string(),
    entries: z.number(),
    bytes: z.number(),
    ms: z.number(),
    status: z.nullable(z.number()),
    error: z.nullable(SHOWN),
  })),
  refused: z.array(z.object({
    created_at: z.string(),
    id: z.string(),
    refused_at: z.string(),
    reason: z.nullable(SHOWN),
    is_asked_again: z.boolean(),
  })),
});
export type StreamDetail = z.infer<typeof STREAM_DETAIL>;
export type Attempt = StreamDetail["attempts"][number];
export type RefusedEntry = StreamDetail["refused"][number];

const REFRESH_INTERVAL_MS = 30_000;
/** While something is expected. */
const SHORT_INTERVAL_MS = 5_000;

/** All streams of an organization, those in trouble first. The list refreshes by itself. */
export function useStreams(organization_id: string) {
  return useQuery({
    queryKey: ["streams", organization_id],
    queryFn: async ({ signal }) => {
      const streams = await call(z.array(STREAM), "list_streams", { organization_id }, signal);
      return streams.sort((a, b) => Number(isInTrouble(b)) - Number(isInTrouble(a)));
    },
    refetchInterval: ({ state: { data } }) =>
      data?.some(isInTrouble) ? SHORT_INTERVAL_MS : REFRESH_INTERVAL_MS,
    // As for keys.
    notifyOnChangeProps: "all",
  });
}

/** Whether nothing arrives although it should. */
export function isInTrouble({ state }: Stream): boolean {
  return ["failing", "stalled", "test_failed", "restored"].includes(state);
}

/** How long nothing has arrived. */
export function silence({ since, delivered_at, created_at }: Stream): string {
  return formatSeconds(secondsSince(delivered_at ?? since ?? created_at));
}

/** Says whether entries that wait are lost some day. */
export function promise({ loses_entries_at }: Stream): string {
  return loses_entries_at
    ? `Nothing is lost: entries wait until ${dayOf(loses_entries_at)}, when retention begins to ` +
      "delete them."
    : "Nothing is lost: entries wait in the log.";
}

/** A stream with its last attempts and the entries that are set aside. */
export function useStream(stream_id: string) {
  const { id: organization_id } = useOrganization();
  return useQuery({
    queryKey: ["streams", organization_id, stream_id],
    queryFn: ({ signal }) => {
      return call(STREAM_DETAIL, "read_stream", { organization_id, stream_id }, signal);
    },
    refetchInterval: SHORT_INTERVAL_MS,
    notifyOnChangeProps: "all",
  });
}

type Change =
  | "create_stream"
  | "change_stream"
  | "retry_stream"
  | "pause_stream"
  | "resume_stream"
  | "delete_stream";

export function useStreamChange<Name extends Change>(name: Name) {
  return useChange(name, z.unknown(), "streams");
}

/** The public key of the Edge Function that delivers; null if it does not answer, as when it is not deployed. */
export function usePublicKey() {
  return useQuery({
    queryKey: ["public key of streams"],
    queryFn: async ({ signal }) => {
      const url = `${PROJECT_URL}/functions/v1/audit-log-streams`;
      const answer: unknown = await fetchInTime(url, { signal }).then((response) => response.json())
        .catch(() => null);
      return z.safeParse(z.object({ public_key: z.string() }), answer).data?.public_key ?? null;
    },
  });
}
