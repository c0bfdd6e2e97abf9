import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { today } from "../shared/days.ts";
import { type AuditEntry, type LogFilter, parseEntries, readFeed } from "../data/entries.ts";

const POLL_MS = 2_000;
/** The pause before the next page of an answer that has more. */
const MORE_MS = 1;
/** How many entries stay on the screen. */
const KEPT = 500;

export interface Feed {
  cursor: string;
  /** The last to arrive comes first. */
  entries: AuditEntry[];
  /** How many have arrived, of which the last 500 are kept. */
  received: number;
  /** Whether it has caught up since it began. */
  isCaughtUp: boolean;
}

const NOTHING: Feed = { cursor: "beginning", entries: [], received: 0, isCaughtUp: false };

/** Follows a log from the beginning of today (UTC). Each entry comes once, also one that is committed late. */
export function useFeed(filter: LogFilter, isOn: boolean) {
  const start = useMemo(today, [isOn]);
  const followed = { ...filter, start, end: "9999-12-31" };
  const { data, error } = useQuery({
    queryKey: ["feed", followed],
    enabled: isOn,
    queryFn: async ({ signal, client, queryKey }): Promise<Feed> => {
      // The cursor and its entries are one value, so that a failed request changes neither.
      const feed = client.getQueryData<Feed>(queryKey) ?? NOTHING;
      const { items, cursor, has_more } = await readFeed(followed, feed.cursor, signal);
      const entries = parseEntries(`[${items.slice(-KEPT)}]`).reverse();
      return {
        cursor,
        entries: entries.length ? [...entries, ...feed.entries].slice(0, KEPT) : feed.entries,
        received: feed.received + items.length,
        isCaughtUp: !has_more || feed.isCaughtUp,
      };
    },
    // Paused while the tab is hidden.
    refetchInterval: ({ state: { data } }) => data?.isCaughtUp === false ? MORE_MS : POLL_MS,
    structuralSharing: false,
    staleTime: Infinity,
    gcTime: 0,
  });
  return { start, error, ...data ?? NOTHING };
}
