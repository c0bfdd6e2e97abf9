import { createClient } from "@supabase/supabase-js";
import { join } from "node:path";
import postgres from "postgres";
import { tokenHash } from "../supabase/functions/public-audit-log/token.ts";
import type { StackInfo } from "./stack.ts";

/** Password of both seeded administrators. */
export const DEMO_PASSWORD = "correct-horse-battery";

/** The seeded administrators, one for each organization (supabase/seed.sql). */
export const DEMO_EMAILS = ["ada@analytical.example", "grace@compiler.example"] as const;

/** An API key of the first organization: the one made by an earlier start, or a new one. */
export async function demoApiKey(stack: StackInfo, dataDir: string): Promise<string> {
  const path = join(dataDir, "demo_api_key");
  const kept = await Deno.readTextFile(path).catch(() => null);
  if (kept && await isActive(kept, stack.databaseUrl)) return kept;

  const client = createClient(stack.apiUrl, stack.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const credentials = { email: DEMO_EMAILS[0], password: DEMO_PASSWORD };
  const { error: authError } = await client.auth.signInWithPassword(credentials);
  if (authError) throw authError;
  const { data: organizations, error } = await client.rpc("list_organizations");
  if (error) throw error;
  const { data: apiKey, error: rpcError } = await client.rpc("create_api_key", {
    organization_id: organizations[0]?.id,
    name: "deno task start",
  });
  if (rpcError) throw rpcError;
  await Deno.writeTextFile(path, apiKey.token, { mode: 0o600 });
  return apiKey.token;
}

async function isActive(token: string, databaseUrl: string): Promise<boolean> {
  const sql = postgres(databaseUrl, { max: 1 });
  const keys = await sql`
    select from private.api_key_hashes h
    join private.api_keys k on k.organization_id = h.organization_id and k.id = h.api_key_id
    where h.token_hash = decode(${await tokenHash(token)}, 'hex') and k.revoked_at is null`;
  await sql.end();
  return keys.length === 1;
}
