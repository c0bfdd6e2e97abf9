import { persist, refuse, selectionOf } from "./client.ts";
import { lock, readProgress, writeWhole } from "./files.ts";
import { follow, type FollowOptions } from "./follow.ts";
import type { Sink } from "./sinks.ts";

/** How much was delivered, as in the state file. */
interface Progress {
  /** The cursor. */
  after: string;
  /** The sink that it was delivered to; none if `follow` printed it. */
  to?: string | undefined;
  pages: number;
  entries: number;
}

/**
 * Delivers entries to a sink, page by page, each at least once: it saves the cursor after the sink has confirmed. If
 * it is killed between the two, the page is delivered again. Returns how many entries it delivered.
 */
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
    const { lines, items, cursor, hasMore, organizationId } = page;
    // Nothing new: the saved cursor leads to the same entries, so it need not be replaced.
    if (lines.length === 0 && !hasMore) continue;
    const { after, pages, entries } = progress;
    const from = [organizationId, new URLSearchParams(selectionOf(options)), after].join(" ");
    for (const [first, end] of pieces(lines, sink.mostBytes)) {
      const piece = { lines: lines.slice(first, end), items: items.slice(first, end) };
      const delivery = { ...piece, number: pages, from, say: options.say };
      await persist(() => sink(delivery), options);
    }
    progress = { after: cursor, pages: pages + 1, entries: entries + lines.length, to };
    if (state) writeWhole(state, JSON.stringify(progress));
  }
  return progress.entries - before;
}

/** Splits lines into pieces of so many bytes at most, or of one line: where each begins, and where it ends. */
function pieces(lines: string[], mostBytes = Infinity): [first: number, end: number][] {
  const starts = lines.length > 0 ? [0] : [];
  let bytes = 0;
  for (const [n, line] of lines.entries()) {
    const length = Buffer.byteLength(line) + 2;
    bytes += length;
    if (bytes <= mostBytes || n === starts.at(-1)) continue;
    starts.push(n);
    bytes = length;
  }
  return starts.map((first, n) => [first, starts[n + 1] ?? lines.length]);
}
