import { follow, type FollowOptions, persist } from "./client.ts";
import { lock, readPlace, writeWhole } from "./files.ts";
import type { Sink } from "./sinks.ts";

/** What was delivered, as the state file has it. */
interface Place {
  after: string;
  batches: number;
  entries: number;
}

/**
 * Delivers entries to a sink, page by page. The place is saved after the sink has confirmed, so a batch that was
 * confirmed just before the process ended is delivered again: at least once. Returns how many entries.
 */
export async function forward(
  sink: Sink,
  options: FollowOptions & { state?: string | undefined; show?: (entries: number) => void },
): Promise<number> {
  const { state, start, end, action, signal = null } = options;
  if (state) await lock(state);
  let place = (state ? readPlace<Place>(state) : undefined) ??
    { after: "beginning", batches: 0, entries: 0 };
  const before = place.entries;
  const retrying = { ...options, mostFailures: Infinity };
  for await (const page of follow({ ...retrying, after: place.after })) {
    const { lines, items, next, hasMore, organizationId } = page;
    // Leads to no other entries than the place that was saved.
    if (lines.length === 0 && !hasMore) continue;
    const { after, batches, entries } = place;
    if (lines.length > 0) {
      const from = [organizationId, start, end, action, after].join(" ");
      await persist(() => sink({ lines, items, number: batches, from, signal }), retrying);
    }
    place = { after: next, batches: batches + 1, entries: entries + lines.length };
    if (state) writeWhole(state, JSON.stringify(place));
    options.show?.(place.entries - before);
  }
  return place.entries - before;
}
