// The Edge Function of streams with short times, for the Deno of Supabase's runtime. It answers when a round is over.

import { readEnvironment } from "../../supabase/functions/audit-log-streams/environment.ts";
import { createHandler } from "../../supabase/functions/audit-log-streams/handler.ts";
import { Queue } from "../../supabase/functions/audit-log-streams/queue.ts";
import { BUDGET } from "../../supabase/functions/audit-log-streams/round.ts";

const environment = await readEnvironment((name) => Deno.env.get(name));
let round: Promise<unknown> = Promise.resolve();
const handler = createHandler({
  ...environment,
  queue: new Queue({ ...environment, leaseSeconds: 3, mostBytes: 60_000 }),
  timeoutMs: 2_500,
  neighboursTimeoutMs: 5_000,
  budget: { ...BUDGET, patienceMs: 100 },
  waitUntil: (running) => round = running,
  log: (line) => console.log(JSON.stringify(line)),
});

Deno.serve(async (request) => {
  const response = await handler(request);
  return response.status === 202 ? Response.json(await round ?? {}) : response;
});
