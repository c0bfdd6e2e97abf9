import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { fetchInTime, PROJECT_URL } from "../shared/transport.ts";
import { call, SHOWN } from "./call.ts";
import { useChange } from "./change.ts";
import { useOrganization } from "./organizations.ts";
import { SHORT_INTERVAL_MS, STREAM } from "./streams.ts";

const STREAM_DETAIL = z.object({
  stream: STREAM,
  attempts: z.array(z.object({
    at: z.string(),
    /** entries, seals or test. */
    what: z.string(),
    entries: z.number(),
    bytes: z.number(),
    ms: z.number(),
    status: z.nullable(z.number()),
    error: z.nullable(SHOWN),
  })),
  rejected: z.array(z.object({
    created_at: z.string(),
    id: z.string(),
    answer: z.nullable(SHOWN),
  })),
});
export type StreamDetail = z.infer<typeof STREAM_DETAIL>;
export type Attempt = StreamDetail["attempts"][number];
export type Rejected = StreamDetail["rejected"][number];

/** While somebody waits for a test. */
const TEST_INTERVAL_MS = 1_000;

/** A stream with its last attempts and the entries that its destination rejected. */
export function useStream(stream_id: string) {
  const { id: organization_id } = useOrganization();
  return useQuery({
    queryKey: ["streams", organization_id, stream_id],
    queryFn: ({ signal }) => {
      return call(STREAM_DETAIL, "read_stream", { organization_id, stream_id }, signal);
    },
    refetchInterval: ({ state: { data } }) =>
      data?.stream.state === "testing" ? TEST_INTERVAL_MS : SHORT_INTERVAL_MS,
    notifyOnChangeProps: "all",
  });
}

type Change = `${"create" | "change" | "retry" | "pause" | "resume" | "delete"}_stream`;

export function useStreamChange<Name extends Change>(name: Name) {
  return useChange(name, z.unknown(), {
    list: "streams",
    ifLost: "It may have happened anyway. Trying again is safe.",
    ifMade: "An earlier attempt made this destination: it is in the list.",
  });
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
