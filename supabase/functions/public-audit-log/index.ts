import { createClient } from "@supabase/supabase-js";
import type { Database } from "./database.types.ts";
import { createHandler } from "./handler.ts";
import { readEnvironment } from "./environment.ts";

const { url, secretKey } = readEnvironment((name) => Deno.env.get(name));

Deno.serve(createHandler({
  database: createClient<Database>(url, secretKey, {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  }),
  log: (line) => console.log(JSON.stringify(line)),
}));
