import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { type Run, sql } from "../helpers.ts";

type Outcome = "commit" | "rollback";

/** A follower: its cursor, and the entries it was given so far. */
interface Follower {
  cursor: string;
  seen: number[];
}

/** How many writers there are. Each writes, then ends: beginning alone shows nobody anything. */
const WRITERS = 3;
/** Of which the first come in the opposite order by their times. */
const ENTRIES = 2;

/**
 * All orders in which the writers can take their two steps: lists of writers, numbered as they begin.
 * Other numbers would be other names for the same.
 */
function orders(taken: number[] = []): number[][] {
  if (taken.length === 2 * WRITERS) return [taken];
  const begun = new Set(taken).size;
  return Array.from({ length: Math.min(begun + 1, WRITERS) }, (_, writer) => writer)
    .filter((writer) => taken.filter((other) => other === writer).length < 2)
    .flatMap((writer) => orders([...taken, writer]));
}

/** All ways in which the writers can end. */
function outcomes(): Outcome[][] {
  return Array.from(
    { length: 2 ** WRITERS },
    (_, bits) =>
      Array.from({ length: WRITERS }, (_, writer) => bits >> writer & 1 ? "rollback" : "commit"),
  );
}

async function write(session: Run, organizationId: string, writer: number): Promise<void> {
  const entries = Array.from({ length: ENTRIES }, (_, n) => {
    const time = `2026-03-01T12:00:${n ? 20 + writer : 10 - writer}Z`;
    return `('${organizationId}', '${time}', 'agent_added', 'a@example.com', '${
      ENTRIES * writer + n
    }')`;
  });
  const columns = "(organization_id, created_at, action, user_email, agent_name)";
  // The second in a subtransaction.
  await session.unsafe(`begin;
    insert into audit_log.audit_entries ${columns} values ${entries[0]};
    savepoint inner_one;
    insert into audit_log.audit_entries ${columns} values ${entries.slice(1)}`);
}

/** Lets followers ask for a page each; what becomes of them. */
async function poll(id: string, followers: Follower[], limit: number): Promise<Follower[]> {
  const rows = await sql<{ answer: { items: { agent_name: string }[]; next: string } }[]>`
    select feed.page::json as answer
    from unnest(${followers.map(({ cursor }) => cursor)}::text[]) with ordinality as c (cursor, n)
    cross join lateral audit_log_private.read_feed(
      ${id}, ('2026-03-01', '9999-12-31', null, null, ${limit}, 0, false, c.cursor)::audit_log.page_query
    ) as feed
    order by c.n`;
  return followers.map(({ seen }, n) => {
    const { items = [], next: cursor = "" } = rows[n]?.answer ?? {};
    const given = items.map((item) => +item.agent_name);
    return { cursor, seen: [...seen, ...given] };
  });
}

/** Lets writers take their steps, and a follower ask at every two moments of all there are. */
async function play(sessions: Run[], order: number[], ends: Outcome[]) {
  const [organization] =
    await sql`insert into audit_log.organizations (name) values ('Test') returning id`;
  const id = organization?.["id"] as string;
  const begun = new Set<number>();
  // Those that have not asked yet, those that have once, and those that have twice.
  const never: Follower[] = [{ cursor: "beginning", seen: [] }];
  const once: Follower[] = [];
  const twice: Follower[] = [];
  for (const writer of [...order, null]) {
    const asked = await poll(id, [...never, ...once], 1);
    once.push(...asked.slice(0, 1));
    twice.push(...asked.slice(1));
    if (writer === null) break;
    const session = sessions[writer];
    if (!session) throw new RangeError(`no session for writer ${writer}`);
    if (begun.has(writer)) await session.unsafe(ends[writer] ?? "");
    else await write(session, id, writer);
    begun.add(writer);
  }
  let followers = [...never, ...once, ...twice];
  const due = ends.flatMap((end, writer) =>
    end === "commit" ? Array.from({ length: ENTRIES }, (_, n) => ENTRIES * writer + n) : []
  );
  // In pages of two, of which the last is not full.
  for (let read = 0; read <= due.length; read += 2) followers = await poll(id, followers, 2);
  for (const { seen } of followers) {
    assertEquals(seen.toSorted(), due, `${order}: ${ends}: ${seen}`);
  }
  return followers.length;
}

describe("each committed entry is given exactly once", () => {
  it("in all orders of three writers' and a follower's steps, with batches of several pages", async () => {
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
});
