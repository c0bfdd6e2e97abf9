import { createClient } from "@supabase/supabase-js";
import { join } from "node:path";
import type { StackInfo } from "../local/stack.ts";

export const DEMO_PASSWORD = "correct-horse-battery";

/** The administrators of supabase/seed.sql, one for each organization. */
export const DEMO_EMAILS = ["ada@analytical.example", "grace@compiler.example"] as const;

/** Returns an active API key of the first organization: the one from earlier, or a new one if that was revoked. */
export async function demoApiKey(stack: StackInfo, dataDir: string): Promise<string> {
  const path = join(dataDir, "demo_api_key");
  const kept = await Deno.readTextFile(path).catch(() => null);
  if (kept && await isAccepted(kept, stack.apiUrl)) return kept;

  const client = createClient(stack.apiUrl, stack.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    db: { schema: "audit_log" },
  });
  const credentials = { email: DEMO_EMAILS[0], password: DEMO_PASSWORD };
  const { error } = await client.auth.signInWithPassword(credentials);
  if (error) throw error;
  const { data: organizations } = await client.rpc("list_organizations").throwOnError();
  const { data: apiKey } = await client.rpc("create_api_key", {
    organization_id: organizations[0]?.id,
    name: "deno task start",
  }).throwOnError();
  await Deno.writeTextFile(path, apiKey.token, { mode: 0o600 });
  return apiKey.token;
}

async function isAccepted(token: string, apiUrl: string): Promise<boolean> {
  const query = "start=2026-01-01&end=2026-01-01&limit=1";
  const response = await fetch(`${apiUrl}/functions/v1/public-audit-log?${query}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  await response.body?.cancel();
  return response.status !== 401;
}
