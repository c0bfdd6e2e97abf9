import { deliver, type DeliverOptions } from "./deliver.ts";
import type { Leased, Queue } from "./queue.ts";

/** What a batch costs beside its entries, in bytes of entries: two calls, a secret and TLS take 3 ms of processor time. */
const BATCH_COST = 75_000;

export interface Budget {
  /** No batch is begun after so long. */
  ms: number;
  /** No batch is begun after so many bytes of entries, because Supabase allows 2 s of processor time. */
  bytes: number;
  /** The most batches at once in this process whose destination has not been slow yet. As many may wait for slow ones. */
  slots: number;
  /** Who waits longer for an answer is slow. */
  patienceMs: number;
  /** Then it is the turn of another stream. */
  batchesInARow: number;
}

export const BUDGET: Budget = {
  ms: 60_000,
  bytes: 8_000_000,
  slots: 12,
  patienceMs: 2_000,
  batchesInARow: 5,
};

export interface RoundOptions extends DeliverOptions {
  queue: Pick<Queue, "take" | "settle" | "recut">;
  budget: Budget;
  log: (line: Record<string, unknown>) => void;
  /** Of all rounds of this process: how many batches are on their way, and why the last was stopped, if it was. */
  active: { quick: number; slow: number; stopped?: string | undefined };
}

/**
 * Delivers what is due, until there is no more or the budget is spent. Nobody knows beforehand which destination is
 * dead. So a batch that waits for long gives its slot to another and continues in a slot for slow ones. If these are all
 * taken, it is given up, and the stream is tried again when one is free: dead destinations never hold up all slots.
 * Returns how many entries were delivered.
 */
export async function round(options: RoundOptions): Promise<{ entries: number }> {
  const { queue, budget, log, active } = options;
  const end = performance.now() + budget.ms;
  const done = { entries: 0 };
  let bytes = 0;
  const isOver = () => performance.now() > end || bytes >= budget.bytes;
  const working = new Set<Promise<void>>();

  function startWorker(): void {
    if (isOver() || active.quick >= budget.slots) return;
    active.quick++;
    const slot: Slot = { isSlow: false };
    const worker = work(slot)
      // The database does not answer: the next ring tries again.
      .catch((error) => log({ error: String(error) }))
      .finally(() => {
        working.delete(worker);
        active[slot.isSlow ? "slow" : "quick"]--;
        if (slot.isSlow) startWorker();
      });
    working.add(worker);
  }

  async function work(slot: Slot): Promise<void> {
    while (!isOver() && !slot.isSlow) {
      const taken = await queue.take(active.slow >= budget.slots);
      if ("batch" in taken) {
        // There may be another one.
        startWorker();
        await workFor(taken.batch, slot);
      } else {
        if (taken.stopped && taken.stopped !== active.stopped) log({ stopped: taken.stopped });
        active.stopped = taken.stopped;
        if (!taken.more) return;
        // A log may be long, and a call without a batch takes processor time, too.
        bytes += BATCH_COST;
      }
    }
  }

  /** Delivers a stream's batches, while it is quick and until others have their turn. */
  async function workFor(batch: Leased | undefined, slot: Slot): Promise<void> {
    for (let n = 1; batch; n++) {
      bytes += batch.lines.reduce((sum, line) => sum + line.length + 1, BATCH_COST);
      const outcome = await deliverPatiently(batch, slot);
      if (outcome.decision === "delivered") {
        done.entries += batch.what === "entries" ? batch.lines.length : 0;
      } else {
        const { stream_id, attempt, destination: { url } } = batch;
        const { decision, status, error } = outcome;
        log({ stream_id, host: URL.parse(url)?.host, attempt, decision, status, error });
      }
      const wantsMore = !slot.isSlow && n < budget.batchesInARow && !isOver();
      const next = await queue.settle(batch, outcome, wantsMore);
      batch = "batch" in next ? next.batch : undefined;
    }
  }

  async function deliverPatiently(batch: Leased, slot: Slot) {
    const giveUp = new AbortController();
    const timer = setTimeout(() => {
      if (slot.isSlow) return;
      if (active.slow >= budget.slots) {
        const error = "it was slow while many others were slow, too: it is tried again";
        return giveUp.abort(new Error(error));
      }
      slot.isSlow = true;
      active.quick--;
      active.slow++;
      startWorker();
    }, budget.patienceMs);
    const outcome = await deliver(batch, options, giveUp.signal);
    clearTimeout(timer);
    return outcome;
  }

  startWorker();
  while (working.size > 0) await Promise.race(working);
  return done;
}

/** What a worker takes of the most batches at once. It becomes slow once. */
interface Slot {
  isSlow: boolean;
}
