import { assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { connect, type Run } from "./helpers.ts";

const sql = connect();
afterAll(() => sql.end());

type Outcome = "commit" | "rollback";

/** A follower: its cursor, and the entries it was given so far. */
interface Follower {
  cursor: string;
  seen: number[];
}

/** How many writers there are. Each writes, then ends: beginning alone shows nobody anything. */
const WRITERS = 3;
/** Of different times: by time, the last writer's entries come first. */
const ENTRIES = 2;

/** All orders in which the writers can take their two steps: lists of writers. */
function orders(taken: number[] = []): number[][] {
  if (taken.length === 2 * WRITERS) return [taken];
  return Array.from({ length: WRITERS }, (_, writer) => writer)
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
  const entries = Array.from({ length: ENTRIES }, (_, n) =>
    `(
    '${organizationId}', '2026-03-01T12:00:${
      10 - writer
    }.00000${n}Z', 'agent_added', 'a@example.com',
    '${ENTRIES * writer + n}'
  )`);
  const columns = "(organization_id, created_at, action, user_email, agent_name)";
  // The second in a subtransaction.
  await session.unsafe(`begin;
    insert into public.audit_entries ${columns} values ${entries[0]};
    savepoint inner_one;
    insert into public.audit_entries ${columns} values ${entries.slice(1)}`);
}

/** Lets followers ask for a page each; what becomes of them. */
async function poll(id: string, followers: Follower[], limit: number): Promise<Follower[]> {
  const rows = await sql<{ answer: { items: string; next: string } }[]>`
    select private.read_feed(${id}, '2026-03-01', '9999-12-31', null, ${limit}, c.cursor) as answer
    from unnest(${followers.map(({ cursor }) => cursor)}::text[]) with ordinality as c (cursor, n)
    order by c.n`;
  return followers.map(({ seen }, n) => {
    const { items = "", next: cursor = "" } = rows[n]?.answer ?? {};
    const given = (JSON.parse(items) as { agent_name: string }[]).map((item) => +item.agent_name);
    return { cursor, seen: [...seen, ...given] };
  });
}

/** Lets writers take their steps, and a follower ask at every two moments of all there are. */
async function play(sessions: Run[], order: number[], ends: Outcome[], limit: number) {
  const [organization] =
    await sql`insert into public.organizations (name) values ('Test') returning id`;
  const id = organization?.["id"] as string;
  const begun = new Set<number>();
  let [never, once, twice] = [[{ cursor: "beginning", seen: [] }], [], []] as Follower[][];
  for (const writer of [...order, null]) {
    const asked = await poll(id, [...never ?? [], ...once ?? []], limit);
    twice = [...twice ?? [], ...asked.slice(1)];
    once = [...once ?? [], ...asked.slice(0, 1)];
    if (writer === null) break;
    const session = sessions[writer];
    if (!session) throw new RangeError(`no session for writer ${writer}`);
    if (begun.has(writer)) await session.unsafe(ends[writer] ?? "");
    else await write(session, id, writer);
    begun.add(writer);
  }
  let followers = [...never ?? [], ...once, ...twice];
  const due = ends.flatMap((end, writer) =>
    end === "commit" ? Array.from({ length: ENTRIES }, (_, n) => ENTRIES * writer + n) : []
  );
  // The last answer is empty.
  for (let left = due.length; left >= 0; left -= limit) {
    followers = await poll(id, followers, limit);
  }
  for (const { seen } of followers) {
    assertEquals(seen.toSorted(), due, `${order}: ${ends} in pages of ${limit}: ${seen}`);
  }
  return followers.length;
}

describe("each committed entry is given exactly once", () => {
  for (const limit of [1, 3]) {
    it(`in all orders of three writers' and a follower's steps, in pages of ${limit}`, async () => {
      const sessions = await Promise.all(Array.from({ length: WRITERS }, () => sql.reserve()));
      let played = 0;
      try {
        for (const order of orders()) {
          for (const ends of outcomes()) played += await play(sessions, order, ends, limit);
        }
      } finally {
        sessions.forEach((session) => session.release());
      }
      assertEquals(played, 90 * 8 * (1 + 7 + 21));
    });
  }
});
