import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { today } from "../shared/days.ts";
import { type AuditEntry, type LogFilter, parseEntries, readFeed } from "./data.ts";

/** How long between two questions when there was nothing new, and when there was more. */
const POLL_MS = 2_000;
const MORE_MS = 1;
/** Entries that stay on the screen. */
const KEPT = 500;

export interface Feed {
  cursor: string;
  /** The latest to arrive first. */
  entries: AuditEntry[];
  /** How many have arrived, also those that are not kept. */
  received: number;
  /** Whether there has been nothing left to read. */
  isCaughtUp: boolean;
}

const NOTHING: Feed = { cursor: "beginning", entries: [], received: 0, isCaughtUp: false };

/** Follows a log from the beginning of today (UTC): every entry once, also those committed late. */
export function useFeed({ organizationId, action, person }: LogFilter, isOn: boolean) {
  const start = useMemo(today, [isOn]);
  const { data, error } = useQuery({
    queryKey: ["feed", organizationId, action, person, start],
    enabled: isOn,
    queryFn: async ({ signal, client, queryKey }): Promise<Feed> => {
      // The cursor and what it has seen are one value: a question that fails changes neither.
      const feed = client.getQueryData<Feed>(queryKey) ?? NOTHING;
      const days = { start, end: "9999-12-31" };
      const filter = { organizationId, action, person, ...days };
      const { items, next, isCaughtUp } = await readFeed(filter, feed.cursor, signal);
      const entries = parseEntries(`[${items.slice(-KEPT)}]`).reverse();
      return {
        cursor: next,
        entries: entries.length ? [...entries, ...feed.entries].slice(0, KEPT) : feed.entries,
        received: feed.received + items.length,
        isCaughtUp: isCaughtUp || feed.isCaughtUp,
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
