import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import * as z from "zod/mini";
import { useOrganization } from "../shell/organization.ts";
import { type Arguments, call } from "../shared/transport.ts";

const API_KEY = z.object({
  id: z.string(),
  name: z.string(),
  hint: z.string(),
  created_at: z.string(),
  created_by_email: z.nullable(z.string()),
  revoked_at: z.nullable(z.string()),
  revoked_by_email: z.nullable(z.string()),
  expires_at: z.nullable(z.string()),
  successor_id: z.nullable(z.string()),
  state: z.enum(["active", "expiring", "expired", "revoked"]),
  last_used_at: z.nullable(z.string()),
  /** How it last read entries. */
  reads: z.nullable(z.enum(["feed", "pages"])),
  /** When the feed last had no more for it. */
  caught_up_at: z.nullable(z.string()),
  requests_last_minute: z.number(),
  /** Requests that the key may make in a minute. */
  quota: z.number(),
});
export type ApiKey = z.infer<typeof API_KEY>;

/** Whether requests with a key are answered. */
export function isLive({ state }: ApiKey): boolean {
  return state === "active" || state === "expiring";
}

const REFRESH_INTERVAL_MS = 10_000;
/** So long for each key: a list of 1,200 weighs half a megabyte, and is read every two minutes. */
const INTERVAL_OF_A_KEY_MS = 100;

/** All keys of the organization, active ones first, then the latest first; read again by itself. */
export function useApiKeys(interval?: number) {
  const { id } = useOrganization();
  return useQuery({
    queryKey: ["keys", id],
    queryFn: ({ signal }) =>
      call(z.array(API_KEY), "list_api_keys", { organization_id: id }, signal),
    // Paused while the tab is hidden.
    refetchInterval: ({ state: { data } }) =>
      interval ?? Math.max(REFRESH_INTERVAL_MS, (data?.length ?? 0) * INTERVAL_OF_A_KEY_MS),
    // Also when the answer is the same: "2 minutes ago" has become wrong.
    notifyOnChangeProps: "all",
  });
}

const NEW_API_KEY = z.object({
  id: z.string(),
  name: z.string(),
  hint: z.string(),
  token: z.string(),
});
export type NewApiKey = z.infer<typeof NEW_API_KEY>;

/** Makes a key with the caller's id, so that asking again makes no second one. Only this answer has its token. */
export function useCreateKey() {
  return useChange((organization_id, request: Own<"create_api_key">) =>
    call(NEW_API_KEY, "create_api_key", { organization_id, ...request })
  );
}

/** Makes the successor of a key, with the caller's id. Only this answer has its token. */
export function useRotateKey() {
  return useChange((organization_id, request: Own<"rotate_api_key">) =>
    call(NEW_API_KEY, "rotate_api_key", { organization_id, ...request })
  );
}

/** Revokes a key. Revoking again changes nothing. */
export function useRevokeKey() {
  return useChange((organization_id, request: Own<"revoke_api_key">) =>
    call(z.unknown(), "revoke_api_key", { organization_id, ...request })
  );
}

type Change = "create_api_key" | "rotate_api_key" | "revoke_api_key";
/** The arguments that are not the organization's. */
type Own<Name extends Change> = Omit<Arguments<Name>, "organization_id">;

/** A change of the organization's keys. What became of one that got no answer shows in the list, too. */
function useChange<Request, Answer>(
  ask: (organizationId: string, request: Request) => Promise<Answer>,
) {
  const client = useQueryClient();
  const { id } = useOrganization();
  return useMutation({
    mutationFn: (request: Request) => ask(id, request),
    onSettled: () => client.invalidateQueries({ queryKey: ["keys", id] }),
  });
}
