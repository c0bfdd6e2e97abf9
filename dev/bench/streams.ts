import { setTimeout as delay } from "node:timers/promises";
import { valueOf } from "../harness/project.ts";
import { type Certificate, makeCertificate } from "../../tests/helpers/certificate.ts";
import { makeDue, newStream, startPusher, startReceiver } from "../../tests/helpers/pushing.ts";
import { peakOf, processorTime, resetPeak } from "./processes.ts";
import { demand, measureSpreads, printHead, printRow } from "./report.ts";
import type { Bench } from "./stack.ts";

const RUNS = [
  { what: "one stream", streams: 1, entries: 15_000, text: 200 },
  { what: "100 streams", streams: 100, entries: 5, text: 200 },
  { what: "8 batches of 850 kB", streams: 8, entries: 1_000, text: 650 },
];
/** Supabase allows 2,000 ms of processor time a call, and 256 MB. */
const BOUNDS = [Infinity, 400, 190];

const TICK = 10_000;
const DELAYS = [
  { what: "200 streams", healthy: 200, dead: 0, backlogs: 0, most: 12 },
  { what: "40, 20 dead, 12 backlogs", healthy: 40, dead: 20, backlogs: 12, most: 15 },
];

/** Measures what a run of the function takes, how late entries arrive, and what a tick costs while nothing happens. */
export async function measureStreams(bench: Bench): Promise<void> {
  const certificate = await makeCertificate();
  await measureRuns(bench, certificate);
  await measureDelays(bench, certificate);
  await measureIdle(bench, certificate);
}

/** Calls the function once for each, over TLS, and prints what it took to deliver all entries. */
async function measureRuns(bench: Bench, certificate: Certificate): Promise<void> {
  const { sql, rounds } = bench;
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

/** Calls the function at each tick, as pg_cron does, beside writers. Prints how long after its commit an entry arrived. */
async function measureDelays(bench: Bench, certificate: Certificate): Promise<void> {
  const { sql, rounds } = bench;
  const title = `Seconds from commit to receipt, ${rounds} ticks of ${TICK / 1000} seconds`;
  printHead(title, "what", "entries", "median", "95 of 100", "longest");
  for (const { what, healthy, dead, backlogs, most } of DELAYS) {
    await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
    const delays: number[] = [];
    await using receiver = startReceiver((body) => {
      const times = body.matchAll(/^\{"id":"[^"]+","created_at":"([^"]+)"/gm);
      delays.push(...times.map(([, time = ""]) => (Date.now() - Date.parse(time)) / 1000));
    }, certificate);
    const silence = Promise.withResolvers<Response>();
    await using hanging = startReceiver(() => silence.promise, certificate);
    await using busy = startReceiver(undefined, certificate);
    await sql`delete from audit_log_private.streams`;
    const make = (count: number, entries: number, to: typeof receiver) =>
      Array.fromAsync({ length: count }, () => newStream(sql, entries, to));
    await make(backlogs, 2_000 * rounds, busy);
    const dying = (await make(dead, 10, hanging)).map(({ id }) => id);
    const logs = (await make(healthy, 0, receiver)).map(({ organizationId }) => organizationId);
    let written = 0;
    const running: Promise<unknown>[] = [];
    for (let tick = 0; tick <= rounds; tick++) {
      await sql`
        update audit_log_private.streams set failures = 0, failing_since = null, last_ms = 0, due_at = now()
        where id = any(${dying}) and lease is null`;
      // Whether or not the runs before are over.
      const due: number = await valueOf(sql`select audit_log_private.runs_due()`);
      running.push(...Array.from({ length: due }, () => pusher.run()));
      for (const end = Date.now() + TICK; tick < rounds && Date.now() < end; await delay(100)) {
        const some = logs.filter(() => Math.random() < 0.03);
        written += some.length;
        await sql`
          insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
          select unnest(${some}::uuid[]), 'agent_added', 'ada@example.com', 'Assistant'`;
      }
    }
    await Promise.all(running);
    silence.resolve(new Response());
    if (delays.length !== written) throw new Error(`${delays.length} of ${written} arrived`);
    delays.sort((a, b) => a - b);
    const [half = NaN, late = NaN, longest = NaN] = [0.5, 0.95, 1]
      .map((part) => delays[Math.ceil(delays.length * part) - 1]);
    const bounded = `${late.toFixed(1)}, ${demand(late, { most })}`;
    printRow(what, written, half.toFixed(1), bounded, longest.toFixed(1));
  }
}

/** Prints what all processes of the database take together for a tick, and how often it would call the function. */
async function measureIdle(bench: Bench, certificate: Certificate): Promise<void> {
  const { sql, rounds } = bench;
  await using pusher = await startPusher(bench, { caCerts: [certificate.cert] });
  await using receiver = startReceiver(undefined, certificate);
  await sql`delete from audit_log_private.streams`;
  for (let n = 0; n < 200; n++) await newStream(sql, 5, receiver);
  for (const _run of ["delivers", "finds nothing"]) await pusher.run();
  const processes = await sql`select pid from pg_stat_activity`;
  const databaseTime = async () => {
    const times = await Promise.all(processes.map(({ pid }) => processorTime(pid).catch(() => 0)));
    return times.reduce((sum, time) => sum + time, 0);
  };
  const spreads = await measureSpreads(rounds, [Infinity, 80, 0], async () => {
    await makeDue(sql);
    const [before, start] = [await databaseTime(), performance.now()];
    const runs: number = await valueOf(sql`select audit_log_private.runs_due()`);
    const ms = performance.now() - start;
    // Some of it comes after the transaction.
    await delay(1_000);
    return [ms, await databaseTime() - before, runs];
  });
  const title = `A tick while 200 streams have nothing to send, ${rounds} rounds`;
  printHead(title, "ms", "ms of processor time of the database", "calls of the function");
  printRow(...spreads);
}
