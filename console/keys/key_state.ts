import { count, DAY_MS, formatRelative, now } from "../shared/days.ts";

export interface Key {
  id: string;
  hint: string;
  state: "active" | "expiring" | "expired" | "revoked";
  expires_at: string | null;
  successor_id: string | null;
  owner_left_at: string | null;
  last_used_at: string | null;
  read_mode: "feed" | "pages" | null;
}

export function isLive({ state }: Key): boolean {
  return state === "active" || state === "expiring";
}

/** The keys that a key was rotated to, one after the other. */
function successorsOf({ successor_id }: Key, all: Key[]): Key[] {
  const successor = successor_id && all.find(({ id }) => id === successor_id);
  return successor ? [successor, ...successorsOf(successor, all)] : [];
}

/**
 * The latest successor of a key that expires within a day or has expired, if no successor was ever used: the
 * application reads nothing from then on.
 */
export function unusedSuccessorOf(apiKey: Key, all: Key[]): Key | undefined {
  const { state, last_used_at, expires_at } = apiKey;
  if (!last_used_at || state === "revoked" || !expires_at) return undefined;
  if (Date.parse(expires_at) - now() > DAY_MS) return undefined;
  const successors = successorsOf(apiKey, all);
  if (successors.some((successor) => successor.last_used_at !== null)) return undefined;
  return successors.findLast(isLive);
}

interface KeyState {
  name: string;
  colour: string;
  /** The lower it is, the sooner the key needs somebody. */
  rank: number;
  todo?: string;
}

const FINE = { colour: "var(--waiting)", rank: 4 };

function need(rank: number, name: string, todo: string): KeyState {
  return { rank, name, todo, colour: "var(--soon)" };
}

/** The state of a key in words. `all` has its successors. */
export function stateOf(apiKey: Key, all: Key[]): KeyState {
  const { state, expires_at, successor_id, owner_left_at, last_used_at, read_mode } = apiKey;
  if (state === "revoked") return { name: "Revoked", ...FINE };
  const unused = unusedSuccessorOf(apiKey, all);
  if (unused) return need(0, "New key unused", `give its application the new key ${unused.hint}`);
  if (state === "expired") return { name: "Expired", ...FINE };
  const isReplaced = successorsOf(apiKey, all).some(isLive);
  const replace = isReplaced ? "revoke it soon" : successor_id ? "create another" : "rotate it";
  if (state === "expiring") {
    const name = `Expires ${formatRelative(expires_at ?? "")}`;
    return isReplaced ? { name, ...FINE } : need(1, name, replace);
  }
  if (owner_left_at) return need(2, "Owner left", `${replace}: its owner may have the token`);
  // Who reads by date may do so once a month.
  if (!isReplaced && last_used_at && read_mode === "feed") {
    const days = Math.floor((now() - Date.parse(last_used_at)) / DAY_MS);
    if (days > 0) return need(3, `No requests for ${count(days, "day")}`, "check its application");
  }
  return { name: "Active", ...FINE, colour: "var(--good)" };
}

/** What needs somebody comes first. */
export function sortByNeed<T extends Key>(all: T[]): T[] {
  return all.toSorted((a, b) => stateOf(a, all).rank - stateOf(b, all).rank);
}
