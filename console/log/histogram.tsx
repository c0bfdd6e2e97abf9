import { Box, Group, Paper, Text } from "@mantine/core";
import { type KeyboardEvent, type PointerEvent, useMemo, useRef, useState } from "react";
import type { LogDays } from "../data/log_days.ts";
import { SEAL_STATES, type SealState } from "../data/seals.ts";
import { addDays, count, countDays, type Days, formatDays } from "../shared/days.ts";
import { State } from "../shared/parts.tsx";
import styles from "./histogram.module.css";

/** A bar of a longer range stands for several days. Otherwise it would be thinner than a phone's pixel. */
const MAX_BARS = 120;
/** The distance between ticks is the first of these that makes at most seven. */
const HOURS_BETWEEN_TICKS = [4, 8, 12, 24];
const MAX_TICKS = 7;

/** The worst state comes first. */
const STATES = Object.keys(SEAL_STATES) as SealState[];

interface Bar extends Days {
  name: string;
  tick: string;
  entries: number;
  state: SealState;
}

interface HistogramProps {
  days: LogDays;
  /** `newer` is how many entries of the range come after the chosen days. */
  onSelect: (days: Days, newer: number) => void;
}

/**
 * Draws entries by hour or day, with the state of the day's seal under each bar. A person chooses days by dragging, or
 * with the arrow keys, Shift and Enter. No chart of a library can do this.
 */
export function Histogram({ days, onSelect }: HistogramProps) {
  const bars = useMemo(() => barsOf(days), [days]);
  const tickEvery = days.isByHour
    ? HOURS_BETWEEN_TICKS.find((hours) => bars.length / hours <= MAX_TICKS) ?? 24
    : Math.ceil(bars.length / MAX_TICKS);
  const highest = Math.max(1, ...bars.map(({ entries }) => entries));
  const total = bars.reduce((sum, { entries }) => sum + entries, 0);
  // The chosen days reach from the anchor, where the choice began, to the bar at hand.
  const [anchor, setAnchor] = useState<number | null>(null);
  const [hand, setHand] = useState<number | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const last = bars.length - 1;
  const at = Math.min(hand ?? last, last);
  const [from, to] = [Math.min(anchor ?? at, at), Math.max(anchor ?? at, at)];
  const [first, final] = [bars[from], bars[to]];
  const chosen = first && final && { start: first.start, end: final.end };
  const between = bars.slice(from, to + 1).reduce((sum, { entries }) => sum + entries, 0);
  const caption = hand !== null && chosen &&
    (anchor === null
      ? labelOf(final)
      : `${formatDays(chosen)}: ${count(between, "entry", "entries")}`);

  function choose(): void {
    setAnchor(null);
    const newer = bars.slice(to + 1).reduce((sum, { entries }) => sum + entries, 0);
    if (chosen) onSelect(chosen, newer);
  }
  function barUnder({ clientX }: PointerEvent): number {
    const { left, width } = list.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return Math.max(0, Math.min(last, Math.floor((clientX - left) / width * bars.length)));
  }
  function move(event: KeyboardEvent): void {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (to !== undefined) {
      const next = Math.max(0, Math.min(last, to));
      setAnchor(event.shiftKey ? anchor ?? at : null);
      setHand(next);
      const element = list.current?.children[next];
      if (element instanceof HTMLElement) element.focus();
    } else if (event.key === "Enter" || event.key === " ") choose();
    else if (event.key === "Escape") setAnchor(null);
    else return;
    event.preventDefault();
  }

  return (
    <Paper component="figure" withBorder px="sm" py={8}>
      <Group component="figcaption" justify="space-between" gap={0}>
        <strong>{count(total, "entry", "entries")}</strong>
        <Text className={styles.ticks ?? ""} fz={11} c="dimmed" aria-hidden>
          {total > 0 && `highest ${highest.toLocaleString("en")}`}
          {STATES.filter((state) => state !== "empty" && bars.some((bar) => bar.state === state))
            .map((state) => (
              <Text span inherit key={state} ml="sm">
                <State {...SEAL_STATES[state]} />
              </Text>
            ))}
        </Text>
      </Group>
      <Box pos="relative">
        <div
          ref={list}
          className={styles.bars}
          role="listbox"
          aria-orientation="horizontal"
          aria-multiselectable
          aria-label={`Entries by ${
            days.isByHour ? "hour" : "day"
          }. Choose days with the arrow keys and Shift, then press Enter.`}
          onKeyDown={move}
          onPointerDown={(event) => {
            if (event.button !== 0) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            setAnchor(barUnder(event));
            setHand(barUnder(event));
          }}
          onPointerMove={(event) => setHand(barUnder(event))}
          onPointerUp={() => anchor !== null && choose()}
          onPointerCancel={() => setAnchor(null)}
          onPointerLeave={() => anchor === null && setHand(null)}
        >
          {bars.map((bar, index) => (
            <div
              key={index}
              role="option"
              aria-label={labelOf(bar)}
              aria-selected={anchor !== null && index >= from && index <= to}
              tabIndex={index === at ? 0 : -1}
              style={{ borderColor: SEAL_STATES[bar.state].colour }}
              onFocus={() => setHand(index)}
              onBlur={() => anchor === null && setHand(null)}
            >
              <div
                style={{ height: `${bar.entries ? Math.max(2, bar.entries / highest * 100) : 0}%` }}
              />
            </div>
          ))}
        </div>
        {caption && <Caption text={caption} at={(at + 0.5) / bars.length * 100} />}
      </Box>
      <Group className={styles.ticks ?? ""} gap={0} wrap="nowrap" fz={11} c="dimmed" aria-hidden>
        {bars.map(({ tick }, index) =>
          index % tickEvery === 0 && (
            <span
              key={index}
              style={{
                flex: Math.min(tickEvery, bars.length - index),
                minWidth: 0,
                whiteSpace: "nowrap",
              }}
            >
              {/* A text in less room than half of the others have would stick out of the chart. */}
              {bars.length - index >= tickEvery / 2 && tick}
            </span>
          )
        )}
      </Group>
    </Paper>
  );
}

/** Follows the pointer over the ticks, `at` percent of the width. */
function Caption({ text, at }: { text: string; at: number }) {
  return (
    <Paper
      withBorder
      shadow="sm"
      pos="absolute"
      top="100%"
      left={`${at}%`}
      maw="100%"
      px={8}
      py={1}
      fz={12}
      // Keeps it within the chart.
      style={{ transform: `translateX(-${at}%)`, pointerEvents: "none", zIndex: 1 }}
    >
      <Text inherit truncate>{text}</Text>
    </Paper>
  );
}

/** A bar for each hour of a short range, and otherwise for each day or for several. */
function barsOf({ start, end, days, counts, isByHour }: LogDays): Bar[] {
  const perDay = isByHour ? 24 : 1;
  const total = countDays({ start, end }) * perDay;
  const size = isByHour ? 1 : Math.ceil(total / MAX_BARS);
  const bars = Array.from({ length: Math.ceil(total / size) }, (_, index): Bar => {
    const first = addDays(start, Math.floor(index * size / perDay));
    const last = isByHour ? first : addDays(start, Math.min(total, (index + 1) * size) - 1);
    const hour = `${String(index % perDay).padStart(2, "0")}:00`;
    const name = isByHour ? `${first} ${hour} UTC` : formatDays({ start: first, end: last });
    const tick = index % perDay === 0 ? first : hour;
    return { start: first, end: last, name, tick, entries: 0, state: "empty" };
  });
  const barOf = (day: string) => Math.floor((countDays({ start, end: day }) - 1) * perDay / size);
  for (const { day, hour = 0, entries } of counts) {
    const bar = bars[barOf(day) + hour];
    if (bar) bar.entries += entries;
  }
  for (const { day, state } of days) {
    for (const bar of bars.slice(barOf(day), barOf(day) + perDay)) {
      if (STATES.indexOf(state) < STATES.indexOf(bar.state)) bar.state = state;
    }
  }
  return bars;
}

function labelOf({ name, entries, state }: Bar): string {
  const stateName = SEAL_STATES[state].name.toLowerCase();
  return `${name}: ${count(entries, "entry", "entries")}${stateName && `, ${stateName}`}`;
}
