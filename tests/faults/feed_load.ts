// Not from @std, which only the test tasks can load: a benchmark imports this file, too.
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { StackInfo } from "../../local/stack.ts";
import { pick, type Random, randomFrom } from "../random.ts";

export interface FeedLoadOptions {
  stack: Pick<StackInfo, "apiUrl" | "databaseUrl">;
  /** How long entries are written. */
  seconds: number;
  /** How long one writer holds its transaction open; less than `seconds`. */
  heldSeconds: number;
  /**
   * Whether the organization moves to another server meanwhile: then a write or a poll may fail, and a cursor may end.
   * Its follower starts again, and must be given everything once more.
   */
  isMoving?: boolean;
}

/** What a run has seen. Lags are in milliseconds, from a commit's end to the entry's delivery. */
export interface FeedFigures {
  entries: number;
  followers: { query: string; entries: number; polls: number; kills: number }[];
  medianLag: number;
  p99Lag: number;
  /** How many were delivered while a transaction was held open that had begun before they did. */
  whileHeld: number;
  /** How many writes and polls failed, and how often a follower started again. */
  failures: number;
  restarts: number;
}

const WRITERS = 16;
/** From one poll of a follower to its next, in milliseconds. */
const PACE = 50;
/** So many that each is asked less often than 60 times a minute, by all followers together. */
const KEYS = 300;
const ACTIONS = ["agent_added", "conversation_created", "feedback_given"] as const;
/** Entries are written for these days and their neighbours. */
const [PAST, FUTURE] = ["2020-02-29", "2999-12-31"];

const ALL = "start=2000-01-01&end=9999-12-31";
const QUERIES = [
  `${ALL}&limit=1000`,
  `${ALL}&limit=25`,
  `${ALL}&action=feedback_given&limit=100`,
  `start=${PAST}&end=${PAST}&limit=20`,
  `start=2021-01-01&end=${FUTURE}&action=agent_added&limit=50`,
];

interface Run {
  sql: postgres.Sql;
  url: string;
  organizationId: string;
  tokens: Generator<string, never>;
  /** When the commit of each entry had ended, by the agent's name. */
  committedAt: Map<string, number>;
  /** Whether the long transaction is open. */
  holding: boolean;
  lags: number[];
  whileHeld: number;
  writing: boolean;
  isMoving: boolean;
  failures: number;
  restarts: number;
}

/**
 * Has 16 writers write at once, with delays, rollbacks, savepoints, times past and future, and one
 * transaction held open; and followers follow over HTTP, killed now and then and resumed from the
 * cursor that they have stored. Asserts that each was given every entry of its query exactly once.
 */
export async function followUnderLoad(options: FeedLoadOptions): Promise<FeedFigures> {
  const { stack, seconds, heldSeconds, isMoving = false } = options;
  await using started = new AsyncDisposableStack();
  const sql = postgres(stack.databaseUrl, { max: WRITERS + 2, onnotice: () => {} });
  started.defer(() => sql.end());
  const run = { ...await startRun(sql, stack.apiUrl), isMoving };
  const following = QUERIES.map((query, n) => follow(run, query, randomFrom(100 + n)));
  // A failure is thrown where all are awaited.
  following.forEach((promise) => promise.catch(() => {}));
  const end = performance.now() + seconds * 1000;
  await Promise.all([
    hold(run, heldSeconds * 1000),
    ...Array.from({ length: WRITERS }, (_, n) => write(run, randomFrom(n), end)),
  ]);
  run.writing = false;
  const followers = await Promise.all(following);
  const lags = run.lags.toSorted((a, b) => a - b);
  return {
    entries: run.committedAt.size,
    followers,
    medianLag: lags[Math.floor(lags.length / 2)] ?? NaN,
    p99Lag: lags[Math.floor(lags.length * 0.99)] ?? NaN,
    whileHeld: run.whileHeld,
    failures: run.failures,
    restarts: run.restarts,
  };
}

/** Writes transactions of random length and content until the end. */
async function write(run: Run, random: Random, end: number): Promise<void> {
  while (performance.now() < end) {
    const names: string[] = [];
    const session = await run.sql.reserve();
    try {
      await session`begin`;
      for (let n = 1 + random(3); n > 0; n--) {
        const name = crypto.randomUUID();
        const isUndone = random(4) === 0;
        if (random(2) || isUndone) await session`savepoint inner_one`;
        await insert(run, session, random, name);
        if (isUndone) await session`rollback to savepoint inner_one`;
        else names.push(name);
        await delay(random(3) ? random(20) : random(150));
      }
      const isRolledBack = random(6) === 0;
      await session.unsafe(isRolledBack ? "rollback" : "commit");
      if (isRolledBack) continue;
    } catch (error) {
      if (!run.isMoving) throw error;
      run.failures++;
      await session`rollback`;
      continue;
    } finally {
      session.release();
    }
    for (const name of names) run.committedAt.set(name, performance.now());
  }
}

/** Writes an entry, and commits it so long after. */
async function hold(run: Run, milliseconds: number): Promise<void> {
  const name = crypto.randomUUID();
  run.holding = true;
  try {
    await run.sql.begin(async (transaction) => {
      await insert(run, transaction, randomFrom(0), name);
      await delay(milliseconds);
    });
    run.committedAt.set(name, performance.now());
  } catch (error) {
    if (!run.isMoving) throw error;
    run.failures++;
  }
  run.holding = false;
}

async function insert(run: Run, session: postgres.ISql, random: Random, name: string) {
  const time = pick(random, ["clock_timestamp()", `'${PAST} 23:59:59.999999Z'`, `'${FUTURE}Z'`]);
  await session`
    insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, created_at)
    values (
      ${run.organizationId}, ${pick(random, ACTIONS)}, 'ada@example.com', ${name}, ${
    session.unsafe(time)
  }
    )`;
}

/**
 * Follows a query until all writers have ended and nothing is new. Now and then it is killed between
 * being answered and having stored the answer, or after: it goes on from what is stored.
 */
async function follow(run: Run, query: string, random: Random) {
  const beginning = `${run.url}?${query}&after=beginning`;
  const stored = { address: beginning, names: [] as string[] };
  const seen = new Set<string>();
  let [polls, kills] = [0, 0];
  for (;;) {
    const pace = delay(PACE);
    const isLast = !run.writing;
    const headers = { Authorization: `Bearer ${run.tokens.next().value}` };
    polls++;
    if (random(20) === 0) {
      // Killed while it waits for its answer.
      kills++;
      const signal = AbortSignal.timeout(random(10));
      await fetch(stored.address, { headers, signal }).then((answer) => answer.body?.cancel())
        .catch(() => {});
      continue;
    }
    const response = await fetch(stored.address, { headers });
    const text = await response.text();
    const answeredAt = performance.now();
    if (run.isMoving && response.status !== 200) {
      run.failures++;
      if (response.status === 400) {
        run.restarts++;
        Object.assign(stored, { address: beginning, names: [] });
        seen.clear();
      }
      await pace;
      continue;
    }
    assertEquals(response.status, 200, text);
    const { items, total, limit } = JSON.parse(text);
    const names: string[] = items.map((item: { agent_name: string }) => item.agent_name);
    const next = response.headers.get("Link")?.match(/^<([^>]+)>; rel="next"$/)?.[1];
    if (!next) throw new Error(`Link: ${response.headers.get("Link")}`);
    if (random(20) === 0) {
      // Killed before it has stored its answer: it must be given the same once more.
      kills++;
      continue;
    }
    for (const name of names) {
      assert(!seen.has(name), `${name} is repeated: ${query}`);
      seen.add(name);
      // Without a time its commit has not even been acknowledged: no lag at all.
      run.lags.push(Math.max(0, answeredAt - (run.committedAt.get(name) ?? answeredAt)));
      if (run.holding) run.whileHeld++;
    }
    stored.address = next;
    stored.names.push(...names);
    if (isLast && items.length < limit) {
      assertEquals(stored.names.length, total, `${query}: total`);
      assertEquals(stored.names.toSorted(), await matching(run, query), query);
      return { query, entries: total, polls, kills };
    }
    if (items.length < limit) await pace;
  }
}

/** The names of all entries of a query, as the table has them. */
async function matching(run: Run, query: string): Promise<string[]> {
  const parameters = new URLSearchParams(query);
  const rows = await run.sql<{ name: string }[]>`
    select agent_name as name from audit_log.audit_entries
    where organization_id = ${run.organizationId}
      and (created_at at time zone 'UTC')::date between
        ${parameters.get("start")}::text::date and ${parameters.get("end")}::text::date
      and (${parameters.get("action")}::text is null or action::text = ${parameters.get("action")})
    order by agent_name collate "C"`;
  return rows.map(({ name }) => name);
}

/** Makes an organization, its keys and what a run keeps of it. */
async function startRun(sql: postgres.Sql, apiUrl: string): Promise<Run> {
  const [organization] = await sql`
    insert into audit_log.organizations (name) values ('Followed') returning id`;
  const organizationId: string = organization?.["id"];
  const rows = await sql<{ token: string }[]>`
    select audit_log_private.insert_api_key(${organizationId}, 'follower') ->> 'token' as token
    from generate_series(1, ${KEYS}::int)`;
  return {
    sql,
    url: `${apiUrl}/functions/v1/public-audit-log`,
    organizationId,
    tokens: inTurn(rows.map(({ token }) => token)),
    committedAt: new Map(),
    holding: false,
    lags: [],
    whileHeld: 0,
    writing: true,
    isMoving: false,
    failures: 0,
    restarts: 0,
  };
}

function* inTurn(tokens: string[]): Generator<string, never> {
  while (true) yield* tokens;
}
