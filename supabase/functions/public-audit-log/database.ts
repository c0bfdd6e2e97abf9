import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Database as Schema } from "./database.types.ts";
import type { Environment } from "./environment.ts";
import { leaveUnread } from "./unread.ts";

/** A client of the Data API. */
export type Database = SupabaseClient<Schema>;

/** Makes the client of the platform itself: a secret key, no person's session to keep or to renew. */
export function createDatabase(
  { url, secretKey }: Pick<Environment, "url" | "secretKey">,
  { fetch = globalThis.fetch }: { fetch?: typeof globalThis.fetch } = {},
): Database {
  return createClient<Schema>(url, secretKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    global: { fetch: leaveUnread(fetch) },
  });
}
