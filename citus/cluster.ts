import { join } from "node:path";
import postgres from "postgres";
import * as processes from "../bench/processes.ts";
import { databaseUrl } from "../local/postgres.ts";
import { startTemporaryStack, type TemporaryStack } from "../local/temporary_stack.ts";

/** Citus needs these: `wal_level` to move shards, many connections because each node also serves the others. */
const SETTINGS = [
  "shared_preload_libraries=citus",
  "wal_level=logical",
  "max_prepared_transactions=200",
  "max_connections=300",
];

/** A stack whose Postgres can be a node of a cluster. */
export type Node = Awaited<ReturnType<typeof startNode>>;

/**
 * Starts a stack that is not a node yet, with the automatic grants of old projects. Only the first node gets the
 * migrations, because Citus gives the others what it has. `programs`: the folder of a Postgres 17 with Citus.
 */
export async function startNode(
  started: AsyncDisposableStack,
  { name, programs, isMigrated }: { name: string; programs: string; isMigrated: boolean },
) {
  const server = { programs, settings: SETTINGS };
  const stack: TemporaryStack = started.use(await startTemporaryStack({ server, isMigrated }));
  const { dataDir, port, adminPassword } = stack.postgres;
  // Lets the other nodes in, which are on this machine, too.
  await Deno.writeTextFile(join(dataDir, "pg_hba.conf"), "host all all 127.0.0.1/32 trust\n");
  const adminUrl = databaseUrl(port, "supabase_admin", adminPassword);
  const admin = postgres(adminUrl, { max: 1, onnotice: () => {} });
  started.defer(() => admin.end());
  await admin.unsafe("select pg_reload_conf()");
  for (const objects of ["tables", "functions"]) {
    await admin.unsafe(`
      alter default privileges for role postgres, supabase_admin
        grant all on ${objects} to anon, authenticated, service_role`);
  }
  const sql = postgres(stack.databaseUrl, { max: 8, onnotice: () => {}, prepare: false });
  started.defer(() => sql.end());
  return { ...stack, name, sql, admin };
}

/** Runs a file of this folder as the superuser. */
export async function runFile({ admin }: Node, file: string): Promise<void> {
  try {
    await admin.unsafe(await Deno.readTextFile(new URL(file, import.meta.url)));
  } catch (error) {
    await admin`rollback`;
    throw error;
  }
}

/** Calls a function of the schema audit_log as a signed-in person, like the Data API. Returns its JSON. */
export async function callAs({ sql }: Node, person: string, call: string) {
  const claims = JSON.stringify({ sub: person, email: `${person}@example.com` });
  return await sql.begin(async (run) => {
    await run`select set_config('request.jwt.claims', ${claims}, true)`;
    await run`set local role authenticated`;
    const [row] = await run.unsafe(`select audit_log.${call} as answer`);
    return row?.["answer"];
  });
}

/** Makes a cluster. The first node is the coordinator, and has organizations like the others. */
export async function joinNodes([{ admin, postgres: { port } }, ...workers]: [Node, ...Node[]]) {
  await admin`select citus_set_coordinator_host('127.0.0.1', ${port})`;
  for (const { postgres } of workers) {
    await admin`select citus_add_node('127.0.0.1', ${postgres.port})`;
  }
  await admin`select citus_set_node_property('127.0.0.1', ${port}, 'shouldhaveshards', true)`;
}

/** Lists who may do what with the functions, tables, shards and columns of a node. */
export async function listPrivileges({ admin }: Node): Promise<string[]> {
  await admin`set citus.override_table_visibility = off`;
  const rows = await admin<{ line: string }[]>`
    select distinct concat_ws(' ', name, (select array_agg(a::text order by a::text) from unnest(acl) as a)) as line
    from (
      select pronamespace as schema, concat_ws(' ', oid::regprocedure, prosecdef, proconfig, md5(prosrc)) as name, proacl as acl
      from pg_proc
      union all
      select relnamespace, concat_ws(' ', regexp_replace(relname, '_\\d{6,}$', ''), relrowsecurity, attname), coalesce(attacl, relacl)
      from pg_class left join pg_attribute on attrelid = pg_class.oid and attacl is not null
      where relkind = 'r' and relname <> 'upkeep_state'
    ) as objects
    where schema in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace) order by line`;
  return rows.map(({ line }) => line);
}

/** Finds the node that has an organization. Returns its index. */
export async function homeOf(
  [{ admin }, ...workers]: [Node, ...Node[]],
  id: string,
): Promise<number> {
  const [row] = await admin`
    select nodeport from pg_dist_placement join pg_dist_node using (groupid)
    where shardid = get_shard_id_for_distribution_column('audit_log.organizations', ${id}::uuid)`;
  return 1 + workers.findIndex(({ postgres }) => postgres.port === row?.["nodeport"]);
}

/** Moves the shard of an organization to the next node. Returns the errors of failed attempts. */
export async function moveOrganization(nodes: [Node, ...Node[]], id: string): Promise<string[]> {
  const [{ admin }] = nodes;
  const home = await homeOf(nodes, id);
  const [from = 0, to = 0] = [home, (home + 1) % nodes.length].map((n) => nodes[n]?.postgres.port);
  for (const failures: string[] = [];;) {
    try {
      await admin`
        select citus_move_shard_placement(
          get_shard_id_for_distribution_column('audit_log.organizations', ${id}::uuid),
          '127.0.0.1', ${from}, '127.0.0.1', ${to}, shard_transfer_mode => 'force_logical')`;
      return failures;
    } catch (error) {
      // When a move and writers wait for each other, Citus ends the move and undoes it.
      if (failures.push(String(error)) === 5) throw error;
      await admin`call citus_cleanup_orphaned_resources()`;
    }
  }
}

/** The processor time that the databases of these nodes have used since they were started, in milliseconds. */
export async function processorTime(nodes: readonly Node[]): Promise<number> {
  let time = 0;
  for (const { postgres: { dataDir }, admin } of nodes) {
    const postmaster = parseInt(await Deno.readTextFile(`${dataDir}/postmaster.pid`));
    const backends = await admin<{ pid: number }[]>`select pid from pg_stat_activity`;
    for (const pid of [postmaster, ...backends.map(({ pid }) => pid)]) {
      // A backend may have ended since. Then the postmaster, its parent, has its time.
      time += await processes.processorTime(pid).catch(() => 0);
    }
  }
  return time;
}
