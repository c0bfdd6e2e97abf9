import { Buffer } from "node:buffer";
import postgres from "postgres";
import { type EdgeFunction, type EdgeFunctionOptions, startEdgeFunction } from "./edge_function.ts";

const TICK = 5_000;

/** Starts the function that delivers, and calls it as pg_cron and pg_net do on a hosted project. */
export async function startStreams(
  options: Pick<EdgeFunctionOptions, "apiUrl" | "secretKey" | "log"> & {
    databaseUrl: string;
    streamsTriggerSecret: string;
    streamsKey: string;
  },
): Promise<EdgeFunction> {
  const { databaseUrl, streamsTriggerSecret, streamsKey, log } = options;
  const edgeFunction = await startEdgeFunction({
    ...options,
    name: "audit-log-streams",
    env: {
      AUDIT_LOG_STREAMS_TRIGGER_SECRET: streamsTriggerSecret,
      AUDIT_LOG_STREAMS_KEYS: streamsKey,
      AUDIT_LOG_STREAMS_LOCAL: "true",
    },
  });
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });

  const ticks = setInterval(async () => {
    try {
      const [row] = await sql`select audit_log_private.runs_due() as runs`;
      for (let n = 0; n < row?.["runs"]; n++) {
        const request = { method: "POST", headers: { "x-trigger-secret": streamsTriggerSecret } };
        await fetch(`http://127.0.0.1:${edgeFunction.port}/`, request);
      }
    } catch (error) {
      log(`The function of streams cannot be called: ${error}\n`);
    }
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
