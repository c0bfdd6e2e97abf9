import { type KeyboardEvent, type PointerEvent, useMemo, useRef, useState } from "react";
import { SEAL_STATES, type Seals, type SealState, sealState } from "./data.ts";
import { addDays, count, countDays, type Days } from "./days.ts";

/** With more days a bar would be thinner than a pixel on a phone: it then stands for several. */
const MAX_BARS = 120;

/** The worst first. */
const STATES = Object.keys(SEAL_STATES) as SealState[];

interface Bar extends Days {
  entries: number;
  label: string;
  state: SealState;
}

export interface HistogramProps {
  days: Days;
  counts: Map<string, number>;
  seals: Seals | undefined;
  onSelect: (days: Days) => void;
}

/**
 * Entries by day, and under each bar whether the day is sealed. A range is chosen by dragging, or with
 * the arrow keys, Shift and Enter. Drawn here: of a library's chart none of this would be left.
 */
export function Histogram({ days, counts, seals, onSelect }: HistogramProps) {
  const bars = useMemo(() => toBars(days, counts, seals), [days.start, days.end, counts, seals]);
  const highest = Math.max(1, ...bars.map(({ entries }) => entries));
  const total = bars.reduce((sum, { entries }) => sum + entries, 0);
  // What is chosen so far: from the bar where it began to the one that is at hand.
  const [anchor, setAnchor] = useState<number | null>(null);
  const [hand, setHand] = useState<number | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const last = bars.length - 1;
  const at = Math.min(hand ?? last, last);
  const [from, to] = [Math.min(anchor ?? at, at), Math.max(anchor ?? at, at)];

  function choose(): void {
    const [first, final] = [bars[from], bars[to]];
    setAnchor(null);
    if (first && final) onSelect({ start: first.start, end: final.end });
  }
  function barUnder({ clientX }: PointerEvent): number {
    const { left, width } = list.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return Math.max(0, Math.min(last, Math.floor((clientX - left) / width * bars.length)));
  }
  function move(event: KeyboardEvent): void {
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      Home: 0,
      End: last,
    }[event.key];
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
    <figure className="histogram">
      <figcaption className="row between">
        <strong>{count(total, "entry", "entries")}</strong>
        <span className="hint" aria-hidden>
          {hand === null
            ? "Drag over days to look closer"
            : from === to
            ? bars[at]?.label
            : `${bars[from]?.start} – ${bars[to]?.end}`}
        </span>
      </figcaption>
      <div
        ref={list}
        className="bars"
        role="listbox"
        aria-orientation="horizontal"
        aria-multiselectable
        aria-label="Entries by day. Choose days with the arrow keys and Shift, then press Enter."
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
            key={bar.start}
            role="option"
            aria-label={bar.label}
            aria-selected={anchor !== null && index >= from && index <= to}
            tabIndex={index === at ? 0 : -1}
            onFocus={() => setHand(index)}
            onBlur={() => anchor === null && setHand(null)}
          >
            <div
              className="bar"
              style={{ height: `${bar.entries ? Math.max(2, bar.entries / highest * 100) : 0}%` }}
            />
            <div className="mark" data-state={bar.state} />
          </div>
        ))}
      </div>
      <div className="row between hint" aria-hidden>
        <span>{days.start}</span>
        <span className="row legend">
          {STATES.filter((state) => state !== "empty" && bars.some((bar) => bar.state === state))
            .map((state) => (
              <span key={state}>
                <i className="mark" data-state={state} /> {SEAL_STATES[state]}
              </span>
            ))}
        </span>
        <span>{days.end}</span>
      </div>
    </figure>
  );
}

function toBars(days: Days, counts: Map<string, number>, seals: Seals | undefined): Bar[] {
  const size = Math.ceil(countDays(days) / MAX_BARS);
  const bars: Bar[] = [];
  for (let start = days.start; start <= days.end; start = addDays(start, size)) {
    const end = [addDays(start, size - 1), days.end].sort()[0] ?? days.end;
    let entries = 0;
    const states = new Set<SealState>();
    for (let day = start; day <= end; day = addDays(day, 1)) {
      const ofDay = counts.get(day) ?? 0;
      entries += ofDay;
      states.add(sealState(day, ofDay, seals));
    }
    const state = STATES.find((state) => states.has(state)) ?? "empty";
    const label = [
      `${start === end ? start : `${start} – ${end}`}: ${count(entries, "entry", "entries")}`,
      SEAL_STATES[state],
    ].filter(Boolean).join(", ");
    bars.push({ start, end, entries, state, label });
  }
  return bars;
}
