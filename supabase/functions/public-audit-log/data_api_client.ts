import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import type { Database } from "./database.types.ts";
import type { Environment } from "./environment.ts";

export type DataApiClient = SupabaseClient<Database>;

/** Makes the platform's own client: with a secret key, and no person's session to keep or renew. */
export function createDataApiClient(
  { url, secretKey }: Pick<Environment, "url" | "secretKey">,
  { fetch = globalThis.fetch }: { fetch?: typeof globalThis.fetch } = {},
): DataApiClient {
  return createClient<Database>(url, secretKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    db: { schema: "audit_log" },
    global: { fetch },
  });
}
