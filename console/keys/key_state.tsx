import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type ApiKey, isLive } from "../data/api_keys.ts";
import { count, DAY_MS, dayOf, formatRelative, formatTime, now, today } from "../shared/days.ts";
import { State, type StateProps } from "../shared/parts.tsx";

export const STATES: Record<ApiKey["state"], StateProps> = {
  active: { name: "Active", colour: "var(--good)" },
  expiring: { name: "Expires soon", colour: "var(--soon)" },
  expired: { name: "Expired", colour: "var(--waiting)" },
  revoked: { name: "Revoked", colour: "var(--waiting)" },
};

/** A key is behind if its last request came more than this long after it last caught up. */
const PATIENCE_MS = 60 * 1000;

/** Says whether a live key reads the log as fast as it grows, in words and as a colour. */
function keepsUp({ last_used_at, reads, caught_up_at }: ApiKey): StateProps {
  if (!last_used_at) return { name: "never used", colour: "var(--waiting)" };
  const silent = Math.floor((now() - Date.parse(last_used_at)) / DAY_MS);
  if (silent > 0) {
    return { name: `silent for ${count(silent, "day")}`, colour: "var(--bad)" };
  }
  if (!reads) return { name: "read no entries", colour: "var(--waiting)" };
  if (reads === "pages") return { name: "reads by pages", colour: "var(--waiting)" };
  if (!caught_up_at) return { name: "not caught up yet", colour: "var(--soon)" };
  if (Date.parse(last_used_at) - Date.parse(caught_up_at) > PATIENCE_MS) {
    const day = dayOf(caught_up_at);
    const since = day === today() ? formatTime(caught_up_at).slice(11, 16) : day;
    return { name: `behind since ${since}`, colour: "var(--soon)" };
  }
  return {
    name: `caught up ${formatRelative(caught_up_at, "narrow")}`,
    colour: "var(--good)",
  };
}

/** Says whether a live key keeps up, or the state of another key. */
export function KeepsUp({ apiKey }: { apiKey: ApiKey }) {
  const { name, colour } = STATES[apiKey.state];
  return <State {...isLive(apiKey) ? keepsUp(apiKey) : { name: name.toLowerCase(), colour }} />;
}

/** Says what became of a key. `all` has its successor. */
export function explainState(apiKey: ApiKey, all: ApiKey[]): ReactNode {
  const { revoked_at, revoked_by_email, successor_id, last_used_at } = apiKey;
  if (revoked_at) return `${dayOf(revoked_at)}${revoked_by_email ? ` by ${revoked_by_email}` : ""}`;
  const successor = all.find(({ id }) => id === successor_id);
  if (!successor) return isLive(apiKey) && last_used_at && keepsUp(apiKey).name;
  return (
    <>
      rotated to{" "}
      <Link
        from="/$organizationId/keys"
        to="."
        search={{ text: successor.hint }}
        title="Show its successor"
      >
        {successor.hint}
      </Link>
    </>
  );
}
