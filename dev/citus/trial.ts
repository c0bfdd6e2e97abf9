// Grows a project to three nodes on this machine and checks what docs/scaling.md says of them.
//
//   deno task citus /path/to/postgres-17-with-citus/bin
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { startPostgres, stopPostgres } from "../local/postgres.ts";
import { followUnderLoad } from "../../tests/helpers/feed_load.ts";
import { underLoad } from "../../tests/helpers/load.ts";
import { addKeys, callAs, codeOf, insertEntry, runUpkeep, valueOf } from "../harness/project.ts";
import { pick, type Random, randomFrom } from "../../tests/helpers/random.ts";
import * as cluster from "./cluster.ts";

const QUERIES = 1_500;
const [ENTRIES, KEYS] = [60_000, 30];
const TODAY = new Date().toISOString().slice(0, 10);
/** The first of the ten days of entries. They are four days apart, so that a whole month is among them. */
const FIRST_DAY = "2026-02-26";
/** The organizations. Functions below name one by its place in this list. */
const IDS = Array.from({ length: 40 }, (_, n) => `00000000-0000-4000-8000-${1e11 + n}`);

const programs = Deno.args[0] ?? "(say where the programs of a Postgres 17 with Citus are)";
await using started = new AsyncDisposableStack();
const began = performance.now();
const one = await cluster.startNode(started, programs);
const first = await cluster.startNode(started, programs);
const second = await cluster.startNode(started, programs, false);
const last = await cluster.startNode(started, programs, false);
const nodes: cluster.Nodes = [first, second, last];
/** The tokens of each organization, on one Postgres and on the cluster. */
const tokens = { one: await fill(one), cluster: await fill(first) };

await grow();
await compareSeals();
await compareAnswers();
await compareConsoles();
await measureCosts();
await changeActions();
await countRequests();
await administerKeys();
await follow();
await killNode();
await compareSeals();
await started.disposeAsync();
Deno.exit();

function say(text: string): void {
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(4)} s  ${text}`);
}

/** Writes the same organizations and entries in every call. Returns keys of each organization. */
async function fill({ sql, admin }: cluster.Node): Promise<string[][]> {
  await sql`
    insert into audit_log.organizations (id, name)
    select id, 'Trial' from unnest(${IDS}::uuid[]) as id`;
  const keys: string[][] = [];
  for (const id of IDS) keys.push((await addKeys(sql, id, KEYS)).map(({ token }) => token));
  await sql`
    insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
    select md5('entry ' || n)::uuid, (${IDS}::uuid[])[1 + o],
      ${FIRST_DAY}::text::timestamptz + abs(hashtext('day ' || n)) % 10 * interval '4 days'
        + abs(hashtext('time ' || n)) % 86400 * interval '1 second',
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3],
      'user' || n % 50 || '@example.com', 'Assistant of ' || o, jsonb_build_object('n', n, 'text', E'"ä\\ ☃')
    from (
      select n, case when n % 4 = 0 then 0 else n % ${IDS.length}::int end as o
      from generate_series(1, ${ENTRIES}::int) as n
    ) as numbers`;
  await admin`analyze`;
  return keys;
}

/** Makes a cluster. distribute.sql must refuse a Postgres without Citus, a lone node, and the second run. */
async function grow(): Promise<void> {
  await assert.rejects(cluster.runFile(one, "distribute.sql"), /this Postgres has no Citus/);
  const logTable = () =>
    first.sql`
      select audit_log_private.log_table(
        'public.documents', 'refuse', 'organization_id', '''Web app''', on_insert => 'conversation_created'
      )`;
  await first.sql`create table public.documents (organization_id text)`;
  await logTable();
  for (const node of nodes) await cluster.runFile(node, "node.sql");
  await assert.rejects(cluster.runFile(first, "distribute.sql"), /Citus knows no other node/);
  await cluster.joinNodes(nodes);
  await assert.rejects(cluster.runFile(first, "distribute.sql"), /log_table logs tables/);
  await first.sql`select audit_log_private.unlog_table('public.documents')`;
  await cluster.runFile(first, "distribute.sql");
  const leave = first.sql`select audit_log.person_left(${IDS[0] ?? ""}, 'ada')`;
  for (const refused of [logTable(), leave]) assertEquals(await codeOf(refused), "0A000");
  await assert.rejects(cluster.runFile(first, "distribute.sql"), /is distributed already/);
  const [privileges, ...others] = await Promise.all(nodes.map(cluster.listPrivileges));
  for (const list of others) assertEquals(list, privileges);
  for (const node of nodes) {
    // Without migrations at its start, its Data API does not serve the schema yet.
    await node.admin`alter role authenticator set pgrst.db_schemas = 'public, audit_log'`;
    await node.admin`notify pgrst, 'reload config'`;
    await node.admin`notify pgrst, 'reload schema'`;
    while (!await ask(node, tokenOf(node, 1)).catch(() => null)) await delay(100);
    node.faults.length = 0;
  }
  say(`${ENTRIES} entries are distributed. Each node grants the same`);
}

function day(n: number): string {
  return new Date(Date.parse(FIRST_DAY) + n * 86_400_000).toISOString().slice(0, 10);
}

function tokenOf(node: cluster.Node, organization: number): string {
  const its = (node === one ? tokens.one : tokens.cluster)[organization];
  return its?.[Math.floor(Math.random() * KEYS)] ?? "";
}

/** Asks a node for a page. Throws the cause of a 500. */
async function ask(node: cluster.Node, token: string, query: Record<string, string> = {}) {
  const parameters = { start: day(0), end: day(40), limit: "1000", ...query };
  const url = `${node.apiUrl}/functions/v1/public-audit-log?${new URLSearchParams(parameters)}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const text = await response.text();
  if (response.status === 500) throw new Error(node.faults.at(-1));
  const items: Item[] = JSON.parse(text).items;
  return { status: response.status, text, items };
}

type Item = Record<"id" | "created_at" | "action" | "agent_name", string>;

async function askEntry(node: cluster.Node, token: string, { id, created_at }: Item) {
  const url = `${node.apiUrl}/functions/v1/public-audit-log/entries/${id}?created_at=${created_at}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  return await response.text();
}

/** Runs something so many times, so many at once. */
async function times(count: number, run: (random: Random) => Promise<unknown>, atOnce = 9) {
  await Promise.all(Array.from({ length: atOnce }, async (_, worker) => {
    for (const random = randomFrom(worker); count-- > 0;) await run(random);
  }));
}

function randomQuery(random: Random): Record<string, string> {
  const from = random(40);
  const [start, end] = [day(from), day(from + random(41 - from))];
  const offset = `${pick(random, [0, 0, random(50), random(2_000)])}`;
  const actions = ["", "", "agent_added", "agent_added,feedback_given", "message_created"];
  const action = pick(random, actions);
  const user_email = pick(random, ["", "", "", `user${random(50)}@example.com`]);
  const order = pick(random, ["asc", "desc"]);
  const limit = pick(random, ["1", "10", "100", "1000"]);
  const filters = Object.entries({ action, user_email }).filter(([, value]) => value);
  return { start, end, limit, offset, order, ...Object.fromEntries(filters) };
}

/** Compares pages of all nodes with those of one Postgres. Each must hold entries of its organization alone. */
async function compareAnswers(): Promise<void> {
  let entries = 0;
  await times(QUERIES, async (random) => {
    const [organization, query] = [random(IDS.length), randomQuery(random)];
    const expected = await ask(one, tokenOf(one, organization), query);
    const node = pick(random, nodes);
    const { status, text, items } = await ask(node, tokenOf(node, organization), query);
    assertEquals([status, text], [200, expected.text], JSON.stringify(query));
    for (const item of items) assertEquals(item.agent_name, `Assistant of ${organization}`);
    const [item] = items;
    const entry = item && await askEntry(node, tokenOf(node, organization), item);
    assert(!entry || text.includes(`"items":[${entry}`), entry);
    entries += items.length;
  });
  assertEquals((await ask(second, tokenOf(one, 1))).status, 401, "the cluster has no such key");
  say(
    `${QUERIES} random queries with ${entries} entries, and the first of each page alone: the same bytes as from one Postgres`,
  );
}

/** Compares what an auditor sees on all nodes with one Postgres. (Seals have other times, and cursors are random.) */
async function compareConsoles(): Promise<void> {
  const query = (more = {}) => {
    const fields = { start_date: day(0), end_date: day(40), page_limit: 5, ...more };
    return `'${JSON.stringify(fields)}'`;
  };
  for (const id of IDS.slice(0, 4)) {
    const see = async ({ sql }: cluster.Node) => {
      const call = (text: string) => callAs<Record<string, unknown>>(sql, "grace", text);
      const page = await call(`read_audit_log('${id}', ${query({ page_offset: 7 })})`);
      const [entry] = JSON.parse(`${page.items}`);
      const feed = await call(`read_audit_log('${id}', ${query({ after: "beginning" })})`);
      const seals = await call(`list_seals('${id}', ${query()})`);
      return [
        page,
        { ...feed, cursor: null },
        { ...seals, items: null },
        await call("list_organizations()"),
        await call(`read_entry('${id}', '${entry.created_at}', '${entry.id}')`),
        await call(`find_persons('${id}', 'user1')`),
        await call(`daily_entry_counts('${id}', ${query()})`),
      ];
    };
    for (const { sql } of [one, first]) {
      await sql`
        insert into audit_log.organization_members (organization_id, user_id, role)
        values (${id}, 'grace', 'auditor')`;
    }
    const expected = await see(one);
    for (const node of nodes) {
      for (const [n, answer] of (await see(node)).entries()) assertEquals(answer, expected[n]);
    }
  }
  say("An auditor sees the same on each node as on one Postgres");
}

/** Runs the upkeep on one Postgres and on the cluster. Both must seal the same days with the same hashes. */
async function compareSeals(): Promise<void> {
  const seals: Set<string>[] = [];
  for (const { sql } of [one, first]) {
    await runUpkeep(sql);
    const health = sql`
      select concat_ws(' ', h -> 'altered_days', h -> 'miscounted_days', h -> 'is_adopted')
      from audit_log_private.health() as h`;
    assertEquals(await valueOf(health), "[] [] true");
    const lines = sql`
      select array_agg(concat_ws(' ', organization_id, day, entries, sha256)) from audit_log_private.seals`;
    seals.push(new Set(await valueOf<string[]>(lines)));
  }
  const [expected = new Set(), found = new Set()] = seals;
  // The load has added days to the cluster.
  assertEquals([...expected.difference(found)], []);
  say(`${expected.size} seals of one Postgres are the same on the cluster, and no day is altered`);
}

async function measureCosts(): Promise<void> {
  for (const asked of [[one], nodes]) {
    const request = (random: Random) => {
      const node = pick(random, asked);
      const token = tokenOf(node, random(IDS.length));
      return ask(node, token, { ...randomQuery(random), limit: "100" });
    };
    await times(200, request);
    const before = await cluster.processorTime(asked);
    await times(QUERIES, request);
    const cost = (await cluster.processorTime(asked) - before) / QUERIES;
    say(`a request takes ${cost.toFixed(2)} ms of the processor in ${asked.length} databases`);
  }
}

/** Adds an action and deprecates it. Its code and its required fields cannot change on a cluster. */
async function changeActions(): Promise<void> {
  const action = "member_invited";
  await first.sql`
    insert into audit_log.actions (code, description, required)
    values (${action}, 'A person was invited', '{member_id}')`;
  for (const change of ["code = 'invited'", "required = '{}'"]) {
    const update = `update audit_log.actions set ${change} where code = '${action}'`;
    assertEquals(await codeOf(first.sql.unsafe(update)), "42501");
  }
  await first.sql`update audit_log.actions set deprecated_at = now() where code = ${action}`;
  for (const [n, node] of nodes.entries()) {
    await insertEntry(node.sql, `${IDS[1]}`, { action, data: '{"member_id": "m-1"}' });
    assertEquals(await codeOf(insertEntry(node.sql, `${IDS[1]}`, { action })), "23514");
    const { items } = await ask(node, tokenOf(node, 1), { start: TODAY, end: TODAY, action });
    assertEquals(items.length, n + 1);
    const deprecated = node.sql`select code from audit_log.actions where deprecated_at is not null`;
    assertEquals(await valueOf(deprecated), action);
  }
  say("An action was added and deprecated, and all nodes know it. Its code and required are fixed");
}

/** Sends 120 requests with one key to all nodes at once. 60 must be counted. */
async function countRequests(): Promise<void> {
  for (const id of IDS.slice(0, 5)) {
    const [key] = await addKeys(first.sql, id, 1);
    const statuses: number[] = [];
    await times(120, async (random) => {
      statuses.push((await ask(pick(random, nodes), `${key?.token}`, { limit: "1" })).status);
    }, 24);
    assertEquals(statuses.sort(), [...Array(60).fill(200), ...Array(60).fill(429)]);
  }
  say("5 keys, 120 requests each at once to all nodes: 60 counted, 60 refused");
}

/** Creates, rotates and revokes keys. No node may accept a key that was revoked, and the log must have each event. */
async function administerKeys(): Promise<void> {
  let refused = 0;
  for (let organization = 5; organization < 20; organization++) {
    const [id = "", random] = [IDS[organization], randomFrom(organization)];
    await first.sql`
      insert into audit_log.organization_members (organization_id, user_id, role) values (${id}, 'ada', 'admin')`;
    await first.sql`update audit_log.organizations set logs_key_events = true where id = ${id}`;
    const administer = (call: string) =>
      callAs<{ id: string; token: string }>(pick(random, nodes).sql, "ada", call);
    const created = await administer(`create_api_key('${id}', 'trial')`);
    const rotated = await administer(`rotate_api_key('${id}', '${created.id}', '0')`);
    assertEquals((await ask(pick(random, nodes), created.token)).status, 401);

    let isRevoked = false;
    const asking = times(48, async (random) => {
      const wasRevoked = isRevoked;
      const { status } = await ask(pick(random, nodes), rotated.token, { limit: "1" });
      if (!wasRevoked) return;
      assertEquals(status, 401);
      refused++;
    }, 6);
    const revoking = administer(`revoke_api_key('${id}', '${rotated.id}')`);
    await Promise.all([asking, revoking.then(() => isRevoked = true)]);
    const node = pick(random, nodes);
    const { items } = await ask(node, tokenOf(node, organization), { start: TODAY, end: TODAY });
    const events = items.map(({ action }) => action);
    assertEquals(events, ["api_key_created", "api_key_rotated", "api_key_revoked"]);
  }
  assert(refused > 0);
  say(
    `15 keys were created, rotated and revoked. After that, ${refused} requests were all refused`,
  );
}

/** Runs the feed's own test, with writers on one node and readers of another: each must get every entry once. */
async function follow(): Promise<void> {
  const stack = { apiUrl: last.apiUrl, databaseUrl: first.databaseUrl };
  const { entries } = await followUnderLoad({ stack, seconds: 20, heldSeconds: 8 });
  say(`${entries} entries were followed beside 16 writers: 0 missed, 0 repeated`);
}

function causes(): string {
  const lines = nodes.flatMap(({ faults }) => faults).join("");
  return [...new Set(lines.match(/(?<="error":")[^"]*/g))].join("; ");
}

/** Kills a node and starts it again. Only requests for its organizations may fail meanwhile. */
async function killNode(): Promise<void> {
  const asked = [first, second];
  const { writes, failures } = await underLoad({ stacks: asked, atOnce: 2 }, async () => {
    await stopPostgres(last.postgres.dataDir, "immediate");
    for (const [organization, id] of IDS.entries()) {
      const isIts = await cluster.homeOf(nodes, id) === 2;
      for (const node of asked) {
        const answer = await ask(node, tokenOf(node, organization)).catch(() => null);
        assertEquals(answer === null, isIts, `organization ${organization}`);
      }
    }
    await startPostgres(last.postgres);
    for (const organization of IDS.keys()) {
      for (const node of asked) {
        let tries = 0;
        while (!await ask(node, tokenOf(node, organization)).catch(() => null)) {
          assert(tries++ < 1_000, causes());
        }
      }
    }
  });
  // The other nodes find out that a connection to it is broken when they use it.
  await times(40, () => first.sql`select count(*) from audit_log.organizations`.catch(() => {}), 8);
  say(
    "node3 was killed: requests for organizations elsewhere were answered. After its start all were. " +
      `${writes} writes were acknowledged and none lost, ${failures.length} requests failed, counts exact`,
  );
}
