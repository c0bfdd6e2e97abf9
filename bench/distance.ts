import { setTimeout as delay } from "node:timers/promises";
import { startEdgeFunction } from "../local/edge_function.ts";
import { addKeys, addOrganization, insertEntries } from "../tests/project.ts";
import { median, printHead, printRow, spread } from "./report.ts";
import { startBenchStack } from "./stack.ts";

const DAY = "2026-03-01";
/** Milliseconds from the function to the database and back. */
const ROUND_TRIPS = [0, 5, 50, 150];
const STARTS = 5;
const REQUESTS = 20;

/** Measures requests while the database is far away: the first of a new process of the function, and the others. */
export async function measureDistance(): Promise<void> {
  await using stack = await startBenchStack();
  const { id } = await addOrganization(stack.sql);
  await insertEntries(stack.sql, id, DAY, 1000);
  const log = (line: string) => line.includes('"error"') && console.log(line);
  console.log("\nPages of 100 entries, in milliseconds");
  printHead("round trip", "first request", "others", "others, less the round trip");
  for (const roundTrip of ROUND_TRIPS) {
    const [first, others]: number[][] = [[], []];
    for (let start = 0; start < STARTS; start++) {
      using relay = startRelay(new URL(stack.apiUrl), roundTrip / 2);
      await using edgeFunction = await startEdgeFunction({ ...stack, apiUrl: relay.url, log });
      const [key] = await addKeys(stack.sql, id, 1);
      const url = `http://127.0.0.1:${edgeFunction.port}/public-audit-log?start=${DAY}&end=${DAY}`;
      for (let request = 0; request < REQUESTS; request++) {
        const sentAt = performance.now();
        const response = await fetch(url, { headers: { Authorization: `Bearer ${key?.token}` } });
        await response.bytes();
        if (response.status !== 200) throw new Error(`status ${response.status}`);
        (request ? others : first)?.push(performance.now() - sentAt);
      }
    }
    printRow(roundTrip, spread(first), spread(others), (median(others) - roundTrip).toFixed(0));
  }
}

/** Relays connections. Bytes pass after so many milliseconds, and a new connection takes a round trip more, as in TCP. */
function startRelay(target: URL, latency: number): Disposable & { url: string } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accept = async () => {
    for await (const near of listener) {
      const far = await Deno.connect({ hostname: target.hostname, port: Number(target.port) });
      for (const connection of [near, far]) connection.setNoDelay();
      const [to, back] = [pass(near, far, latency, 2 * latency), pass(far, near, latency, 0)];
      // When the function ends, its connections break.
      Promise.all([to, back]).catch(() => {});
    }
  };
  accept().catch(() => {});
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    [Symbol.dispose]: () => listener.close(),
  };
}

/** Passes bytes on, in their order. `handshake`: how much later the first come. */
async function pass(from: Deno.Conn, to: Deno.Conn, latency: number, handshake: number) {
  const writer = to.writable.getWriter();
  const openAt = performance.now() + handshake;
  let written = Promise.resolve();
  for await (const bytes of from.readable) {
    const arrival = Math.max(openAt, performance.now()) + latency;
    written = written.then(async () => {
      await delay(Math.max(0, arrival - performance.now()));
      await writer.write(bytes).catch(() => {});
    });
  }
  await written;
  await writer.close().catch(() => {});
}
