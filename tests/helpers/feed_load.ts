// Only the test tasks can load @std. dev/citus/trial.ts imports this file, too.
import { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { StackInfo } from "../../dev/local/stack.ts";
import { addKeys, addOrganization, type Run, type Sql } from "../../dev/harness/project.ts";
import { pick, type Random, randomFrom } from "./random.ts";

const WRITERS = 16;
/** From one poll of a follower to its next, in milliseconds. */
const PACE = 50;
/** The followers take keys in turn. With so many, none uses up its quota. */
const KEYS = 300;
const ACTIONS = ["agent_added", "conversation_created", "feedback_given"] as const;
/** Entries are written for these days and for today. */
const [PAST, FUTURE] = ["2020-02-29", "2999-12-31"];

const ALL = "start=2000-01-01&end=9999-12-31";
const QUERIES = [
  `${ALL}&limit=1000`,
  `${ALL}&limit=25`,
  `${ALL}&action=feedback_given&limit=100`,
  `start=${PAST}&end=${PAST}&limit=20`,
  `start=2021-01-01&end=${FUTURE}&action=agent_added&limit=50`,
];

/**
 * Lets 16 writers write for so long, with delays, rollbacks, savepoints, times past and future, and one
 * transaction that is held open meanwhile. Followers follow over HTTP. Now and then each of them is killed, and
 * goes on from the cursor that it has stored. Asserts that each gets every entry of its query exactly once.
 */
export async function followUnderLoad(
  stack: Pick<StackInfo, "apiUrl" | "databaseUrl">,
  seconds: number,
) {
  await using started = new AsyncDisposableStack();
  const sql = postgres(stack.databaseUrl, { max: WRITERS + 2, onnotice: () => {} });
  started.defer(() => sql.end());
  const { id } = await addOrganization(sql);
  const keys = await addKeys(sql, id, KEYS);
  /** The number of entries whose commit has ended. */
  let committed = 0;
  let [isHolding, isWriting] = [false, true];
  let polls = 0;
  /** The entries that were delivered while an older transaction was held open. */
  let whileHeld = 0;

  async function insert(session: Run, random: Random): Promise<void> {
    const time = pick(random, ["clock_timestamp()", `'${PAST} 23:59:59.999999Z'`, `'${FUTURE}Z'`]);
    await session`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, created_at)
      values (${id}, ${pick(random, ACTIONS)}, 'ada@example.com', gen_random_uuid(), ${
      session.unsafe(time)
    })`;
  }

  /** Writes a transaction of random length. */
  async function writeTransaction(random: Random): Promise<void> {
    await using ended = new AsyncDisposableStack();
    const session = await sql.reserve();
    ended.defer(() => session.release());
    await session`begin`;
    let written = 0;
    for (let n = 1 + random(3); n > 0; n--) {
      const isUndone = random(4) === 0;
      if (random(2) || isUndone) await session`savepoint inner_one`;
      await insert(session, random);
      if (isUndone) await session`rollback to savepoint inner_one`;
      else written++;
      await delay(random(3) ? random(20) : random(150));
    }
    const isRolledBack = random(6) === 0;
    await session.unsafe(isRolledBack ? "rollback" : "commit");
    if (!isRolledBack) committed += written;
  }

  async function write(random: Random, end: number): Promise<void> {
    while (performance.now() < end) await writeTransaction(random);
  }

  /** Writes an entry, and commits it while the others still write. */
  async function hold(): Promise<void> {
    isHolding = true;
    await sql.begin(async (transaction) => {
      await insert(transaction, randomFrom(0));
      await delay(seconds * 600);
    });
    committed++;
    isHolding = false;
  }

  /** Follows a query until all writers have ended and nothing is new. */
  async function follow(query: string, random: Random) {
    const address = `${stack.apiUrl}/functions/v1/public-audit-log?${query}&after=`;
    let stored = { after: "beginning", names: [] as string[] };
    for (;;) {
      const [pace, isLast] = [delay(PACE), !isWriting];
      const headers = { Authorization: `Bearer ${keys[polls++ % KEYS]?.token}` };
      if (random(10) === 0) {
        // It is killed while it waits, or before it has stored its answer. Then it must get the same again.
        const signal = AbortSignal.timeout(random(2 * PACE));
        await fetch(address + stored.after, { headers, signal })
          .then((answer) => answer.text()).catch(() => {});
        continue;
      }
      const response = await fetch(address + stored.after, { headers });
      const text = await response.text();
      if (response.status !== 200) throw new Error(text);
      const { items, total, has_more, cursor } = JSON.parse(text);
      const names: string[] = items.map((item: { agent_name: string }) => item.agent_name);
      if (isHolding) whileHeld += names.length;
      stored = { after: cursor, names: [...stored.names, ...names] };
      if (isLast && !has_more) {
        assertEquals(stored.names.length, total, `${query}: total`);
        // The table has each name once.
        assertEquals(stored.names.toSorted(), await matching(sql, id, query), query);
        return;
      }
      if (!has_more) await pace;
    }
  }

  const following = QUERIES.map((query, n) => follow(query, randomFrom(100 + n)));
  // Promise.all below throws their failures.
  following.forEach((promise) => promise.catch(() => {}));
  const end = performance.now() + seconds * 1000;
  await Promise.all([
    hold(),
    ...Array.from({ length: WRITERS }, (_, n) => write(randomFrom(n), end)),
  ]);
  isWriting = false;
  await Promise.all(following);
  return { entries: committed, whileHeld };
}

/** The names of all entries of a query, as the table has them. */
async function matching(sql: Sql, id: string, query: string): Promise<string[]> {
  const parameters = new URLSearchParams(query);
  const rows = await sql<{ name: string }[]>`
    select agent_name as name from audit_log.audit_entries
    where organization_id = ${id}
      and (created_at at time zone 'UTC')::date between
        ${parameters.get("start")}::text::date and ${parameters.get("end")}::text::date
      and (${parameters.get("action")}::text is null or action::text = ${parameters.get("action")})
    order by agent_name collate "C"`;
  return rows.map(({ name }) => name);
}
