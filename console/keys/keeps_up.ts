import { dayOf, formatRelative, formatTime, today } from "../shared/days.ts";
import type { ApiKey } from "./data.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** A key that asks for so long without catching up is behind: single requests of another kind do not count. */
const PATIENCE_MS = 60 * 1000;

/** Whether an application with a live key reads the log as fast as it grows, in words and as a colour. */
export function keepsUp({ last_used_at, reads, caught_up_at }: ApiKey): [string, string] {
  if (!last_used_at) return ["never used", "var(--waiting)"];
  const silent = Math.floor((Date.now() - Date.parse(last_used_at)) / DAY_MS);
  if (silent > 0) return [`silent for ${silent === 1 ? "a day" : `${silent} days`}`, "var(--bad)"];
  if (!reads) return ["read no entries", "var(--waiting)"];
  if (reads === "pages") return ["reads by pages", "var(--waiting)"];
  if (!caught_up_at) return ["not caught up yet", "var(--soon)"];
  if (Date.parse(last_used_at) - Date.parse(caught_up_at) > PATIENCE_MS) {
    const day = dayOf(caught_up_at);
    const since = day === today() ? formatTime(caught_up_at, "utc").slice(11, 16) : day;
    return [`behind since ${since}`, "var(--soon)"];
  }
  return [`caught up ${formatRelative(caught_up_at, "narrow")}`, "var(--good)"];
}
