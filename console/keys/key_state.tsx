import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type ApiKey, isLive } from "../data/api_keys.ts";
import { count, DAY_MS, dayOf, formatRelative, formatTime, now, today } from "../shared/days.ts";
import type { StateProps } from "../shared/parts.tsx";

export const STATES: Record<ApiKey["state"], StateProps> = {
  active: { name: "Active", colour: "var(--good)" },
  expiring: { name: "Expires soon", colour: "var(--soon)" },
  expired: { name: "Expired", colour: "var(--waiting)" },
  revoked: { name: "Revoked", colour: "var(--waiting)" },
};

/** A key is behind if its last request came more than this long after it last caught up. */
const PATIENCE_MS = 60 * 1000;

/** Says whether a live key reads the log as fast as it grows. */
function keepsUp({ last_used_at, read_mode, caught_up_at }: ApiKey): string {
  if (!last_used_at) return "";
  const silent = Math.floor((now() - Date.parse(last_used_at)) / DAY_MS);
  if (silent > 0) return `silent for ${count(silent, "day")}`;
  if (!read_mode) return "read no entries";
  if (read_mode === "pages") return "reads by pages";
  if (!caught_up_at) return "not caught up yet";
  if (Date.parse(last_used_at) - Date.parse(caught_up_at) > PATIENCE_MS) {
    const day = dayOf(caught_up_at);
    return `behind since ${day === today() ? formatTime(caught_up_at).slice(11, 16) : day}`;
  }
  return `caught up ${formatRelative(caught_up_at)}`;
}

/** Says what became of a key. `all` has its successor. */
export function explainState(apiKey: ApiKey, all: ApiKey[]): ReactNode {
  const { revoked_at, revoked_by_email, successor_id } = apiKey;
  if (revoked_at) return `${dayOf(revoked_at)}${revoked_by_email ? ` by ${revoked_by_email}` : ""}`;
  const successor = all.find(({ id }) => id === successor_id);
  if (!successor) return isLive(apiKey) && keepsUp(apiKey);
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
