// The design card taken literally: what a team would write in an afternoon. `bench plain` measures it beside ours.

import { createClient } from "@supabase/supabase-js";
import * as z from "zod";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";

const Environment = z.object({ default: z.string() });
const Key = z.object({ id: z.string(), organization_id: z.string() });
const Query = z.object({
  start: z.iso.date(),
  end: z.iso.date(),
  action: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  offset: z.coerce.number().int().min(0).default(0),
});

const secretKey = Environment.parse(JSON.parse(Deno.env.get("SUPABASE_SECRET_KEYS") ?? "")).default;
const database = createClient(Deno.env.get("SUPABASE_URL") ?? "", secretKey, {
  auth: { persistSession: false, autoRefreshToken: false },
});

Deno.serve(async (request) => {
  const token = request.headers.get("Authorization")?.replace(/^Bearer /, "") ?? "";
  const found = await database.from("plain_api_keys").select("id, organization_id")
    .eq("token_hash", await sha256(token)).is("revoked_at", null).maybeSingle();
  if (!found.data) return new Response(null, { status: 401 });
  const key = Key.parse(found.data);

  const counted = await database.rpc("plain_count_request", { key_id: key.id });
  if (counted.error) return new Response(counted.error.message, { status: 500 });
  if (!z.boolean().parse(counted.data)) return new Response(null, { status: 429 });

  const { data: query } = Query.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (!query) return new Response(null, { status: 400 });
  const { start, end, action, limit, offset } = query;
  let entries = database.from("plain_audit_entries")
    .select("id, created_at, action, user_email, agent_name, data", { count: "exact" })
    .eq("organization_id", key.organization_id)
    .gte("created_at", `${start}T00:00:00Z`).lte("created_at", `${end}T23:59:59.999999Z`);
  if (action) entries = entries.eq("action", action);
  const page = await entries.order("created_at").order("id").range(offset, offset + limit - 1);
  if (page.error) return new Response(page.error.message, { status: 500 });
  const { organization_id } = key;
  const { data: items, count: total } = page;
  return Response.json({ organization_id, start, end, total, limit, offset, items });
});
