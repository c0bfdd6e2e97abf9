// The least that a handler in front of the Data API can do: one trivial call.
import { createDatabase } from "../supabase/functions/public-audit-log/database.ts";
import { readEnvironment } from "../supabase/functions/public-audit-log/environment.ts";

const database = createDatabase(readEnvironment((name) => Deno.env.get(name)));

Deno.serve(async () => {
  const { data } = await database.rpc("bench_floor" as never).throwOnError();
  return Response.json(data);
});
