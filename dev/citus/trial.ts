// Grows a project to three nodes on this machine, and compares them with one Postgres (README.md).
import assert, { deepEqual as assertEquals } from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { connect } from "../../tests/helpers/cluster.ts";
import { followUnderLoad } from "../../tests/helpers/feed_load.ts";
import { underLoad } from "../../tests/helpers/load.ts";
import { pick, randomFrom } from "../../tests/helpers/random.ts";
import * as project from "../harness/project.ts";
import { startPostgres, stopPostgres } from "../local/postgres.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";

type Node = Awaited<ReturnType<typeof startNode>>;

/** The organizations. Below, each is named by its place in this list. */
const IDS = Array.from({ length: 40 }, (_, n) => `00000000-0000-4000-8000-${1e11 + n}`);

const programs = Deno.args[0] ?? "(say where the programs of a Postgres 17 with Citus are)";
await using started = new AsyncDisposableStack();
const one = await startNode();
// The coordinator has organizations like the others. Citus gives the others what it has.
const [first, second, last] = [await startNode(), await startNode(false), await startNode(false)];
const nodes = [first, second, last];
for (const node of [one, first]) await fill(node);
const script = await Deno.readTextFile(new URL("distribute.sql", import.meta.url));
const distribute = () => first.admin.unsafe(script);
for (const { admin } of nodes) await admin`create extension citus`;
await assert.rejects(distribute(), /Citus knows no other node/);
await first.admin`select citus_set_coordinator_host('127.0.0.1', ${first.postgres.port})`;
for (const { postgres: { port } } of [second, last]) {
  await first.admin`select citus_add_node('127.0.0.1', ${port})`;
}
await first.admin`
  select citus_set_node_property('127.0.0.1', ${first.postgres.port}, 'shouldhaveshards', true)`;
await distribute();
await assert.rejects(distribute(), /is distributed already/);
const leave = first.sql`select audit_log.person_left(${`${IDS[0]}`}, 'ada')`;
assertEquals(await project.codeOf(leave), "0A000");
for (const node of nodes) {
  assertEquals(await listPrivileges(node), await listPrivileges(first));
  // Without migrations at its start, its Data API does not serve the schema yet.
  await node.admin`alter role authenticator set pgrst.db_schemas = 'public, audit_log'`;
  await node.admin`notify pgrst, 'reload config'`;
  await node.admin`notify pgrst, 'reload schema'`;
  while (!await ask(node, 1).catch(() => null)) await delay(100);
}
console.log("The entries are distributed, and each node grants the same");

await compare();
for (const { sql } of [one, first]) {
  while (await project.deleteEntriesBefore(sql, `${IDS[0]}`, day(9)));
}
await compare();

const quota = await project.quotaOf(first.sql);
const [key] = await project.addKeys(first.sql, `${IDS[0]}`, 1);
const asked = Array.from({ length: 2 * quota }, (_, n) => nodes[n % 3] ?? first);
const answers = await Promise.all(asked.map((node) => ask(node, 0, {}, key?.token)));
const statuses = answers.map(({ status }) => status);
assertEquals(statuses.sort(), [...Array(quota).fill(200), ...Array(quota).fill(429)]);
console.log(`Of ${2 * quota} requests with a key at once to all nodes, half are refused`);

await first.sql`insert into audit_log.actions values ('invited', 'Somebody was invited', '{who}')`;
const change = first.sql`update audit_log.actions set required = '{}' where code = 'invited'`;
assertEquals(await project.codeOf(change), "42501");
for (const [n, node] of nodes.entries()) {
  const id = `${IDS[n]}`;
  const incomplete = project.insertEntry(node.sql, id, { action: "invited" });
  assertEquals(await project.codeOf(incomplete), "23514");
  await first.sql`insert into audit_log.organization_members values (${id}, 'ada', 'admin')`;
  await first.sql`update audit_log.organizations set logs_key_events = true where id = ${id}`;
  const administer = (call: string) =>
    project.callAs<{ id: string; token: string }>(node.sql, "ada", call);
  const key = await administer(`create_api_key('${id}', 'trial')`);
  const events = { end: "9999-12-31", action: "api_key_created" };
  for (const at of nodes) assert(/"total":1\b/.test((await ask(at, n, events, key.token)).text));
  await administer(`list_api_keys('${id}')`);
  await administer(`revoke_api_key('${id}', '${key.id}')`);
  for (const at of nodes) assertEquals((await ask(at, n, {}, key.token)).status, 401);
  await first.sql`delete from audit_log.organization_members where user_id = 'ada'`;
}
console.log("New keys and actions hold on all nodes, and revoked keys on none");

// The feed's own test, with writers on one node and readers of another.
const { entries } = await followUnderLoad({ ...first, apiUrl: last.apiUrl }, 20);
console.log(`${entries} entries were followed beside 16 writers: 0 missed, 0 repeated`);

// A node is killed and started again. Meanwhile only requests for its organizations fail.
const { writes } = await underLoad({ stacks: [first, second], atOnce: 2 }, async (load) => {
  await stopPostgres(last.postgres.dataDir, "immediate");
  for (const [organization, id] of IDS.entries()) {
    const home = await project.valueOf(first.admin`
      select nodeport from pg_dist_placement join pg_dist_node using (groupid)
      where shardid = get_shard_id_for_distribution_column('audit_log.organizations', ${id}::uuid)`);
    const isAnswered = await ask(second, organization).then(() => true, () => false);
    assertEquals(isAnswered, home !== last.postgres.port, id);
  }
  await startPostgres(last.postgres);
  await load.waitUntilHealthy();
});
console.log(`A node was killed and started again: ${writes} writes acknowledged, none lost`);
// The other nodes find out that a connection to it is broken when they use it.
const count = ({ sql }: Node) => sql`select count(*) from audit_log.organizations`;
await Promise.allSettled(IDS.flatMap(() => nodes.map(count)));
await compare();
await started.disposeAsync();
Deno.exit();

/** Starts a stack with the automatic grants of old projects. */
async function startNode(isMigrated = true) {
  // Each node also serves the others.
  const settings = ["max_connections=300", "max_prepared_transactions=200"];
  const server = { programs, settings: ["shared_preload_libraries=citus", ...settings] };
  const stack = started.use(await startTemporaryStack({ server, isMigrated }));
  // Lets the other nodes in, which are on this machine, too.
  const rules = join(stack.postgres.dataDir, "pg_hba.conf");
  await Deno.writeTextFile(rules, "host all all 127.0.0.1/32 trust\n");
  const admin = started.use(connect(stack.postgres, { max: 1 }));
  await admin.unsafe(`
    select pg_reload_conf();
    alter default privileges for role postgres, supabase_admin
      grant all on tables to anon, authenticated, service_role;
    alter default privileges for role postgres, supabase_admin
      grant all on functions to anon, authenticated, service_role`);
  const sql = postgres(stack.databaseUrl, { max: 8, onnotice: () => {}, prepare: false });
  started.defer(() => sql.end());
  return { ...stack, sql, admin, tokens: [] as string[][] };
}

/** Writes the same organizations and entries in every call, and keys of owners without account. */
async function fill({ sql, admin, tokens }: Node): Promise<void> {
  await sql`
    insert into audit_log.organizations (id, platform_id)
    select id, id::text from unnest(${IDS}::uuid[]) as id`;
  for (const id of IDS) tokens.push((await project.addKeys(sql, id, 30)).map(({ token }) => token));
  await sql`
    insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
    select md5('entry ' || n)::uuid, (${IDS}::uuid[])[1 + n % 40],
      '2026-02-26Z'::timestamptz + n / 90 * interval '85 minutes',
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3],
      'user' || n % 50 || '@example.com', 'Assistant of ' || n % 40, jsonb_build_object('n', n, 'text', E'"ä\\ ☃')
    from generate_series(1, 60000) as n`;
  await admin`update audit_log_private.api_keys set owner_has_account = true`;
  await admin`analyze`;
}

/** Lists who may do what with the functions, tables, shards and columns of a node. */
async function listPrivileges({ admin }: Node): Promise<string[]> {
  await admin`set citus.override_table_visibility = off`;
  return await project.valueOf(admin`
    select array_agg(distinct concat_ws(' ', name, (select array_agg(a::text order by a::text) from unnest(acl) as a)))
    from (
      select pronamespace, concat_ws(' ', oid::regprocedure, prosecdef, proconfig, md5(prosrc)), proacl
      from pg_proc
      union all
      select relnamespace, concat_ws(' ', regexp_replace(relname, '_\\d{6,}$', ''), relrowsecurity, attname),
        coalesce(attacl, relacl)
      from pg_class left join pg_attribute on attrelid = pg_class.oid and attacl is not null
      where relkind = 'r' and relname <> 'upkeep_state'
    ) as objects (schema, name, acl)
    where schema = any ('{audit_log,audit_log_private,audit_log_here}'::regnamespace[])`);
}

/** One of the forty days of entries, which have a whole month. */
function day(n: number): string {
  return new Date(Date.UTC(2026, 1, 26 + n)).toISOString().slice(0, 10);
}

/** Asks a node for a page, with one of the organization's keys, or with another. Throws the cause of a 500. */
async function ask(node: Node, organization: number, query = {}, token?: string) {
  const tokens = (node === one ? one : first).tokens[organization];
  token ??= tokens?.[Math.floor(Math.random() * tokens.length)];
  const parameters = new URLSearchParams({ start: day(0), end: day(40), ...query });
  const url = `${node.apiUrl}/functions/v1/public-audit-log?${parameters}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const text = await response.text();
  if (response.status === 500) throw new Error(node.faults.at(-1));
  return { status: response.status, text };
}

/** Compares pages, what an auditor sees, and seals of all nodes with those of one Postgres. */
async function compare(): Promise<void> {
  await Promise.all([1, 2, 3, 4, 5, 6].map(async (seed) => {
    for (let [n, random] = [0, randomFrom(seed)]; n < 100; n++) {
      const [organization, from] = [random(IDS.length), random(40)];
      const query = {
        start: day(from),
        end: day(from + random(41 - from)),
        offset: `${pick(random, [0, 0, random(50), random(2_000)])}`,
        limit: pick(random, ["1", "10", "100", "1000"]),
        order: pick(random, ["asc", "desc"]),
        ...pick(random, [{}, { action: "agent_added" }, { action: "agent_added,feedback_given" }]),
        ...pick(random, [{}, {}, { user_email: `user${random(50)}@example.com` }]),
      };
      const expected = await ask(one, organization, query);
      assertEquals(await ask(pick(random, nodes), organization, query), expected);
    }
  }));
  assertEquals((await ask(second, 1, {}, one.tokens[1]?.[0])).status, 401);
  const seen = await see(one);
  for (const node of nodes) assertEquals(await see(node), seen);
  const [expected, found] = [await seal(one), await seal(first)];
  // The load has added days to the cluster.
  assertEquals([...expected.difference(found)], []);
  console.log(`600 random pages and ${expected.size} seals are the same, and no day is altered`);
}

/** What an auditor of some organizations sees, as text. Without seals, which have other times. */
async function see({ sql }: Node): Promise<string[]> {
  const query = `'${JSON.stringify({ start_date: day(0), end_date: day(40), page_offset: 7 })}'`;
  const calls = ["list_organizations()"];
  for (const [n, id] of IDS.slice(0, 4).entries()) {
    await sql`
      insert into audit_log.organization_members values (${id}, 'grace', 'auditor') on conflict do nothing`;
    await project.callAs(sql, "grace", `list_seals('${id}', ${query})`);
    calls.push(`read_audit_log('${id}', ${query})`, `daily_entry_counts('${id}', ${query})`);
    calls.push(`find_persons('${id}', 'user1')`, `list_streams('${id}')`);
    calls.push(`read_entry('${id}', '2026-03-24T05:00:00Z', md5('entry ${40_000 + n}')::uuid)`);
  }
  const answers = calls.map((call) => project.callAs(sql, "grace", call));
  return (await Promise.all(answers)).map((answer) => JSON.stringify(answer));
}

/** Does the upkeep, which must find nothing wrong. Returns the seals. */
async function seal({ sql }: Node): Promise<Set<string>> {
  await project.runUpkeep(sql);
  const alerts = sql`select concat(h -> 'page', h -> 'workday') from audit_log_private.health() h`;
  assertEquals(await project.valueOf(alerts), "[][]");
  await sql`select audit_log_private.metrics_text()`;
  const seals = sql`
    select array_agg(concat_ws(' ', organization_id, day, entries, sha256)) from audit_log_private.seals`;
  return new Set(await project.valueOf<string[]>(seals));
}
