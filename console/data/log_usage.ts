import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import type { Days } from "../shared/days.ts";
import { call, SHOWN } from "./call.ts";
import type { ApiKey } from "./api_keys.ts";
import { useOrganization } from "./organizations.ts";

const REFRESH_INTERVAL_MS = 60_000;

const USAGE = z.object({
  day: z.string(),
  api_key_id: z.nullable(z.string()),
  name: z.nullable(SHOWN),
  /** A person's id, or `stream ID to HOST of PERSON`. */
  user_id: z.nullable(z.string()),
  user_email: z.nullable(SHOWN),
  requests: z.number(),
  invalid_requests: z.number(),
  entries: z.number(),
  first_at: z.string(),
  last_at: z.string(),
  last_address: z.nullable(z.string()),
});
export type Usage = z.infer<typeof USAGE>;

export function useUsage({ start, end }: Days) {
  const { id } = useOrganization();
  const days = { organization_id: id, start_date: start, end_date: end };
  return useQuery({
    queryKey: ["keys", id, "usage", start, end],
    queryFn: ({ signal }) => call(z.array(USAGE), "api_key_usage", days, signal),
    refetchInterval: REFRESH_INTERVAL_MS,
  });
}

/** A key, a person or a stream, with what they read on several days. */
export interface Reader extends Omit<Usage, "day" | "name"> {
  id: string;
  name: string;
  /** "Person", where a stream goes, or which key. */
  kind: string;
}

export function readersOf(usage: Usage[], keys: ApiKey[]): Reader[] {
  const hints = new Map(keys.map(({ id, hint }) => [id, hint]));
  const readers = new Map<string, Reader>();
  for (const read of usage) {
    const isPerson = read.user_id !== null;
    const id = isPerson ? `person ${read.user_id}` : `key ${read.api_key_id}`;
    const before = readers.get(id);
    readers.set(id, {
      ...read,
      id,
      name: (isPerson ? read.user_email ?? read.user_id : read.name) ?? "A deleted key",
      kind: read.user_id?.startsWith("stream ")
        ? `Destination ${read.user_id.split(" ")[3]}`
        : isPerson
        ? "Person"
        : `API key ${hints.get(read.api_key_id ?? "") ?? ""}`,
      requests: read.requests + (before?.requests ?? 0),
      invalid_requests: read.invalid_requests + (before?.invalid_requests ?? 0),
      entries: read.entries + (before?.entries ?? 0),
      first_at: before?.first_at ?? read.first_at,
      last_address: read.last_address ?? before?.last_address ?? null,
    });
  }
  return [...readers.values()].sort((a, b) => Date.parse(b.last_at) - Date.parse(a.last_at));
}
