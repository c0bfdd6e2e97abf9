import { useEffect, useState } from "react";
import { type AuditEntry, type LogFilter, parseEntries, readFeed } from "./data.ts";
import { today } from "./days.ts";

/** How long between two questions when there was nothing new. */
const POLL_MS = 2_000;
/** Entries that stay on the screen. */
const KEPT = 500;

export interface Feed {
  /** Its first day. */
  start: string;
  /** The latest to arrive first. */
  entries: AuditEntry[];
  /** How many have arrived, also those that are not kept. */
  received: number;
  /** Whether there has been nothing left to read. */
  isCaughtUp: boolean;
  error: Error | null;
}

const NOTHING = { entries: [], received: 0, isCaughtUp: false, error: null };

/** Follows a log from the beginning of today (UTC): every entry once, also those committed late. */
export function useFeed({ organizationId, action }: LogFilter, isOn: boolean): Feed {
  const [feed, setFeed] = useState<Feed>({ start: "", ...NOTHING });
  useEffect(() => {
    if (!isOn) return;
    const start = today();
    setFeed({ start, ...NOTHING });
    const controller = new AbortController();
    follow({ organizationId, action, start, end: "9999-12-31" }, controller.signal, setFeed);
    return () => controller.abort();
  }, [organizationId, action, isOn]);
  return feed;
}

async function follow(
  filter: LogFilter,
  signal: AbortSignal,
  setFeed: (change: (feed: Feed) => Feed) => void,
): Promise<void> {
  let cursor = "beginning";
  while (!signal.aborted) {
    try {
      const { items, next, isCaughtUp } = await readFeed(filter, cursor, signal);
      const entries = parseEntries(`[${items.slice(-KEPT)}]`).reverse();
      cursor = next;
      setFeed((feed) => ({
        start: feed.start,
        entries: entries.length ? [...entries, ...feed.entries].slice(0, KEPT) : feed.entries,
        received: feed.received + items.length,
        isCaughtUp: isCaughtUp || feed.isCaughtUp,
        error: null,
      }));
      if (!isCaughtUp) continue;
    } catch (error) {
      if (signal.aborted) return;
      setFeed((feed) => ({
        ...feed,
        error: error instanceof Error ? error : Error(String(error)),
      }));
    }
    await pause(signal);
  }
}

/** Waits for the next question; longer while nobody looks. */
async function pause(signal: AbortSignal): Promise<void> {
  do {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  } while (document.visibilityState === "hidden" && !signal.aborted);
}
