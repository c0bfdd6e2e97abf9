// @ts-types="npm:@types/autocannon@7.12.7"
import autocannon from "npm:autocannon@9.0.0";
import { median } from "./report.ts";

export interface Load {
  /** Answers a second. */
  throughput: number;
  answers: number;
  /** Milliseconds. */
  medianLatency: number;
}

export interface LoadOptions {
  url: string;
  /** API keys, taken in turn. */
  tokens: string[];
  connections: number;
  seconds: number;
  /** What every answer must be. */
  status: number;
}

/**
 * Sends requests as fast as they are answered; for longer than asked, if few are answered in time.
 *
 * @throws {Error} if one answer has another status.
 */
export async function load(options: LoadOptions): Promise<Load> {
  const { url, tokens, connections, seconds, status } = options;
  const result = await sendRequests({
    url,
    connections,
    duration: seconds,
    timeout: 30,
    requests: tokens.map((token) => ({ headers: { Authorization: `Bearer ${token}` } })),
  });
  const { latencies, statuses } = result;
  statuses.delete(status);
  // Requests under way when the time is up are lost: with few answers, those would weigh too much.
  if (latencies.length < 5 * connections && seconds < 60) {
    return await load({ ...options, seconds: seconds * 4 });
  }
  if (result.errors || statuses.size || latencies.length === 0) {
    const others = JSON.stringify(Object.fromEntries(statuses));
    throw new Error(`${url}: ${result.errors} errors, statuses other than ${status}: ${others}`);
  }
  return {
    throughput: latencies.length / result.duration,
    answers: latencies.length,
    medianLatency: median(latencies),
  };
}

/** What became of requests. */
export interface Sent {
  /** How many had each status. */
  statuses: Map<number, number>;
  /** Of each answer, in milliseconds. */
  latencies: number[];
  /** How many had no answer in time. */
  errors: number;
  /** In seconds. */
  duration: number;
}

/** Sends requests with autocannon. */
export async function sendRequests(options: autocannon.Options): Promise<Sent> {
  const latencies: number[] = [];
  const statuses = new Map<number, number>();
  const { errors, duration } = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = autocannon(
      options,
      (error: unknown, result: autocannon.Result) => error ? reject(error) : resolve(result),
    );
    instance.on("response", (_client, status, _bytes, milliseconds) => {
      latencies.push(milliseconds);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    });
  });
  return { statuses, latencies, errors, duration };
}
