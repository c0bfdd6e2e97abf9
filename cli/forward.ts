import { persist, refuse, selectionOf } from "./client.ts";
import { lock, readProgress, writeWhole } from "./files.ts";
import { follow, type FollowOptions } from "./follow.ts";
import type { Sink } from "./sinks.ts";

/** How much was delivered, as in the state file. */
interface Progress {
  after: string;
  /** The sink that it was delivered to; none if `follow` printed it. */
  to?: string | undefined;
  pages: number;
  entries: number;
}

/** Delivers entries to a sink, each at least once: saves the cursor after the sink has confirmed. Returns how many. */
export async function forward(
  sink: Sink,
  options: FollowOptions & { to?: string; state?: string | undefined },
): Promise<number> {
  const { to, state } = options;
  if (state) await lock(state);
  const saved = state ? readProgress<Progress>(state) : undefined;
  if (saved && saved.to !== to) {
    refuse(
      `${state} is the state of ${saved.to ? `forward --to=${saved.to}` : "follow"}: give each a ` +
        '--state of its own. If the sink has a new URL, correct "to" in that file.',
    );
  }
  let progress: Progress = saved ?? { after: "beginning", pages: 0, entries: 0 };
  const before = progress.entries;
  for await (const page of follow({ ...options, after: progress.after })) {
    const { lines, cursor, hasMore, organizationId } = page;
    // Nothing new: the saved cursor leads to the same entries, so it need not be replaced.
    if (lines.length === 0 && !hasMore) continue;
    const { after, pages, entries } = progress;
    const from = [organizationId, new URLSearchParams(selectionOf(options)), after].join(" ");
    for (const piece of pieces(lines, sink)) {
      const delivery = { lines: piece, organizationId, number: pages, from, say: options.say };
      await persist(() => sink(delivery), options);
    }
    progress = { after: cursor, pages: pages + 1, entries: entries + lines.length, to };
    if (state) writeWhole(state, JSON.stringify(progress));
  }
  return progress.entries - before;
}

/** Splits lines into pieces of so many bytes and entries at most. A line that is longer is a piece of its own. */
function pieces(
  lines: string[],
  { mostBytes = Infinity, mostEntries = Infinity }: Sink,
): string[][] {
  const all: string[][] = [];
  let [piece, bytes]: [string[], number] = [[], 0];
  for (const line of lines) {
    const length = Buffer.byteLength(line) + 2;
    if (all.length === 0 || piece.length === mostEntries || bytes + length > mostBytes) {
      all.push(piece = []);
      bytes = 0;
    }
    piece.push(line);
    bytes += length;
  }
  return all;
}
