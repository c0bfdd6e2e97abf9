import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type ApiKey, isLive } from "../data/api_keys.ts";
import { count, DAY_MS, dayOf, formatRelative, formatTime, now, today } from "../shared/days.ts";
import type { StateProps } from "../shared/parts.tsx";

/** The state of a key in words. The lower its rank, the sooner it needs somebody. */
interface Label extends StateProps {
  rank: number;
}

/** The rank of a key that needs nobody. */
const FINE = 9;

/** A key is behind if its last request came more than this long after it last caught up. */
const PATIENCE_MS = 60 * 1000;

/** The keys that a key was rotated to, one after the other. */
function successorsOf({ successor_id }: ApiKey, all: ApiKey[]): ApiKey[] {
  const successor = successor_id && all.find(({ id }) => id === successor_id);
  return successor ? [successor, ...successorsOf(successor, all)] : [];
}

/** The latest successor of a key whose application never began to use it. Its data stops when the key expires. */
export function unusedSuccessorOf(apiKey: ApiKey, all: ApiKey[]): ApiKey | undefined {
  const successors = successorsOf(apiKey, all);
  const isMoved = successors.some(({ last_used_at }) => last_used_at !== null);
  return apiKey.last_used_at && !apiKey.revoked_at && !isMoved
    ? successors.findLast(isLive)
    : undefined;
}

/** The key that a key has replaced, while it still works. */
export function predecessorOf(id: string, all: ApiKey[]): ApiKey | undefined {
  return all.find((key) => key.successor_id === id && isLive(key));
}

/** What people should know of a key: first what needs somebody most urgently. */
export function labelsOf(apiKey: ApiKey, all: ApiKey[]): [Label, ...Label[]] {
  const { state, expires_at, owner_left_at } = apiKey;
  const isRotated = successorsOf(apiKey, all).length > 0;
  const soon = { colour: "var(--soon)" };
  const labels: Label[] = [];
  if (unusedSuccessorOf(apiKey, all)) {
    const name = isLive(apiKey) ? "Data will stop" : "Data has stopped";
    labels.push({ name, colour: "var(--bad)", rank: 0 });
  } else if (state === "expiring") {
    const name = `Expires ${formatRelative(expires_at ?? "")}`;
    labels.push(
      isRotated ? { name, colour: "var(--waiting)", rank: FINE } : { name, ...soon, rank: 1 },
    );
  }
  if (isLive(apiKey) && owner_left_at) labels.push({ name: "Owner left", ...soon, rank: 2 });
  if (isLive(apiKey) && !isRotated && lateness(apiKey)) {
    labels.push({ name: lateness(apiKey), ...soon, rank: 3 });
  }
  const [first, ...others] = labels;
  if (first) return [first, ...others];
  const name =
    { active: "Active", expiring: "Active", expired: "Expired", revoked: "Revoked" }[state];
  // Green says that it reads.
  const isReading = isLive(apiKey) && apiKey.read_mode !== null;
  return [{ name, colour: isReading ? "var(--good)" : "var(--waiting)", rank: FINE }];
}

export function needsSomebody(apiKey: ApiKey, all: ApiKey[]): boolean {
  return labelsOf(apiKey, all)[0].rank < FINE;
}

/** What needs somebody comes first. */
export function sortByNeed(all: ApiKey[]): ApiKey[] {
  return all.toSorted((a, b) => labelsOf(a, all)[0].rank - labelsOf(b, all)[0].rank);
}

/** Says since when a key that follows the log does not keep up. Empty if it does, or if it reads by date. */
function lateness({ last_used_at, read_mode, caught_up_at }: ApiKey): string {
  if (!last_used_at || read_mode !== "feed") return "";
  const silent = Math.floor((now() - Date.parse(last_used_at)) / DAY_MS);
  if (silent > 0) return `Silent for ${count(silent, "day")}`;
  if (!caught_up_at || Date.parse(last_used_at) - Date.parse(caught_up_at) <= PATIENCE_MS) {
    return "";
  }
  const day = dayOf(caught_up_at);
  return `Behind since ${day === today() ? `${formatTime(caught_up_at).slice(11, 16)} UTC` : day}`;
}

/** Says how a live key reads the log. */
function progressOf(apiKey: ApiKey): string {
  const { last_used_at, read_mode, caught_up_at } = apiKey;
  if (!last_used_at) return "never used";
  if (!read_mode) return "0 entries read";
  if (lateness(apiKey)) return "";
  if (read_mode === "pages") return "reads by date: may be incomplete";
  return caught_up_at ? `caught up ${formatRelative(caught_up_at)}` : "not caught up yet";
}

/** Says what became of a key, under its labels. `all` has its successor. */
export function explainState(apiKey: ApiKey, all: ApiKey[]): ReactNode {
  const { revoked_at, revoked_by_email, expires_at } = apiKey;
  if (revoked_at) return `${dayOf(revoked_at)}${revoked_by_email ? ` by ${revoked_by_email}` : ""}`;
  const isStopping = unusedSuccessorOf(apiKey, all) !== undefined;
  const end = expires_at ? `${isStopping ? "on" : "until"} ${dayOf(expires_at)}` : "never expires";
  const [successor] = successorsOf(apiKey, all);
  if (!successor) {
    return isLive(apiKey) ? [end, progressOf(apiKey)].filter(Boolean).join(", ") : end;
  }
  return (
    <>
      {end}, rotated to{" "}
      <Link
        from="/$organizationId/keys"
        to="."
        search={{ text: successor.hint }}
        title="Show its successor"
      >
        {successor.hint}
      </Link>
      {isStopping && ", unused"}
    </>
  );
}
