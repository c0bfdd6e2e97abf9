import { setTimeout as delay } from "node:timers/promises";
import { addKeys, addOrganization, insertEntries } from "../harness/project.ts";
import { median, printHead, printRow, spread } from "./report.ts";
import { ask, type Bench, startFunction } from "./stack.ts";

const DAY = "2026-03-01";
/** Milliseconds from the function to the database and back. */
const ROUND_TRIPS = [0, 5, 50, 150];
const REQUESTS = 20;

/** Measures requests while the database is far away: the first of a new process of the function, and the others. */
export async function measureDistance(bench: Bench): Promise<void> {
  const { id } = await addOrganization(bench.sql);
  await insertEntries(bench.sql, id, DAY, 1000);
  printHead(
    `Milliseconds of pages of 100 entries, ${bench.rounds} starts of ${REQUESTS} requests`,
    "round trip",
    "first request",
    "others",
    "others, less the round trip",
  );
  for (const roundTrip of ROUND_TRIPS) {
    const [first, others]: number[][] = [[], []];
    for (let start = 0; start < bench.rounds; start++) {
      using relay = startRelay(new URL(bench.apiUrl), roundTrip / 2);
      await using edgeFunction = await startFunction(bench, { apiUrl: relay.url });
      const [key] = await addKeys(bench.sql, id, 1);
      for (let request = 0; request < REQUESTS; request++) {
        const { milliseconds } = await ask(edgeFunction, `start=${DAY}&end=${DAY}`, key?.token);
        (request ? others : first)?.push(milliseconds);
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
