// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { type Key, sortByNeed, stateOf, unusedSuccessorOf } from "../../console/keys/key_state.ts";

const HOUR = 3_600_000;

/** A time so many hours from now. */
function inHours(hours: number): string {
  return new Date(Date.now() + hours * HOUR + 60_000).toISOString();
}

/** A key that was used a minute ago. */
function key(id: string, changes: Partial<Key> = {}): Key {
  return {
    id,
    hint: "pck_abc…wxyz",
    state: "active",
    expires_at: null,
    successor_id: null,
    owner_left_at: null,
    last_used_at: new Date(Date.now() - 60_000).toISOString(),
    read_mode: "feed",
    ...changes,
  };
}

const EXPIRING = { state: "expiring", expires_at: inHours(120) } as const;
const REVOKED = { state: "revoked" } as const;
const LEFT = { owner_left_at: inHours(-1) };
const SILENT = { last_used_at: inHours(-73) };
/** The successor of a key, and the successor's own. */
const UNUSED = key("2", { last_used_at: null });
const USED = key("2");
const REVOKED_UNUSED = key("2", { ...REVOKED, last_used_at: null });
const ROTATED_AGAIN = key("2", { last_used_at: null, successor_id: "3" });

/** A key that was rotated, and expires in so many hours. */
function rotated(hours: number, changes: Partial<Key> = {}): Partial<Key> {
  const state = hours < 0 ? "expired" : "expiring";
  return { successor_id: "2", state, expires_at: inHours(hours), ...changes };
}

/** The state of a key, whether its application is about to stop, and the key with its successors. */
const CASES: [name: string, isStopping: boolean, Partial<Key>, ...successors: Key[]][] = [
  ["Active", false, {}],
  ["Active", false, { last_used_at: null, read_mode: null }],
  ["Active", false, { expires_at: inHours(9000) }],
  ["Active", false, { ...SILENT, read_mode: "pages" }],
  ["Active", false, { successor_id: "2", ...SILENT, expires_at: inHours(1000) }, USED],
  ["No requests for 1 day", false, { last_used_at: inHours(-25) }],
  ["No requests for 3 days", false, SILENT],
  ["Owner left", false, { ...LEFT, ...SILENT }],
  ["Owner left", false, { ...LEFT, successor_id: "2", expires_at: inHours(1000) }, USED],
  ["Expires in 5 days", false, { ...EXPIRING, ...LEFT, ...SILENT }],
  ["Expires in 5 days", false, rotated(120), UNUSED],
  ["Expires in 1 day", false, rotated(24), UNUSED],
  ["Expires in 5 hours", false, rotated(5), USED],
  ["Expires in 5 hours", false, rotated(5), ROTATED_AGAIN, key("3")],
  ["Expires in 5 hours", false, rotated(5, { last_used_at: null }), UNUSED],
  ["Expires in 5 hours", false, rotated(5), REVOKED_UNUSED],
  ["New key unused", true, rotated(5, LEFT), UNUSED],
  ["New key unused", true, rotated(5), ROTATED_AGAIN, key("3", { last_used_at: null })],
  ["New key unused", true, rotated(-5), UNUSED],
  ["Expired", false, rotated(-5), USED],
  ["Revoked", false, rotated(5, REVOKED), UNUSED],
];

it("a key has one state. After a rotation, it needs somebody only if it has less than a day, and nobody has used its successor", () => {
  for (const [n, [name, isStopping, changes, ...successors]] of CASES.entries()) {
    const apiKey = key("1", changes);
    const all = [apiKey, ...successors];
    const found = [stateOf(apiKey, all).name, unusedSuccessorOf(apiKey, all) !== undefined];
    assertEquals(found, [name, isStopping], `case ${n}`);
  }
  const colours = [24, 23].map((hours) => {
    const apiKey = key("1", rotated(hours));
    return stateOf(apiKey, [apiKey, UNUSED]).colour;
  });
  assertEquals(colours, ["var(--waiting)", "var(--soon)"]);
});

it("keys that need somebody come first, the others as they were", () => {
  const keys = [
    key("fine"),
    key("silent", SILENT),
    key("replaced", { ...EXPIRING, successor_id: "2" }),
    UNUSED,
    key("left", LEFT),
    key("expiring", EXPIRING),
    key("stopping", rotated(5)),
    key("cancelled", { ...EXPIRING, successor_id: "3" }),
    key("3", REVOKED),
  ];
  const order = sortByNeed(keys).map(({ id }) => id).join(" ");
  assertEquals(order, "stopping expiring cancelled left silent fine replaced 2 3");
});
