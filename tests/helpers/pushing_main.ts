// The Edge Function of streams for the Deno of Supabase's runtime, with the settings in its own address. It answers when a
// run is over.

import { readEnvironment } from "../../supabase/functions/audit-log-streams/environment.ts";
import { createHandler } from "../../supabase/functions/audit-log-streams/handler.ts";
import { queueOf } from "../../supabase/functions/audit-log-streams/queue.ts";
import { BUDGET } from "../../supabase/functions/audit-log-streams/run.ts";

const { search } = new URL(import.meta.url);
const { workers = BUDGET.workers, timeoutMs = 10_000, ...settings } = JSON.parse(
  decodeURIComponent(search.slice(1)),
);
const environment = await readEnvironment((name) => Deno.env.get(name));
let run: Promise<unknown> = Promise.resolve();
const handler = createHandler({
  ...environment,
  ...settings,
  queue: queueOf({ ...environment, ...settings }),
  timeoutMs,
  budget: { ...BUDGET, workers },
  // With an authority of its own, all names are of this machine.
  ...settings.caCerts && {
    resolve: () => Promise.resolve(["127.0.0.1"]),
    isAllowed: () => true,
  },
  waitUntil: (running) => run = running,
  log: (line) => console.log(JSON.stringify(line)),
});

Deno.serve(async (request) => {
  const response = await handler(request);
  return response.status === 202 ? Response.json(await run ?? {}) : response;
});
