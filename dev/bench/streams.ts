import { setTimeout as delay } from "node:timers/promises";
import { type Sql, valueOf } from "../harness/project.ts";
import { type Certificate, makeCertificate } from "../../tests/helpers/certificate.ts";
import {
  makeDue,
  newStream,
  type Pusher,
  startPusher,
  startReceiver,
  type Stream,
} from "../../tests/helpers/pushing.ts";
import { peakOf, processorTime, resetPeak } from "./processes.ts";
import { demand, measureSpreads, printHead, printRow } from "./report.ts";
import type { Bench } from "./stack.ts";

const RUNS = [
  { what: "one stream", streams: 1, entries: 15_000, text: 200 },
  { what: "100 streams", streams: 100, entries: 5, text: 200 },
  { what: "8 batches of 850 kB", streams: 8, entries: 1_000, text: 650 },
];

const TICK = 10_000;

const DELAYS = [
  { what: "200 streams", healthy: 200, dead: 0, backlogs: 0, bound: 12 },
  {
    what: "40 streams, beside 20 that die at each tick and 12 backlogs",
    healthy: 40,
    dead: 20,
    backlogs: 12,
    bound: 15,
  },
];

/** Measures what a run of the function takes, how late entries arrive, and what a tick costs while nothing happens. */
export async function measureStreams(bench: Bench): Promise<void> {
  const certificate = await makeCertificate();
  await measureRuns(bench, certificate);
  await measureDelays(bench, certificate);
  await measureIdle(bench, certificate);
}

/** Calls the function once for each, over TLS, and prints what the function delivered and took. */
async function measureRuns(bench: Bench, certificate: Certificate): Promise<void> {
  const { sql, rounds } = bench;
  printHead(
    `What the function delivers in a run, ${rounds} rounds`,
    "what",
    "entries",
    "ms",
    "entries a second",
    "ms of processor time",
    "MiB of memory",
  );
  // Supabase allows 2,000 ms of processor time a call, and 256 MB.
  const bounds = [Infinity, Infinity, 400, 190];
  for (const { what, streams, entries, text } of RUNS) {
    const data = JSON.stringify({ text: "x".repeat(text) });
    await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
    await using receiver = startReceiver(undefined, certificate);
    const all = streams * entries;
    const spreads = await measureSpreads(rounds, bounds, async () => {
      await sql`delete from audit_log_private.streams`;
      for (let n = 0; n < streams; n++) await newStream(sql, entries, receiver, { data });
      await sql`analyze audit_log.audit_entries`;
      await resetPeak(pusher.pid);
      const [before, start] = [await processorTime(pusher.pid), performance.now()];
      const delivered = (await pusher.run()).entries;
      const ms = performance.now() - start;
      if (delivered !== all) throw new Error(`${what}: ${delivered} entries`);
      const processor = await processorTime(pusher.pid) - before;
      return [ms, all / ms * 1000, processor, await peakOf(pusher.pid)];
    });
    printRow(what, all, ...spreads);
  }
}

/** Writes entries all the time, calls the function at each tick, and prints how long after its commit each entry arrived. */
async function measureDelays(bench: Bench, certificate: Certificate): Promise<void> {
  printHead(
    `Seconds from commit to receipt, ${bench.rounds} ticks of ${TICK / 1000} seconds`,
    "what",
    "entries",
    "median",
    "95 of 100",
    "longest",
    "bound of 95",
  );
  for (const { what, healthy, dead, backlogs, bound } of DELAYS) {
    await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
    const delays: number[] = [];
    await using receiver = startReceiver((body) => {
      for (const [, time = ""] of body.matchAll(/^\{"id":"[^"]+","created_at":"([^"]+)"/gm)) {
        delays.push((Date.now() - Date.parse(time)) / 1000);
      }
    }, certificate);
    const silence = Promise.withResolvers<Response>();
    await using hanging = startReceiver(() => silence.promise, certificate);
    await using busy = startReceiver(undefined, certificate);
    await bench.sql`delete from audit_log_private.streams`;
    const make = (count: number, entries: number, to: typeof receiver) =>
      Array.fromAsync({ length: count }, () => newStream(bench.sql, entries, to));
    await make(backlogs, 2_000 * bench.rounds, busy);
    const dying = await make(dead, 10, hanging);
    const written = await callAtTicks(bench, pusher, await make(healthy, 0, receiver), dying);
    silence.resolve(new Response());
    if (delays.length !== written) throw new Error(`${delays.length} of ${written} arrived`);
    delays.sort((a, b) => a - b);
    const [half = NaN, most = NaN, longest = NaN] = [0.5, 0.95, 1]
      .map((part) => delays[Math.ceil(delays.length * part) - 1] ?? NaN);
    const figures = [half, most, longest].map((seconds) => seconds.toFixed(1));
    printRow(what, delays.length, ...figures, demand(most, { most: bound }));
  }
}

/**
 * Calls as pg_cron does, whether or not the run before is over, while each stream gets an entry every few seconds.
 * Returns how many were written.
 */
async function callAtTicks(
  { sql, rounds }: Bench,
  pusher: Pusher,
  streams: Stream[],
  dying: Stream[],
): Promise<number> {
  const logs = streams.map(({ organizationId }) => organizationId);
  let [written, isOver] = [0, false];
  async function write() {
    while (!isOver) {
      const some = logs.filter(() => Math.random() < 0.03);
      written += some.length;
      await sql`
        insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
        select unnest(${some}::uuid[]), 'agent_added', 'ada@example.com', 'Assistant'`;
      await delay(100);
    }
  }
  const writing = write();
  const running: Promise<unknown>[] = [];
  for (let tick = 0; tick <= rounds; tick++) {
    const next = delay(TICK);
    await sql`
      update audit_log_private.streams set failures = 0, failing_since = null, last_ms = 0, due_at = now()
      where id = any(${dying.map(({ id }) => id)}) and lease is null`;
    for (let n = await runsDue(sql); n > 0; n--) running.push(pusher.run());
    if (tick === rounds) break;
    await next;
    isOver = tick === rounds - 1;
    if (isOver) await writing;
  }
  await Promise.all(running);
  return written;
}

/** Prints what all processes of the database take together for a tick, and how often it would call the function. */
async function measureIdle(bench: Bench, certificate: Certificate): Promise<void> {
  const { sql, rounds } = bench;
  await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
  await using receiver = startReceiver(undefined, certificate);
  await sql`delete from audit_log_private.streams`;
  for (let n = 0; n < 200; n++) await newStream(sql, 5, receiver);
  await pusher.run();
  await pusher.run();
  const processes = await sql`select pid from pg_stat_activity`;
  async function databaseTime(): Promise<number> {
    const times = await Promise.all(processes.map(({ pid }) => processorTime(pid).catch(() => 0)));
    return times.reduce((sum, time) => sum + time, 0);
  }
  const spreads = await measureSpreads(rounds, [Infinity, 80, 0], async () => {
    await makeDue(sql);
    const [before, start] = [await databaseTime(), performance.now()];
    const runs = await runsDue(sql);
    const ms = performance.now() - start;
    // Some of it comes after the transaction.
    await delay(1_000);
    return [ms, await databaseTime() - before, runs];
  });
  printHead(
    `What a tick costs the database while 200 streams have nothing to send, ${rounds} rounds`,
    "ms",
    "ms of processor time",
    "calls of the function",
  );
  printRow(...spreads);
}

async function runsDue(sql: Sql): Promise<number> {
  return await valueOf(sql`select audit_log_private.runs_due()`);
}
