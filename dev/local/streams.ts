import { Buffer } from "node:buffer";
import postgres from "postgres";
import { type EdgeFunction, startEdgeFunction } from "./edge_function.ts";

/** How often the bell is rung, in milliseconds, if there is anything to deliver. */
const TICK = 5_000;

export interface StreamsOptions {
  apiUrl: string;
  secretKey: string;
  databaseUrl: string;
  streamsBell: string;
  streamsKey: string;
  log: (text: string) => void;
}

/** Starts the function that delivers, and rings its bell as pg_cron and pg_net do on a hosted project. */
export async function startStreams(options: StreamsOptions): Promise<EdgeFunction> {
  const { databaseUrl, streamsBell, streamsKey, log } = options;
  const edgeFunction = await startEdgeFunction({
    ...options,
    name: "audit-log-streams",
    env: {
      AUDIT_LOG_STREAMS_BELL: streamsBell,
      AUDIT_LOG_STREAMS_KEYS: streamsKey,
      AUDIT_LOG_STREAMS_LOCAL: "true",
    },
  });
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });

  async function ring(): Promise<void> {
    const [row] = await sql`select audit_log_private.rings_due() as rings`;
    for (let n = 0; n < row?.["rings"]; n++) {
      const bell = { method: "POST", headers: { "x-bell": streamsBell } };
      await fetch(`http://127.0.0.1:${edgeFunction.port}/`, bell);
    }
  }

  const ticks = setInterval(() => {
    ring().catch((error) => log(`The bell of streams does not ring: ${error}\n`));
  }, TICK);
  return {
    ...edgeFunction,
    async [Symbol.asyncDispose]() {
      clearInterval(ticks);
      await sql.end();
      await edgeFunction[Symbol.asyncDispose]();
    },
  };
}

/** Makes a private key, as the function reads it: P-256, PKCS #8 in base64. */
export async function newStreamsKey(): Promise<string> {
  const curve = { name: "ECDH", namedCurve: "P-256" };
  const { privateKey } = await crypto.subtle.generateKey(curve, true, ["deriveBits"]);
  return Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
}
