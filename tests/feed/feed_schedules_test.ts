// Needs a stack.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { addOrganization, type FeedAnswer, queryOf, type Run, sql } from "../helpers/mod.ts";

type Outcome = "commit" | "rollback";

/** A reader that follows the feed: its cursor, and the entries that it was given so far. */
interface Follower {
  cursor: string;
  seen: number[];
  hasMore: boolean;
}

/** Each writes, then ends. */
const WRITERS = 3;
/** Entries of each writer. The writers' first entries have times in the opposite order. */
const ENTRIES = 2;

/** Lists all orders in which the writers can take their two steps. The writers are numbered as they begin. */
function orders(taken: number[] = []): number[][] {
  if (taken.length === 2 * WRITERS) return [taken];
  const begun = new Set(taken).size;
  return Array.from({ length: Math.min(begun + 1, WRITERS) }, (_, writer) => writer)
    .filter((writer) => taken.filter((other) => other === writer).length < 2)
    .flatMap((writer) => orders([...taken, writer]));
}

function outcomes(): Outcome[][] {
  const ends: Outcome[] = ["commit", "rollback"];
  return ends.flatMap((a) => ends.flatMap((b) => ends.map((c) => [a, b, c])));
}

function entriesOf(writer: number): number[] {
  return Array.from({ length: ENTRIES }, (_, n) => ENTRIES * writer + n);
}

async function write(session: Run, organizationId: string, writer: number): Promise<void> {
  const entries = entriesOf(writer).map((entry, n) => {
    const time = `2026-03-01T12:00:${n ? 20 + writer : 10 - writer}Z`;
    return `('${organizationId}', '${time}', 'agent_added', 'a@example.com', '${entry}')`;
  });
  const columns = "(organization_id, created_at, action, user_email, agent_name)";
  // The second entry is written in a subtransaction.
  await session.unsafe(`begin;
    insert into audit_log.audit_entries ${columns} values ${entries[0]};
    savepoint inner_one;
    insert into audit_log.audit_entries ${columns} values ${entries.slice(1)}`);
}

/** Lets followers ask for one page each, and returns them as they are then. */
async function poll(id: string, followers: Follower[], limit: number): Promise<Follower[]> {
  const query = queryOf(sql, { page_limit: limit });
  const rows = await sql<{ answer: Omit<FeedAnswer, "names"> }[]>`
    select json_build_object('items', feed.items::json, 'cursor', feed.cursor, 'has_more', feed.has_more) as answer
    from unnest(${followers.map(({ cursor }) => cursor)}::text[]) with ordinality as c (cursor, n)
    cross join lateral audit_log_private.read_feed(
      ${id}, jsonb_populate_record(${query}, jsonb_build_object('after', c.cursor))
    ) as feed
    order by c.n`;
  return followers.map(({ seen }, n) => {
    const { items = [], cursor = "", has_more: hasMore = false } = rows[n]?.answer ?? {};
    return { cursor, seen: [...seen, ...items.map((item) => +item.agent_name)], hasMore };
  });
}

/** Lets the writers take their steps, and a follower ask at any two moments between them. */
async function play(sessions: Run[], order: number[], ends: Outcome[]): Promise<number> {
  const { id } = await addOrganization(sql);
  const begun = new Set<number>();
  const hasNotAsked: Follower = { cursor: "beginning", seen: [], hasMore: true };
  const askedOnce: Follower[] = [];
  const askedTwice: Follower[] = [];
  for (const writer of [...order, null]) {
    const [first, ...second] = await poll(id, [hasNotAsked, ...askedOnce], 1);
    if (first) askedOnce.push(first);
    askedTwice.push(...second);
    if (writer === null) break;
    const session = sessions[writer];
    if (!session) throw new RangeError(`no session for writer ${writer}`);
    if (begun.has(writer)) await session.unsafe(ends[writer] ?? "");
    else await write(session, id, writer);
    begun.add(writer);
  }
  const followers = [hasNotAsked, ...askedOnce, ...askedTwice];
  const due = ends.flatMap((end, writer) => end === "commit" ? entriesOf(writer) : []);
  for (let reading = followers; reading.length > 0;) {
    const read = await poll(id, reading, 2);
    for (const { seen, hasMore } of read) {
      if (!hasMore) assertEquals(seen.toSorted(), due, `${order}: ${ends}: ${seen}`);
    }
    reading = read.filter(({ hasMore }) => hasMore);
  }
  return followers.length;
}

it("the feed gives each committed entry exactly once, in all orders of three writers' and a follower's steps", async () => {
  const sessions = await Promise.all(Array.from({ length: WRITERS }, () => sql.reserve()));
  let played = 0;
  try {
    for (const order of orders()) {
      for (const ends of outcomes()) played += await play(sessions, order, ends);
    }
  } finally {
    sessions.forEach((session) => session.release());
  }
  assertEquals(played, 15 * 8 * (1 + 7 + 21));
});
