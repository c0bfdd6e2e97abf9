import { makeCertificate } from "../../tests/helpers/certificate.ts";
import { newStream, startPusher, startReceiver } from "../../tests/helpers/pushing.ts";
import { peakOf, processorTime, resetPeak } from "./processes.ts";
import { measureSpreads, printHead, printRow } from "./report.ts";
import type { Bench } from "./stack.ts";

const RUNS = [
  { what: "one stream", streams: 1, entries: 15_000, text: 200 },
  { what: "100 streams", streams: 100, entries: 5, text: 200 },
  { what: "8 batches of 850 kB", streams: 8, entries: 1_000, text: 650 },
];
/** Supabase allows 2,000 ms of processor time a call, and 256 MB. */
const BOUNDS = [Infinity, 400, 190];

/** Calls the function once for each, over TLS, and prints what it took to deliver all entries. */
export async function measureStreams(bench: Bench): Promise<void> {
  const { sql, rounds } = bench;
  const certificate = await makeCertificate();
  const title = `What the function delivers in a run, ${rounds} rounds`;
  printHead(title, "what", "entries", "ms", "ms of processor time", "MiB of memory");
  for (const { what, streams, entries, text } of RUNS) {
    const data = JSON.stringify({ text: "x".repeat(text) });
    await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
    await using receiver = startReceiver(undefined, certificate);
    const all = streams * entries;
    const spreads = await measureSpreads(rounds, BOUNDS, async () => {
      await sql`delete from audit_log_private.streams`;
      for (let n = 0; n < streams; n++) await newStream(sql, entries, receiver, { data });
      await sql`analyze audit_log.audit_entries`;
      await resetPeak(pusher.pid);
      const [before, start] = [await processorTime(pusher.pid), performance.now()];
      const delivered = (await pusher.run()).entries;
      const ms = performance.now() - start;
      if (delivered !== all) throw new Error(`${what}: ${delivered} entries`);
      return [ms, await processorTime(pusher.pid) - before, await peakOf(pusher.pid)];
    });
    printRow(what, all, ...spreads);
  }
}
