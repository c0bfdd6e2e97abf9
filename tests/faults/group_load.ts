// Only the test tasks can load @std. citus/trial.ts imports this file, too.
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { StackInfo } from "../../local/stack.ts";
import { addKeys, addOrganization, countMismatches } from "../project.ts";
import { pick, type Random, randomFrom } from "../random.ts";
import { postEntries } from "./log.ts";

export interface GroupLoadOptions {
  /** These serve one log. Each request goes to any of them. */
  stacks: readonly Pick<StackInfo, "apiUrl" | "databaseUrl" | "secretKey">[];
  /** The number of writers, and of readers. */
  atOnce: number;
}

export interface GroupFigures {
  writes: number;
  deletions: number;
  reads: number;
  /** The messages of writes, deletions and reads that failed. */
  failures: string[];
}

interface Entry {
  agent_name: string;
  data: { size: number };
}

const ORGANIZATIONS = 18;
/** Readers take an organization's keys in turn. With so many, they use none more than 60 times a minute. */
const KEYS = 20;

/**
 * Writes groups of entries in one statement each, deletes most of them again, and reads all of them page
 * by page, until `run` ends. Asserts that each page is of one moment and has whole groups only, that no
 * acknowledged write is lost, and that the counts are exact.
 */
export async function besideGroups(
  { stacks, atOnce }: GroupLoadOptions,
  run: (figures: GroupFigures, organizationIds: string[]) => Promise<void>,
): Promise<GroupFigures> {
  await using ended = new AsyncDisposableStack();
  const nodes = stacks.map((stack) => {
    const sql = postgres(stack.databaseUrl, { max: atOnce, onnotice: () => {}, prepare: false });
    ended.defer(() => sql.end());
    return { ...stack, sql };
  });
  const [first] = nodes;
  assert(first);
  const organizations = await Promise.all(Array.from({ length: ORGANIZATIONS }, async () => {
    const { id } = await addOrganization(first.sql, "Groups");
    return { id, keys: await addKeys(first.sql, id, KEYS) };
  }));
  const figures: GroupFigures = { writes: 0, deletions: 0, reads: 0, failures: [] };
  const kept = new Set<string>();
  const write = async (random: Random) => {
    const { id } = pick(random, organizations);
    const [agent_name, size] = [crypto.randomUUID(), 1 + random(5)];
    const entries = Array.from({ length: size }, () => ({
      created_at: `2026-03-0${1 + random(9)}T12:00:00Z`,
      action: pick(random, ["agent_added", "feedback_given"]),
      agent_name,
      data: { size },
    }));
    await postEntries(pick(random, nodes), id, entries);
    figures.writes++;
    if (random(5) === 0) return void kept.add(agent_name);
    // The delay leaves some to be read; the deletion keeps pages small.
    await delay(random(200));
    await pick(random, nodes).sql`
      delete from audit_log.audit_entries
      where organization_id = ${id} and agent_name = ${agent_name}`;
    figures.deletions++;
  };
  const read = async (random: Random) => {
    const { keys } = pick(random, organizations);
    const url = `${pick(random, nodes).apiUrl}/functions/v1/public-audit-log`;
    const order = pick(random, ["asc", "desc"]);
    const query = `?start=2026-03-01&end=2026-03-10&limit=1000&order=${order}`;
    const headers = { Authorization: `Bearer ${keys[figures.reads % KEYS]?.token}` };
    const response = await fetch(`${url}${query}`, { headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    const { total, items } = JSON.parse(text);
    assertWhole(items);
    assertEquals(items.length, total);
    figures.reads++;
  };
  let isRunning = true;
  const repeating = [write, read].flatMap((step) =>
    Array.from({ length: atOnce }, async (_, n) => {
      for (const random = randomFrom(n); isRunning;) {
        await step(random).catch(async (error) => {
          if (error instanceof assert.AssertionError) throw error;
          figures.failures.push(error.message);
          await delay(50);
        });
      }
    })
  );
  const ids = organizations.map(({ id }) => id);
  await Promise.all([run(figures, ids).finally(() => isRunning = false), ...repeating]);
  // A new connection: a fault may have broken the others.
  const sql = postgres(first.databaseUrl, { max: 1, onnotice: () => {} });
  ended.defer(() => sql.end());
  for (const id of ids) {
    assertEquals(await countMismatches(sql, id), []);
    const entries = await sql<Entry[]>`
      select agent_name, data from audit_log.audit_entries where organization_id = ${id}`;
    for (const group of assertWhole(entries)) kept.delete(group);
  }
  assertEquals([...kept], []);
  return figures;
}

/** Asserts that groups of entries are there whole, and returns their names. */
function assertWhole(entries: Entry[]): Iterable<string> {
  const groups = Map.groupBy(entries, ({ agent_name }) => agent_name);
  for (const group of groups.values()) assertEquals(group.length, group[0]?.data.size, "torn");
  return groups.keys();
}
