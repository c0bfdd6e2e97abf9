import { readEnvironment } from "./environment.ts";
import { createHandler } from "./handler.ts";
import { queueOf } from "./queue.ts";

declare const EdgeRuntime: { waitUntil(promise: Promise<unknown>): void } | undefined;

const environment = await readEnvironment((name) => Deno.env.get(name));

Deno.serve(createHandler({
  ...environment,
  queue: queueOf(environment),
  timeoutMs: 10_000,
  // Elsewhere than on Supabase, nothing ends the process.
  waitUntil: (run) => typeof EdgeRuntime === "undefined" || EdgeRuntime.waitUntil(run),
  log: (line) => console.log(JSON.stringify(line)),
}));
