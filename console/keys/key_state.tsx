import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { count, DAY_MS, dayOf, formatRelative, formatTime, today } from "../shared/days.ts";
import { State } from "../shared/parts.tsx";
import { type ApiKey, isLive } from "./data.ts";

export const STATES: Record<ApiKey["state"], { name: string; colour: string }> = {
  active: { name: "Active", colour: "var(--good)" },
  expiring: { name: "Expires soon", colour: "var(--soon)" },
  expired: { name: "Expired", colour: "var(--waiting)" },
  revoked: { name: "Revoked", colour: "var(--waiting)" },
};

/** A key is behind if its last request came more than this long after it last caught up. */
const PATIENCE_MS = 60 * 1000;

/** Says whether a live key reads the log as fast as it grows, in words and as a colour. */
function keepsUp({ last_used_at, reads, caught_up_at }: ApiKey): [string, string] {
  if (!last_used_at) return ["never used", "var(--waiting)"];
  const silent = Math.floor((Date.now() - Date.parse(last_used_at)) / DAY_MS);
  if (silent > 0) return [`silent for ${count(silent, "day")}`, "var(--bad)"];
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

/** Says whether a live key keeps up, or the state of another key. */
export function KeepsUp({ apiKey }: { apiKey: ApiKey }) {
  const { name, colour } = STATES[apiKey.state];
  const [text, dot] = isLive(apiKey) ? keepsUp(apiKey) : [name.toLowerCase(), colour];
  return <State name={text} colour={dot} />;
}

/** Says what became of a key. `all` has its successor. */
export function explainState(apiKey: ApiKey, all: ApiKey[]): ReactNode {
  const { revoked_at, revoked_by_email, successor_id, last_used_at } = apiKey;
  if (revoked_at) return `${dayOf(revoked_at)}${revoked_by_email ? ` by ${revoked_by_email}` : ""}`;
  const successor = all.find(({ id }) => id === successor_id);
  if (!successor) return isLive(apiKey) && last_used_at && keepsUp(apiKey)[0];
  return (
    <>
      rotated to{" "}
      <Link
        from="/$organizationId/keys"
        to="."
        search={{ search: successor.hint }}
        title="Show its successor"
      >
        {successor.hint}
      </Link>
    </>
  );
}
