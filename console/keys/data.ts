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

export function isLive({ state }: ApiKey): boolean {
  return state === "active" || state === "expiring";
}

const REFRESH_INTERVAL_MS = 10_000;
/** Added up over all keys: a list of 1,200 weighs half a megabyte, and is read every two minutes. */
const INTERVAL_OF_A_KEY_MS = 100;

/** All keys of the organization, active ones first, then the latest first. The list refreshes by itself. */
export function useApiKeys(interval?: number) {
  const { id } = useOrganization();
  return useQuery({
    queryKey: ["keys", id],
    queryFn: ({ signal }) =>
      call(z.array(API_KEY), "list_api_keys", { organization_id: id }, signal),
    // Paused while the tab is hidden.
    refetchInterval: ({ state: { data } }) =>
      interval ?? Math.max(REFRESH_INTERVAL_MS, (data?.length ?? 0) * INTERVAL_OF_A_KEY_MS),
    // An answer that is the same also draws the list again: "2 minutes ago" has become wrong.
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

// The caller chooses the id of a new key, so that asking again makes no second one. Only the answer has the token.

export function useCreateKey() {
  return useChange((organization_id, request: Own<"create_api_key">) =>
    call(NEW_API_KEY, "create_api_key", { organization_id, ...request })
  );
}

export function useRotateKey() {
  return useChange((organization_id, request: Own<"rotate_api_key">) =>
    call(NEW_API_KEY, "rotate_api_key", { organization_id, ...request })
  );
}

export function useRevokeKey() {
  return useChange((organization_id, request: Own<"revoke_api_key">) =>
    call(z.unknown(), "revoke_api_key", { organization_id, ...request })
  );
}

/** The arguments of a function without the organization's id. */
type Own<Name extends "create_api_key" | "rotate_api_key" | "revoke_api_key"> = Omit<
  Arguments<Name>,
  "organization_id"
>;

/** Changes the organization's keys, then reads the list again, which shows what became of a lost answer. */
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
