// Does not import @std, which only the test tasks can load: citus/trial.ts imports this file, too.
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@supabase/supabase-js";
import postgres from "postgres";
import type { StackInfo } from "../../local/stack.ts";
import { pick, type Random, randomFrom } from "../random.ts";
import { newOrganization } from "./feed_load.ts";

export interface GroupLoadOptions {
  /** Stacks that serve one log. Each request goes to any of them. */
  stacks: Pick<StackInfo, "apiUrl" | "databaseUrl" | "secretKey">[];
  /** So many write, and as many read, at once. */
  atOnce: number;
}

/** What a run has done so far. */
export interface GroupFigures {
  writes: number;
  deletions: number;
  reads: number;
  /** The entries that were read. */
  items: number;
  /** In milliseconds. */
  longestWrite: number;
  /** Why writes, deletions and reads failed. */
  failures: string[];
}

interface Entry {
  agent_name: string;
  data: { size: number };
}

const ORGANIZATIONS = 18;
/** So many for each organization that none is asked more often than 60 times a minute. */
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
    const auth = { persistSession: false, autoRefreshToken: false };
    const db = { schema: "audit_log" };
    return { ...stack, sql, platform: createClient(stack.apiUrl, stack.secretKey, { auth, db }) };
  });
  const [first] = nodes;
  assert(first);
  const organizations = await Promise.all(
    Array.from({ length: ORGANIZATIONS }, () => newOrganization(first.sql, "Groups", KEYS)),
  );
  const figures: GroupFigures = {
    ...{ writes: 0, deletions: 0, reads: 0, items: 0, longestWrite: 0 },
    failures: [],
  };
  const kept = new Set<string>();
  const write = async (random: Random) => {
    const { id } = pick(random, organizations);
    const [agent_name, size, start] = [crypto.randomUUID(), 1 + random(5), performance.now()];
    const entries = Array.from({ length: size }, () => ({
      organization_id: id,
      created_at: `2026-03-0${1 + random(9)}T12:00:00Z`,
      action: pick(random, ["agent_added", "feedback_given"]),
      user_email: "ada@example.com",
      agent_name,
      data: { size },
    }));
    await pick(random, nodes).platform.from("audit_entries").insert(entries).throwOnError();
    figures.longestWrite = Math.max(figures.longestWrite, performance.now() - start);
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
    const { tokens } = pick(random, organizations);
    const url = `${pick(random, nodes).apiUrl}/functions/v1/public-audit-log`;
    const order = pick(random, ["asc", "desc"]);
    const query = `?start=2026-03-01&end=2026-03-10&limit=1000&order=${order}`;
    const headers = { Authorization: `Bearer ${tokens[figures.reads % KEYS]}` };
    const response = await fetch(`${url}${query}`, { headers });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    const { total, items } = JSON.parse(text);
    assertWhole(items);
    assertEquals(items.length, total);
    figures.reads++;
    figures.items += items.length;
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
    const mismatches = await sql`select * from audit_log_private.entry_count_mismatches(${id})`;
    assertEquals([...mismatches], []);
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
