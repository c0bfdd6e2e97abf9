// @ts-types="npm:@types/autocannon@7.12.7"
import autocannon from "npm:autocannon@9.0.0";

export interface LoadOptions {
  url: string;
  /** Taken in turn. */
  keys: { token: string }[];
  seconds: number;
  /** Every answer must have it. */
  status: number;
}

const CONNECTIONS = 8;

/**
 * Sends requests as fast as they are answered, and for longer than asked if few are answered in time. Returns how
 * many were answered, and how many a second.
 *
 * @throws {Error} if an answer has another status.
 */
export async function load(options: LoadOptions) {
  const { url, keys, seconds, status } = options;
  const { latencies, statuses, errors, duration } = await sendRequests({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    timeout: 30,
    requests: keys.map(({ token }) => ({ headers: { Authorization: `Bearer ${token}` } })),
  });
  // Requests under way when the time is up are lost: with few answers, those would weigh too much.
  if (latencies.length < 5 * CONNECTIONS && seconds < 60) {
    return await load({ ...options, seconds: seconds * 4 });
  }
  const others = new Set(statuses.filter((each) => each !== status));
  if (errors || others.size || latencies.length === 0) {
    throw new Error(`${url}: ${errors} errors, statuses other than ${status}: ${[...others]}`);
  }
  return { answers: latencies.length, throughput: latencies.length / duration };
}

/** Sends requests with autocannon. Returns the status of each answer, and how many milliseconds it took. */
export async function sendRequests(options: autocannon.Options) {
  const latencies: number[] = [];
  const statuses: number[] = [];
  const { errors, duration } = await new Promise<autocannon.Result>((resolve, reject) => {
    const instance = autocannon(
      options,
      (error: unknown, result: autocannon.Result) => error ? reject(error) : resolve(result),
    );
    instance.on("response", (_client, status, _bytes, milliseconds) => {
      latencies.push(milliseconds);
      statuses.push(status);
    });
  });
  return { statuses, latencies, errors, duration };
}
