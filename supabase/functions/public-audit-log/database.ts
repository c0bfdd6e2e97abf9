import { PostgrestClient } from "@supabase/postgrest-js";
import type { Database as Schema } from "./database.types.ts";
import type { Environment } from "./environment.ts";

/** A client of the Data API. */
export type Database = PostgrestClient<Schema>;

/**
 * Makes the client, as supabase-js makes the one behind its `rpc()`. That package would load its Auth,
 * Realtime, Storage and Functions clients too, which no request needs, and a cold start would take
 * twice as long (bench/README.md).
 */
export function createDatabase(
  { url, secretKey }: Environment,
  options: { fetch?: typeof fetch } = {},
): Database {
  return new PostgrestClient<Schema>(`${url}/rest/v1`, {
    headers: { apikey: secretKey, Authorization: `Bearer ${secretKey}` },
    ...options,
  });
}
