import { useQuery } from "@tanstack/react-query";
import * as z from "zod/mini";
import { call, SHOWN } from "./call.ts";
import { useChange } from "./change.ts";
import { useOrganization } from "./organizations.ts";

const API_KEY = z.object({
  id: z.string(),
  name: SHOWN,
  hint: z.string(),
  created_at: z.string(),
  created_by_email: z.nullable(SHOWN),
  revoked_at: z.nullable(z.string()),
  revoked_by_email: z.nullable(SHOWN),
  expires_at: z.nullable(z.string()),
  successor_id: z.nullable(z.string()),
  /** When the person who created it left the organization. */
  owner_left_at: z.nullable(z.string()),
  state: z.enum(["active", "expiring", "expired", "revoked"]),
  last_used_at: z.nullable(z.string()),
  /** How it last read entries. */
  read_mode: z.nullable(z.enum(["feed", "pages"])),
  requests_last_minute: z.number(),
  quota: z.number(),
});
export type ApiKey = z.infer<typeof API_KEY>;

const REFRESH_INTERVAL_MS = 10_000;

/** All keys of the organization, live ones first, then the latest first. The list refreshes by itself. */
export function useApiKeys() {
  const { id, is_admin } = useOrganization();
  return useQuery({
    queryKey: ["keys", id],
    enabled: is_admin,
    queryFn: ({ signal }) =>
      call(z.array(API_KEY), "list_api_keys", { organization_id: id }, signal),
    // Paused while the tab is hidden.
    refetchInterval: REFRESH_INTERVAL_MS,
    // Draws the list again after the same answer, too, because "2 minutes ago" has become wrong.
    notifyOnChangeProps: "all",
  });
}

/** A key with its token, which no later answer has. */
const NEW_API_KEY = z.extend(z.pick(API_KEY, { id: true, name: true, hint: true }), {
  token: z.string(),
});
export type NewApiKey = z.infer<typeof NEW_API_KEY>;

export function useNewKey<Name extends "create_api_key" | "rotate_api_key">(name: Name) {
  return useChange(name, NEW_API_KEY, {
    list: "keys",
    ifLost: "The key may exist anyway. Try again here: this creates no second key.",
    ifMade: "An earlier attempt made this key, but its token was lost. " +
      "Close this, revoke the key in the list, and create another.",
  });
}

export function useRevocation() {
  const ifLost = "The key may already be revoked. Trying again does no harm.";
  return useChange("revoke_api_key", z.unknown(), { list: "keys", ifLost });
}
