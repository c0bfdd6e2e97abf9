// Grows a project to three nodes on this machine, checks what docs/scaling.md says of them, and ends.
//
//   deno task citus /path/to/postgres-17-with-citus/bin
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { organizationId } from "../bench/data_sets.ts";
import { makeKeys, runUpkeep } from "../bench/stack.ts";
import { startPostgres, stopPostgres } from "../local/postgres.ts";
import { followUnderLoad } from "../tests/faults/feed_load.ts";
import { besideGroups } from "../tests/faults/group_load.ts";
import { pick, type Random, randomFrom } from "../tests/random.ts";
import * as cluster from "./cluster.ts";

const [QUERIES, COSTS, READS, MOVES] = [1_500, 1_500, 10_000, 6];
const [ORGANIZATIONS, ENTRIES, KEYS] = [40, 60_000, 30];

const programs = Deno.args[0] ?? "(say where the programs of a Postgres 17 with Citus are)";
await using started = new AsyncDisposableStack();
const began = performance.now();
const start = (name: string, isMigrated: boolean) =>
  cluster.startNode(started, { name, programs, isMigrated });
const [one, first] = [await start("one Postgres", true), await start("node1", true)];
const [second, last] = [await start("node2", false), await start("node3", false)];
const nodes: [cluster.Node, ...cluster.Node[]] = [first, second, last];
/** The tokens of each organization, on one Postgres and on the cluster. */
const tokens = { one: new Map<number, string[]>(), cluster: new Map<number, string[]>() };

await grow();
await compareAnswers();
await compareSeals();
await measureCosts();
await countAccepted();
await revoke();
await readBesideWriters();
await follow();
await moveShards();
await killNode();
await compareSeals();
await started.disposeAsync();
Deno.exit();

function say(text: string): void {
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
}

/** Makes a cluster. distribute.sql must refuse a Postgres without Citus, a lone node, and the second run. */
async function grow(): Promise<void> {
  await fill(one, tokens.one);
  await fill(first, tokens.cluster);
  await assert.rejects(cluster.runFile(one, "distribute.sql"), /this Postgres has no Citus/);
  for (const node of nodes) await cluster.runFile(node, "node.sql");
  await assert.rejects(cluster.runFile(first, "distribute.sql"), /Citus knows no other node/);
  await cluster.joinNodes(nodes);
  const start = performance.now();
  await cluster.runFile(first, "distribute.sql");
  say(`${ENTRIES} entries distributed in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  await assert.rejects(cluster.runFile(first, "distribute.sql"), /is distributed already/);
  const [privileges = [], ...others] = await Promise.all(nodes.map(cluster.listPrivileges));
  for (const list of others) assertEquals(list, privileges);
  say(`${privileges.length} functions and tables, shards too: the same privileges on every node`);
  for (const node of nodes) {
    await node.admin`notify pgrst, 'reload schema'`;
    while (!await ask(node, 1).catch(() => null)) await delay(100);
    node.faults.length = 0;
  }
}

/** Writes organizations and entries, the same in every call, and makes keys. */
async function fill({ sql, admin }: cluster.Node, tokens: Map<number, string[]>): Promise<void> {
  for (let n = 1; n <= ORGANIZATIONS; n++) {
    tokens.set(n, await makeKeys(sql, organizationId(n), KEYS + 1));
  }
  await sql`
    insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
    select md5('entry ' || n)::uuid, o.id, '2026-03-01Z'::timestamptz + abs(hashtext('time ' || n)) % (10 * 86400) * interval '1 s',
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3],
      'user' || n % 50 || '@example.com', 'Assistant of ' || o.rank, jsonb_build_object('n', n, 'text', E'"ä\\ ☃')
    from generate_series(1, ${ENTRIES}::int) as n
    join (select id, right(id::text, 12)::int from audit_log.organizations) as o (id, rank) on o.rank = case when n % 4 = 0 then 1 else 1 + n % ${ORGANIZATIONS}::int end`;
  await admin`analyze`;
}

/** Asks a node with a key of an organization. Its first key is for the tests of keys. */
async function ask(
  node: cluster.Node,
  organization: number,
  query: Record<string, string> = {},
  key = 1 + Math.floor(Math.random() * KEYS),
) {
  const parameters = { start: "2026-03-01", end: "2026-03-10", limit: "1000", ...query };
  const url = `${node.apiUrl}/functions/v1/public-audit-log?${new URLSearchParams(parameters)}`;
  const token = (node === one ? tokens.one : tokens.cluster).get(organization)?.[key];
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const text = await response.text();
  if (response.status === 500) throw new Error(`${node.name}: ${node.faults.at(-1)}`);
  const items: { agent_name: string }[] = JSON.parse(text).items;
  return { status: response.status, text, items };
}

/** Does something so many times, so many at once. */
async function times(count: number, run: (random: Random) => Promise<unknown>, atOnce = 9) {
  await Promise.all(Array.from({ length: atOnce }, async (_, worker) => {
    for (const random = randomFrom(worker); count-- > 0;) await run(random);
  }));
}

function randomQuery(random: Random): Record<string, string> {
  const from = 1 + random(10);
  const [start = "", end = ""] = [from, from + random(11 - from)]
    .map((day) => `2026-03-${String(day).padStart(2, "0")}`);
  const offset = `${pick(random, [0, 0, random(50), random(2_000)])}`;
  const action = pick(random, ["", "", "agent_added", "conversation_created", "message_created"]);
  const order = pick(random, ["asc", "desc"]);
  const limit = pick(random, ["1", "10", "100", "1000"]);
  return { start, end, limit, offset, order, ...action ? { action } : {} };
}

/** Compares pages and totals of all nodes with those of one Postgres, and asks whose they are. */
async function compareAnswers(): Promise<void> {
  let entries = 0;
  await times(QUERIES, async (random) => {
    const [organization, query] = [1 + random(ORGANIZATIONS), randomQuery(random)];
    const expected = await ask(one, organization, query);
    const { status, text, items } = await ask(pick(random, nodes), organization, query);
    assertEquals([status, text], [200, expected.text], JSON.stringify(query));
    for (const item of items) assertEquals(item.agent_name, `Assistant of ${organization}`);
    entries += items.length;
  });
  tokens.cluster.set(0, tokens.one.get(1) ?? []);
  assertEquals((await ask(second, 0)).status, 401, "a key that this cluster does not know");
  say(`${QUERIES} random queries with ${entries} entries: the same bytes as from one Postgres`);
}

/** Runs the upkeep on one Postgres and on the cluster. Both must seal the same days with the same hashes. */
async function compareSeals(): Promise<void> {
  const seals: Map<string, string>[] = [];
  for (const [asked, all] of [[one, [one]], [first, nodes]] as const) {
    const time = await cluster.processorTime(all);
    const { seconds } = await runUpkeep(asked.sql);
    const used = (await cluster.processorTime(all) - time) / 1000;
    const [row] = await asked.sql`select audit_log_private.health() as health`;
    const { altered_days, miscounted_days, is_adopted } = row?.["health"];
    assertEquals([altered_days, miscounted_days, is_adopted], [[], [], true]);
    const rows = await asked.sql<{ day: string; sha256: string }[]>`
      select organization_id || ' ' || day as day, entries || ' ' || sha256 as sha256
      from audit_log_private.seals order by organization_id, sequence`;
    seals.push(new Map(rows.map(({ day, sha256 }) => [day, sha256])));
    say(
      `upkeep of ${asked.name}: ${rows.length} seals, nothing altered or miscounted, ` +
        `${seconds.toFixed(1)} s, ${used.toFixed(1)} s of processor time`,
    );
  }
  for (const [day, sha256] of seals[0] ?? []) assertEquals(seals[1]?.get(day), sha256, day);
}

/** Measures what a request costs all databases together, by how many nodes are asked. */
async function measureCosts(): Promise<void> {
  for (const asked of [[one], [first], [first, second], nodes]) {
    const all = asked[0] === one ? asked : nodes;
    const request = (random: Random) =>
      ask(pick(random, asked), 1 + random(ORGANIZATIONS), { ...randomQuery(random), limit: "100" });
    await times(200, request, 6);
    const [start, time] = [performance.now(), await cluster.processorTime(all)];
    await times(COSTS, request, 6);
    const rate = COSTS / (performance.now() - start) * 1000;
    const cost = (await cluster.processorTime(all) - time) / COSTS;
    const name = all.length === 1 ? one.name : `${asked.length} of ${all.length} nodes`;
    say(
      `asking ${name}: ${cost.toFixed(2)} ms of the databases' processor time a request, ${
        rate.toFixed(0)
      } a second`,
    );
  }
}

/** Sends 120 requests with one key to all nodes at once. 60 must be accepted. */
async function countAccepted(): Promise<void> {
  for (let organization = 1; organization <= 5; organization++) {
    const statuses: number[] = [];
    await times(120, async (random) => {
      const { status } = await ask(pick(random, nodes), organization, { limit: "1" }, 0);
      statuses.push(status);
    }, 24);
    assertEquals(statuses.sort(), [...Array(60).fill(200), ...Array(60).fill(429)]);
  }
  say("5 keys, 120 requests each at once to all nodes: 60 accepted, 60 refused");
}

/** Revokes keys while they are used. After the commit, no node may accept them. */
async function revoke(): Promise<void> {
  let [before, after] = [0, 0];
  for (let organization = 6; organization <= 20; organization++) {
    let isRevoked = false;
    const asking = times(48, async (random) => {
      const wasRevoked = isRevoked;
      const { status } = await ask(pick(random, nodes), organization, { limit: "1" }, 0);
      if (wasRevoked) assertEquals(status, 401);
      if (wasRevoked) after++;
      else if (status === 200) before++;
    }, 6);
    await pick(randomFrom(organization), nodes).sql`
      update audit_log_private.api_keys set revoked_at = statement_timestamp()
      where organization_id = ${organizationId(organization)}
        and hint like '%' || ${tokens.cluster.get(organization)?.[0]?.slice(-4) ?? ""}`;
    isRevoked = true;
    await asking;
  }
  assert(before > 0 && after > 0);
  say(`15 keys revoked while asked: ${before} accepted before, 0 of ${after} after, on any node`);
}

async function readBesideWriters(): Promise<void> {
  const { failures, reads, items, writes, deletions } = await besideGroups(
    { stacks: nodes, atOnce: 4 },
    async (seen) => {
      while (seen.reads < READS) await delay(100);
    },
  );
  assertEquals(failures, [], logged());
  say(
    `${reads} reads with ${items} entries beside ${writes} writes and ${deletions} deletions: 0 torn, counts exact`,
  );
}

/** Runs the feed's own test, with writers on one node and readers of another: each must get every entry once. */
async function follow(seconds = 20, isMoving = false): Promise<void> {
  const stack = { apiUrl: last.apiUrl, databaseUrl: first.databaseUrl };
  const seen = await followUnderLoad({ stack, seconds, heldSeconds: isMoving ? 1 : 8, isMoving });
  say(
    `after: ${seen.entries} entries followed beside 16 writers, 0 missed, 0 repeated; ` +
      (isMoving
        ? `${seen.failures} writes and polls failed, followers started again ${seen.restarts} times`
        : `lag median ${Math.round(seen.medianLag)} ms, 99 of 100 within ${
          Math.round(seen.p99Lag)
        } ms`),
  );
}

/** Moves shards while they are written to, read and followed. */
async function moveShards(): Promise<void> {
  const following = follow(60, true);
  const moves: string[] = [];
  const seen = await besideGroups({ stacks: nodes, atOnce: 2 }, async (_, ids) => {
    for (let move = 0; move < MOVES; move++) {
      const [followed] = await first.sql`
        select id from audit_log.organizations where name = 'Followed' order by created_at desc limit 1`;
      const start = performance.now();
      const ended = await cluster.moveOrganization(nodes, move % 2 ? followed?.["id"] : ids[move]);
      moves.push(`${((performance.now() - start) / 1000).toFixed(1)} s`, ...ended);
    }
  });
  await following;
  const { writes, reads, failures, longestWrite } = seen;
  say(
    `${MOVES} shards moved (${
      moves.join(", ")
    }) beside them and ${writes} writes and ${reads} reads: ` +
      `${failures.length} failed, longest write ${
        longestWrite.toFixed(0)
      } ms, 0 torn, none lost, counts exact`,
  );
  say(`  failed: ${logged()}`);
}

/** The causes of all 500s so far. */
function logged(): string {
  const lines = nodes.flatMap(({ faults }) => faults).join("");
  return [...new Set(lines.match(/(?<="error":")[^"]*/g))].join("; ");
}

/** Kills a node and starts it again. Only requests for its organizations may fail meanwhile. */
async function killNode(): Promise<void> {
  const asked = [first, second];
  let [answered, waited, retried, back] = [0, 0, 0, 0];
  const { writes, failures } = await besideGroups({ stacks: asked, atOnce: 2 }, async () => {
    await stopPostgres(last.postgres.dataDir, "immediate");
    for (let organization = 1; organization <= ORGANIZATIONS; organization++) {
      const isIts = await cluster.homeOf(nodes, organizationId(organization)) === 2;
      for (const node of asked) {
        const answer = await ask(node, organization).catch(() => null);
        assertEquals(answer === null, isIts, `organization ${organization} of ${node.name}`);
        if (isIts) waited++;
        else answered++;
      }
    }
    await startPostgres(last.postgres);
    back = performance.now();
    for (let organization = 1; organization <= ORGANIZATIONS; organization++) {
      for (const node of asked) {
        while (!await ask(node, organization).catch(() => null)) assert(retried++ < 10_000);
      }
    }
    back = (performance.now() - back) / 1000;
  });
  // The other nodes find out that a connection to it is broken when they use it.
  await times(40, () => first.sql`select count(*) from audit_log.organizations`.catch(() => {}), 8);
  say(
    `${last.name} killed: ${answered} requests for organizations elsewhere were answered, ${waited} for its own were not; ` +
      `${back.toFixed(1)} s after its start all were, after ${retried} more tries. ` +
      `${writes} writes acknowledged, ${failures.length} requests failed, none lost, counts exact`,
  );
}
