import { BUDGET, round, type RoundOptions } from "./round.ts";

export interface HandlerOptions extends Omit<RoundOptions, "active" | "budget"> {
  bellWord: string;
  budget?: RoundOptions["budget"];
  /** Keeps the function running until a round is over. */
  waitUntil: (round: Promise<unknown>) => void;
}

const CORS = { "Access-Control-Allow-Origin": "*" };

/**
 * Makes the handler of the bell. Who knows the word can have it deliver what is due, and nothing else. The bell answers at
 * once, because pg_net does not wait. Anybody may ask for the public key, for which the console seals secrets.
 */
export function createHandler(options: HandlerOptions): (request: Request) => Promise<Response> {
  const { bellWord, keys, budget = BUDGET, waitUntil } = options;
  const active = { workers: 0 };
  return async ({ method, headers }) => {
    if (method === "GET") return Response.json({ public_key: keys.publicKey }, { headers: CORS });
    if (method !== "POST") {
      return new Response(null, { status: 405, headers: { Allow: "GET, POST" } });
    }
    if (!await isSame(headers.get("x-bell") ?? "", bellWord)) {
      return new Response(null, { status: 401 });
    }
    waitUntil(round({ ...options, budget, active }));
    return new Response(null, { status: 202 });
  };
}

/** Compares hashes: how long that takes says nothing about the word. */
async function isSame(given: string, word: string): Promise<boolean> {
  const [a, b] = await Promise.all([given, word].map(async (text) => {
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return new Uint8Array(hash).toString();
  }));
  return a === b;
}
