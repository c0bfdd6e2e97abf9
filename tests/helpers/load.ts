// Only the test tasks can load @std. dev/citus/trial.ts imports this file, too.
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { StackInfo } from "../../dev/local/stack.ts";
import { addKeys, addOrganization, countMismatches } from "../../dev/harness/project.ts";
import { pick, type Random, randomFrom } from "./random.ts";

interface LoadOptions {
  /** These serve one log. Each request goes to any of them. */
  stacks: readonly Pick<StackInfo, "apiUrl" | "databaseUrl" | "secretKey">[];
  /** The number of writers, and of readers. */
  atOnce: number;
  refused?: Caller[];
}

const ORGANIZATIONS = 8;
/** Readers take the keys in turn. With so many of an organization, none uses up its quota. */
const KEYS = 5;
/** Milliseconds from one read of a reader to its next, at least. */
const PACE = 160;
/** The most entries in a page. */
const LIMIT = 100;

/** A token, and the status that it gets. */
type Caller = { token: string; due: number };
type Answer = Record<"sent" | "status" | "due", number> & { requestId: string };
type Entry = { agent_name: string; data: { size: number } };

/** What a load has seen so far. */
export class Load {
  writes = 0;
  /** The number of pages. */
  reads = 0;
  /** The number of requests that were sent to read pages. */
  asked = 0;
  readonly answers: Answer[] = [];
  /** The messages of writes, deletions and reads that failed. */
  readonly failures: string[] = [];

  constructor(readonly organizationIds: string[], readonly callers: Caller[]) {}

  /** Resolves when so many requests that are sent from now on are answered, with `status` if given. */
  async waitForAnswers(count: number, status?: number): Promise<void> {
    const isOne = (answer: Answer) => !status || answer.status === status;
    const what = `${count} answers of ${status ?? "any status"}`;
    await this.#until(what, (answers) => answers.filter(isOne).length >= count);
  }

  /** Resolves when entries were written, and all callers were answered without a 500 in between. */
  async waitUntilHealthy(): Promise<void> {
    const { writes, callers } = this;
    await this.#until("the service healthy", (answers) => {
      const inARow = answers.slice(answers.findLastIndex(({ status }) => status === 500) + 1);
      return this.writes > writes && inARow.length > callers.length;
    });
  }

  async #until(what: string, isMet: (answers: Answer[]) => boolean): Promise<void> {
    const now = performance.now();
    while (!isMet(this.answers.filter(({ sent }) => sent >= now))) {
      const isLate = performance.now() > now + 30_000;
      assert(!isLate, `Not within 30 s: ${what}. The last failures: ${this.failures.slice(-5)}`);
      await delay(20);
    }
  }
}

/**
 * Writes groups of entries in one statement each, deletes most of them again, and reads all of them page
 * by page, until `run` ends. Asserts that each page is of one moment and has whole groups only, that no
 * acknowledged write is lost, and that the counts are exact.
 */
export async function underLoad(
  options: LoadOptions,
  run: (load: Load) => Promise<void>,
): Promise<Load> {
  const { stacks, atOnce, refused = [] } = options;
  await using ended = new AsyncDisposableStack();
  const connect = (databaseUrl: string, max: number) => {
    const sql = postgres(databaseUrl, {
      ...{ max, onnotice: () => {}, prepare: false, backoff: () => 0.1 },
      // A connection that is cut while the driver asks for types rejects a promise that nobody can catch.
      fetch_types: false,
    });
    ended.defer(() => sql.end({ timeout: 5 }));
    return sql;
  };
  const nodes = stacks.map((stack) => ({ ...stack, sql: connect(stack.databaseUrl, atOnce) }));
  const [first] = nodes;
  assert(first);
  const ids: string[] = [];
  const callers = [...refused];
  for (let n = 0; n < ORGANIZATIONS; n++) {
    const { id } = await addOrganization(first.sql);
    ids.push(id);
    const keys = await addKeys(first.sql, id, KEYS);
    callers.push(...keys.map(({ token }) => ({ token, due: 200 })));
  }
  const load = new Load(ids, callers);
  const kept = new Set<string>();

  const write = async (random: Random) => {
    const id = pick(random, load.organizationIds);
    const [agent_name, size] = [crypto.randomUUID(), 1 + random(5)];
    const entries = Array.from({ length: size }, () => ({
      organization_id: id,
      created_at: `2026-03-0${1 + random(9)}T12:00:00Z`,
      action: pick(random, ["agent_added", "feedback_given"]),
      user_email: "ada@example.com",
      agent_name,
      data: { size },
    }));
    const { apiUrl, secretKey: apikey } = pick(random, nodes);
    const response = await fetch(`${apiUrl}/rest/v1/audit_entries`, {
      method: "POST",
      headers: { apikey, "Content-Type": "application/json", "Content-Profile": "audit_log" },
      body: JSON.stringify(entries),
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    if (response.status !== 201) throw new Error(`${response.status} ${text}`);
    load.writes++;
    if (random(5) === 0) return void kept.add(agent_name);
    // The delay leaves some to be read; the deletion keeps pages small.
    await delay(random(200));
    const deletion = pick(random, nodes).sql`
      delete from audit_log.audit_entries
      where organization_id = ${id} and agent_name = ${agent_name}`;
    // The driver may lose a query whose connection is cut.
    const late = delay(10_000, "no answer", { ref: false });
    if (await Promise.race([deletion, late]) === "no answer") throw new Error("a deletion hangs");
  };
  const read = async (random: Random) => {
    const caller = load.callers[load.asked++ % load.callers.length];
    assert(caller);
    const url = `${pick(random, nodes).apiUrl}/functions/v1/public-audit-log`;
    const order = pick(random, ["asc", "desc"]);
    const query = `?start=2026-03-01&end=2026-03-10&limit=${LIMIT}&order=${order}`;
    const sent = performance.now();
    const response = await fetch(`${url}${query}`, {
      headers: { Authorization: `Bearer ${caller.token}` },
      signal: AbortSignal.timeout(20_000),
    });
    const text = await response.text();
    const { status, headers } = response;
    const requestId = headers.get("X-Request-Id") ?? "";
    load.answers.push({ sent, status, due: caller.due, requestId });
    if (status === 500) assert(!/PGRST|postgres|public_audit_log/i.test(text), text);
    if (status !== caller.due) throw new Error(`${status} ${text}`);
    if (status !== 200) return;
    const { total, items } = JSON.parse(text);
    assertEquals(items.length, Math.min(LIMIT, total));
    if (total <= LIMIT) assertWhole(items);
    load.reads++;
  };
  let isRunning = true;
  const repeat = async (step: (random: Random) => Promise<void>, seed: number, pace: number) => {
    for (const random = randomFrom(seed); isRunning;) {
      const rest = delay(pace);
      await step(random).catch(async (error) => {
        if (error instanceof assert.AssertionError) throw error;
        load.failures.push(error.message);
        await delay(50);
      });
      await rest;
    }
  };
  await Promise.all([
    run(load).finally(() => isRunning = false),
    ...Array.from({ length: atOnce }, (_, n) => repeat(write, n, 0)),
    ...Array.from({ length: atOnce }, (_, n) => repeat(read, n, PACE)),
  ]);
  // A new connection: a fault may have broken the others.
  const sql = connect(first.databaseUrl, 1);
  for (const id of load.organizationIds) {
    assertEquals(await countMismatches(sql, id), []);
    const entries = await sql<Entry[]>`
      select agent_name, data from audit_log.audit_entries where organization_id = ${id}`;
    for (const group of assertWhole(entries)) kept.delete(group);
  }
  assertEquals([...kept], []);
  return load;
}

/** Asserts that groups of entries are there whole, and returns their names. */
function assertWhole(entries: Entry[]): Iterable<string> {
  const groups = Map.groupBy(entries, ({ agent_name }) => agent_name);
  for (const group of groups.values()) assertEquals(group.length, group[0]?.data.size, "torn");
  return groups.keys();
}
