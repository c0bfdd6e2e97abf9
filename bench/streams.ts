import { makeCertificate } from "../tests/certificate.ts";
import { newStream, startPusher, startReceiver } from "../tests/faults/streams.ts";
import { peakOf, processorTime, resetPeak } from "./processes.ts";
import { printHead, printRow, spread } from "./report.ts";
import type { Bench } from "./stack.ts";

/** Supabase allows 2,000 ms of processor time a call, and 256 MB. */
const BOUNDS = "400 ms, 190 MiB";

const CASES = [
  { what: "one stream", streams: 1, entries: 15_000, text: 200 },
  { what: "100 streams", streams: 100, entries: 5, text: 200 },
  { what: "8 batches of 850 kB", streams: 8, entries: 1_000, text: 650 },
];

/** Rings once for each, over TLS, and prints what the function delivered and took. */
export async function measureStreams(bench: Bench): Promise<void> {
  const { sql, rounds } = bench;
  const certificate = await makeCertificate();
  printHead(
    `What the function delivers when it is rung, ${rounds} rounds (bounds: ${BOUNDS} a ring)`,
    "what",
    "entries",
    "ms",
    "entries a second",
    "ms of processor time",
    "MiB of memory",
  );
  for (const { what, streams, entries, text } of CASES) {
    const data = JSON.stringify({ text: "x".repeat(text) });
    await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
    await using receiver = startReceiver(undefined, certificate);
    const figures: number[][] = [[], [], [], []];
    let delivered = 0;
    // The first one loads the code.
    for (let round = 0; round <= rounds; round++) {
      await sql`delete from audit_log_private.streams`;
      for (let n = 0; n < streams; n++) await newStream(sql, entries, receiver, { data });
      await sql`analyze audit_log.audit_entries`;
      await resetPeak(pusher.pid);
      const [before, start] = [await processorTime(pusher.pid), performance.now()];
      delivered = (await pusher.ring()).entries;
      const ms = performance.now() - start;
      if (delivered !== streams * entries) throw new Error(`${what}: ${delivered} entries`);
      if (round === 0) continue;
      const processor = await processorTime(pusher.pid) - before;
      const measured = [ms, delivered / ms * 1000, processor, await peakOf(pusher.pid)];
      for (const [n, figure] of measured.entries()) figures[n]?.push(figure);
    }
    printRow(what, delivered, ...figures.map((values) => spread(values)));
  }
}
