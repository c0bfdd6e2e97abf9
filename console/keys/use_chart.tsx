import type { Reads } from "../access/data.ts";
import { addDays, count, type Days, today } from "../shared/days.ts";
import { Hint } from "../shared/parts.tsx";
import styles from "./keys.module.css";

export interface UseChartProps {
  reads: Reads[] | undefined;
  days: Days;
}

/** Requests by day. */
export function UseChart({ reads, days }: UseChartProps) {
  if (!reads) return <Hint>…</Hint>;
  const byDay = new Map(reads.map(({ day, requests }) => [day, requests]));
  const total = reads.reduce((sum, { requests }) => sum + requests, 0);
  if (total === 0) return <Hint>none</Hint>;
  const bars: number[] = [];
  for (let day = days.start; day <= days.end; day = addDays(day, 1)) bars.push(byDay.get(day) ?? 0);
  const highest = Math.max(...bars);
  const ofToday = (byDay.get(today()) ?? 0).toLocaleString("en");
  return (
    <>
      <svg
        className={styles.use}
        viewBox={`0 0 ${bars.length * 3} 20`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Requests by day: ${bars.join(" ")}`}
      >
        {bars.map((requests, index) => {
          const height = requests ? Math.max(1, requests / highest * 20) : 0;
          return <rect key={index} x={index * 3} y={20 - height} width={2} height={height} />;
        })}
      </svg>
      <Hint>{count(total, "request")}, {ofToday} today</Hint>
    </>
  );
}
