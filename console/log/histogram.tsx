import { Box, Group } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { EntryCounts } from "../data/entries.ts";
import { addDays, count, countDays, type Days, formatDays, PRESETS } from "../shared/days.ts";
import styles from "./histogram.module.css";
import { NO_ENTRY } from "./use_log_search.ts";

/** A bar of a longer range stands for several days. More bars would be too narrow to press. */
const MAX_BARS = 30;

export function Histogram({ counts }: { counts: EntryCounts }) {
  const bars = barsOf(counts);
  const days = bars[0] ? countDays(bars[0]) : 1;
  const highest = Math.max(1, ...bars.map(({ entries }) => entries));
  return (
    <figure>
      <Box component="ul" className={styles.bars} aria-label="Entries by day">
        {bars.map(({ start, end, entries }) => {
          const label = `${formatDays({ start, end })}: ${count(entries, "entry", "entries")}`;
          return (
            <li key={start}>
              <Link
                from="/$organizationId/log"
                to="."
                search={(before) => ({ ...before, ...NO_ENTRY, range: undefined, start, end })}
                aria-label={label}
                title={label}
              >
                <div style={{ height: `${entries && Math.max(2, entries / highest * 100)}%` }} />
              </Link>
            </li>
          );
        })}
      </Box>
      <Group component="figcaption" justify="space-between" fz={11} c="dimmed" aria-hidden>
        <span>{bars[0]?.start}</span>
        <span>Each bar: {count(days, "day")}, at most {count(highest, "entry", "entries")}</span>
        <span>{bars.at(-1)?.end}</span>
      </Group>
    </figure>
  );
}

interface Bar extends Days {
  entries: number;
}

function barsOf({ items, ...days }: EntryCounts): Bar[] {
  const [first, last] = [items[0]?.day, items.at(-1)?.day];
  // All of the log begins with its first entry.
  const isAll = days.start === PRESETS.all.days().start;
  const { start, end } = isAll && first && last ? { start: first, end: last } : days;
  const total = countDays({ start, end });
  const size = Math.ceil(total / MAX_BARS);
  const bars = Array.from({ length: Math.ceil(total / size) }, (_, n): Bar => ({
    start: addDays(start, n * size),
    end: addDays(start, Math.min(total, (n + 1) * size) - 1),
    entries: 0,
  }));
  for (const { day, entries } of items) {
    const bar = bars[Math.floor((countDays({ start, end: day }) - 1) / size)];
    if (bar) bar.entries += entries;
  }
  return bars;
}
