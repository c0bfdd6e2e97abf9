// Writes the audit log, and manages its API keys, with types. Copy it to your server, as docs/logging.md says.
import type { SupabaseClient } from "@supabase/supabase-js";

/** For whom the server acts. Take `id` and `email` from a session that it has verified, never from a form. */
export type Person = { id?: string; email?: string; address?: string; agent?: string };
type Act<More> = More & { organization: string; person?: Person };
/** `target` is the id of what it was done to. To repeat a call safely, give `id` and `created_at`, the same each time. */
type Entry<Action> =
  & Act<{ action: Action; data?: Record<string, unknown> }>
  & Partial<Record<"target" | "target_name" | "agent_name" | "id" | "created_at", string>>;

type Key<Texts extends string, Others extends string> =
  & Record<"id" | "name" | "hint" | "created_at" | Texts, string>
  & Record<Others, string | null>;
export type NewApiKey = Key<"organization_id" | "token", "expires_at">;
export type RevokedApiKey = Key<"organization_id" | "revoked_at", "revoked_by_email">;
export type ListedApiKey =
  & Key<never, "created_by_email" | "expires_at" | "ended_at" | "revoked_at" | "revoked_by_email">
  & Key<never, "successor_id" | "owner_left_at" | "last_used_at" | "read_mode" | "caught_up_at">
  & { state: "active" | "expiring" | "expired" | "revoked" }
  & { requests_last_minute: number; quota: number };

/** The person of a session, with the address and the agent that the headers of a request say. */
export function personOf({ id = "", email = "" }: Person, asked: Pick<Headers, "get">): Person {
  const address = asked.get("x-forwarded-for")?.split(",")[0] ?? "";
  return { id, email, address, agent: asked.get("user-agent") ?? "" };
}

/** For `global.headers` of a client with the secret key: its writes are for this person. */
export const headersFor = ({ id = "", email = "", address = "", agent = "" }: Person) => ({
  "X-Audit-Person": encodeURIComponent(email),
  "X-Audit-Person-Id": encodeURIComponent(id),
  "X-Audit-Person-Address": encodeURIComponent(address),
  "X-Audit-Person-Agent": encodeURIComponent(agent),
});

/** Needs a client with the secret key. Acts for `person`, or for whom its headers say. Throws what the log refuses. */
export function createAuditLog<Action extends string>(client: Pick<SupabaseClient, "schema">) {
  async function call<Answer>(name: string, given: object, person?: Person): Promise<Answer> {
    const request = client.schema("audit_log").rpc(name, given);
    const headers: Record<string, string> = person ? headersFor(person) : {};
    for (const header of Object.entries(headers)) request.setHeader(...header);
    return (await request.throwOnError()).data;
  }
  const forKeys =
    <Given, Answer>(name: string) => ({ organization, person, ...given }: Act<Given>) =>
      call<Answer>(name, { organization_id: organization, ...given }, person);
  return {
    /** Returns 1, or 0 if the entry is there already. By default, `agent_name` is the `target_name`. */
    record({ agent_name, person, ...entry }: Entry<Action>): Promise<number> {
      const name = [...agent_name || entry.target_name || "unnamed"].slice(0, 200).join("");
      return call("record_entries", { entries: [{ ...entry, agent_name: name }] }, person);
    },
    createApiKey: forKeys<{ name: string; expires_at?: string }, NewApiKey>("create_api_key"),
    listApiKeys: forKeys<object, ListedApiKey[]>("list_api_keys"),
    /** The old key works for the `overlap`, such as "7 days"; without it, 24 hours. */
    rotateApiKey: forKeys<{ api_key_id: string; overlap?: string }, NewApiKey>("rotate_api_key"),
    revokeApiKey: forKeys<{ api_key_id: string }, RevokedApiKey>("revoke_api_key"),
  };
}
