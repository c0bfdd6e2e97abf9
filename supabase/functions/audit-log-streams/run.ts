import { deliver, type DeliverOptions } from "./deliver.ts";
import type { Leased, Queue } from "./queue.ts";

/** What a batch costs beside its entries, in bytes of entries: two calls, a secret and TLS take some processor time. */
const BATCH_COST = 75_000;

export const BUDGET = {
  /** No batch is begun after so long. */
  ms: 15_000,
  /** No batch is begun after so many bytes of entries, because Supabase allows 2 s of processor time. */
  bytes: 8_000_000,
  /** The most batches at once. Streams in trouble have half of them at most. */
  workers: 24,
  /** The most batches at once of all runs of this process. */
  most: 72,
  /** Then it is the turn of another stream. */
  batchesInARow: 5,
};

export interface RunOptions extends DeliverOptions {
  queue: Queue;
  budget?: typeof BUDGET;
  log: (line: Record<string, unknown>) => void;
  /** Of all runs of a process: how many batches are on their way, and why the last was stopped. */
  active: { workers: number; stopped?: string | undefined };
}

/**
 * Delivers what is due, until there is no more or the budget is spent. A dead destination holds a worker until the
 * time-out. But each run has workers of its own, and streams in trouble come last and wait longer each time: so dead
 * ones hold nobody up for longer than until the next run. Returns how many entries were delivered.
 */
export async function run(options: RunOptions): Promise<{ entries: number }> {
  const { queue, budget = BUDGET, log, active } = options;
  const end = performance.now() + budget.ms;
  let [bytes, entries, workers, troubled] = [0, 0, 0, 0];
  const isOver = () => performance.now() > end || bytes >= budget.bytes;

  /** Delivers one batch after the other. Each one that it finds may have others beside it, for another worker. */
  async function work(): Promise<void> {
    if (workers >= budget.workers || active.workers >= budget.most) return;
    workers++;
    active.workers++;
    const others: Promise<void>[] = [];
    // The database does not answer: the next run tries again.
    while (!isOver() && await step(others).catch((error) => log({ error: String(error) })));
    workers--;
    active.workers--;
    await Promise.all(others);
  }

  /** Delivers the batches of a stream. Returns whether there may be more. */
  async function step(others: Promise<void>[]): Promise<boolean> {
    let part = troubled < budget.workers / 2 ? 1 : 0;
    troubled += part;
    try {
      const { batch, more = false, stopped } = await queue.take(part === 1);
      if (!batch?.is_troubled) troubled -= part, part = 0;
      if (batch) {
        others.push(work());
        await workFor(batch);
        return true;
      }
      if (stopped && stopped !== active.stopped) log({ stopped });
      active.stopped = stopped;
      // A log may be long, and a call without a batch takes processor time, too.
      bytes += more ? BATCH_COST : 0;
      return more;
    } finally {
      troubled -= part;
    }
  }

  /** Delivers a stream's batches until others have their turn. */
  async function workFor(first: Leased): Promise<void> {
    let batch: Leased | undefined = first;
    for (let n = 1; batch; n++) {
      bytes += batch.lines.reduce((sum, line) => sum + line.length + 1, BATCH_COST);
      const outcome = await deliver(batch, options);
      if (outcome.decision === "delivered") {
        entries += batch.what === "entries" ? batch.lines.length - outcome.rejected.length : 0;
      } else {
        // Not the error, which may quote the answer: the console shows it to the stream's own organization.
        const { stream_id, destination: { url } } = batch;
        const { status, code } = outcome;
        log({ stream_id, host: URL.parse(url)?.host, status, code });
      }
      ({ batch } = await queue.settle(batch, outcome, n < budget.batchesInARow && !isOver()));
    }
  }

  await work();
  return { entries };
}
