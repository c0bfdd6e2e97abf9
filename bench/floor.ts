// The least that a handler in front of the Data API can do: one trivial call.
import { createDataApiClient } from "../supabase/functions/public-audit-log/decision.ts";
import { readEnvironment } from "../supabase/functions/public-audit-log/environment.ts";

const dataApi = createDataApiClient(readEnvironment((name) => Deno.env.get(name)));

Deno.serve(async () => {
  const { data } = await dataApi.rpc("bench_floor" as never).throwOnError();
  return Response.json(data);
});
