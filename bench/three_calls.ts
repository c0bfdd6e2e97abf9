// A handler as most people would write it first. It makes three calls through supabase-js: it selects the key,
// counts the request in a fixed window, and selects the page with its exact count and an offset.
import { createClient } from "@supabase/supabase-js";

const supabase = createClient(
  Deno.env.get("SUPABASE_URL") ?? "",
  JSON.parse(Deno.env.get("SUPABASE_SECRET_KEYS") ?? "").default,
  {
    auth: { persistSession: false, autoRefreshToken: false },
    db: { schema: "audit_log" },
  },
);

Deno.serve(async (request) => {
  const { searchParams: parameters } = new URL(request.url);
  const token = request.headers.get("Authorization")?.replace("Bearer ", "");
  if (!token) return Response.json({ error: "unauthorized" }, { status: 401 });

  const { data: key } = await supabase.from("bench_api_keys")
    .select("id, organization_id").eq("key_hash", await sha256(token)).is("revoked_at", null)
    .maybeSingle();
  if (!key) return Response.json({ error: "unauthorized" }, { status: 401 });

  const { data: requests } = await supabase.rpc("bench_count_request", { api_key_id: key.id });
  if (requests > 60) return Response.json({ error: "rate limited" }, { status: 429 });

  const start = parameters.get("start") ?? "";
  const end = parameters.get("end") ?? "";
  const action = parameters.get("action");
  const person = parameters.get("user_email");
  const limit = Number(parameters.get("limit") ?? 100);
  const offset = Number(parameters.get("offset") ?? 0);
  const ascending = parameters.get("order") !== "desc";
  let query = supabase.from("audit_entries")
    .select("id, created_at, action, user_email, agent_name, data", { count: "exact" })
    .eq("organization_id", key.organization_id)
    .gte("created_at", `${start}T00:00:00Z`)
    .lt("created_at", new Date(Date.parse(end) + 86_400_000).toISOString())
    .order("created_at", { ascending }).order("id", { ascending })
    .range(offset, offset + limit - 1);
  if (action) query = query.eq("action", action);
  if (person) query = query.eq("user_email", person);
  const { data: items, count: total, error } = await query;
  if (error) return Response.json({ error: "internal" }, { status: 500 });
  return Response.json({
    organization_id: key.organization_id,
    start,
    end,
    total,
    limit,
    offset,
    items,
  });
});

async function sha256(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
