// Writes the audit log, and manages its API keys, with types: copy this file to where your server imports it.
// docs/logging.md says how, in "A server that writes for people".

import type { SupabaseClient } from "@supabase/supabase-js";

/** For whom the server acts. Take `id` and `email` from a session that it has verified, never from a form. */
export type Person = { id?: string; email?: string; address?: string; agent?: string };

/** Your id of the organization; without a person, the headers of the client say for whom. */
type Act = { organization: string; person?: Person };

export type Entry<Action extends string> = Act & {
  action: Action;
  /** What it was done to: its id, and the name by which people know it. */
  target?: { id: string; name?: string };
  /** Becomes `agent_name`, which without it is the name of the target. */
  agent?: string;
  data?: Record<string, unknown>;
  /** To repeat a call safely, give both, the same each time. */
  id?: string;
  created_at?: string;
};

type Texts<Name extends string> = Record<Name, string>;
type Maybe<Name extends string> = Record<Name, string | null>;
type KeyFields = Texts<"id" | "name" | "hint" | "created_at">;
/** Its `token` can be read here only. */
export type NewApiKey = KeyFields & Texts<"organization_id" | "token"> & Maybe<"expires_at">;
export type RevokedApiKey =
  & KeyFields
  & Texts<"organization_id" | "revoked_at">
  & Maybe<"revoked_by_email">;
export type ListedApiKey =
  & KeyFields
  & Maybe<"created_by_email" | "expires_at" | "ended_at" | "revoked_at" | "revoked_by_email">
  & Maybe<"successor_id" | "owner_left_at" | "last_used_at" | "read_mode" | "caught_up_at">
  & { state: "active" | "expiring" | "expired" | "revoked" }
  & Record<"requests_last_minute" | "quota", number>;

/** The person of a session, with the address and the agent that the headers of a request say. */
export function personOf({ id = "", email = "" }: Person, asked: Pick<Headers, "get">): Person {
  const address = asked.get("x-forwarded-for")?.split(",")[0] ?? "";
  return { id, email, address, agent: asked.get("user-agent") ?? "" };
}

/** For `global.headers` of a client with the secret key: its writes are for this person. */
export function headersFor({ id = "", email = "", address = "", agent = "" }: Person) {
  return {
    "X-Audit-Person": encodeURIComponent(email),
    "X-Audit-Person-Id": encodeURIComponent(id),
    "X-Audit-Person-Address": encodeURIComponent(address),
    "X-Audit-Person-Agent": encodeURIComponent(agent),
  };
}

/** Needs a client with the secret key. Each function throws the log's error if it is refused. */
export function createAuditLog<Action extends string>(client: Pick<SupabaseClient, "schema">) {
  async function call<Answer>(name: string, given: object, person?: Person): Promise<Answer> {
    const request = client.schema("audit_log").rpc(name, given);
    const headers: Record<string, string> = person ? headersFor(person) : {};
    for (const header of Object.entries(headers)) request.setHeader(...header);
    return (await request.throwOnError()).data;
  }
  const forKeys =
    <Given, Answer>(name: string) => ({ organization, person, ...given }: Act & Given) =>
      call<Answer>(name, { organization_id: organization, ...given }, person);
  return {
    /** Returns 1, or 0 if the entry is there already. */
    record({ target, agent, person, ...entry }: Entry<Action>): Promise<number> {
      const agent_name = [...agent || target?.name || "unnamed"].slice(0, 200).join("");
      const named = { target: target?.id, target_name: target?.name };
      const entries = [{ agent_name, ...named, ...entry }];
      return call("record_entries", { entries }, person);
    },
    createApiKey: forKeys<{ name: string; expires_at?: string }, NewApiKey>("create_api_key"),
    listApiKeys: forKeys<object, ListedApiKey[]>("list_api_keys"),
    /** The old key works for the `overlap`, such as "7 days"; without it, 24 hours. */
    rotateApiKey: forKeys<{ api_key_id: string; overlap?: string }, NewApiKey>("rotate_api_key"),
    revokeApiKey: forKeys<{ api_key_id: string }, RevokedApiKey>("revoke_api_key"),
  };
}
