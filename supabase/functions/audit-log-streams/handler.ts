import { sha256 } from "../public-audit-log/sha256.ts";
import { run, type RunOptions } from "./run.ts";

export interface HandlerOptions extends Omit<RunOptions, "active"> {
  triggerSecret: string;
  /** Keeps the function running until a run is over. */
  waitUntil: (run: Promise<unknown>) => void;
}

const CORS = { "Access-Control-Allow-Origin": "*" };

/**
 * Makes the handler. Whoever knows the trigger secret can have it deliver what is due, and nothing else. It answers at
 * once, because pg_net does not wait. Anybody may ask for the public key, for which the console seals secrets.
 */
export function createHandler(options: HandlerOptions): (request: Request) => Promise<Response> {
  const { triggerSecret, keys, waitUntil } = options;
  const active = { workers: 0 };
  return async ({ method, headers }) => {
    if (method === "GET") return Response.json({ public_key: keys.publicKey }, { headers: CORS });
    if (method !== "POST") {
      return new Response(null, { status: 405, headers: { Allow: "GET, POST" } });
    }
    // How long it takes to compare hashes says nothing about the secret.
    if (await sha256(headers.get("x-trigger-secret") ?? "") !== await sha256(triggerSecret)) {
      return new Response(null, { status: 401 });
    }
    waitUntil(run({ ...options, active }));
    return new Response(null, { status: 202 });
  };
}
