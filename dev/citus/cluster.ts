import { join } from "node:path";
import postgres from "postgres";
import * as processes from "../bench/processes.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { connect, processesOf } from "../../tests/helpers/cluster.ts";
import { valueOf } from "../harness/project.ts";

/** Citus needs these: many connections because each node also serves the others. */
const SETTINGS = [
  "shared_preload_libraries=citus",
  "max_prepared_transactions=200",
  "max_connections=300",
];

export type Node = Awaited<ReturnType<typeof startNode>>;
/** The coordinator and the others. All of them have organizations. */
export type Nodes = readonly [Node, Node, Node];

/**
 * Starts a stack that is not a node yet, with the automatic grants of old projects. Only the first node gets the
 * migrations, because Citus gives the others what it has. `programs`: the folder of a Postgres 17 with Citus.
 */
export async function startNode(
  started: AsyncDisposableStack,
  programs: string,
  isMigrated = true,
) {
  const server = { programs, settings: SETTINGS };
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
  return { ...stack, sql, admin };
}

export async function runFile({ admin }: Node, file: string): Promise<void> {
  try {
    await admin.unsafe(await Deno.readTextFile(new URL(file, import.meta.url)));
  } catch (error) {
    await admin`rollback`;
    throw error;
  }
}

/** Makes a cluster. The first node is the coordinator, and has organizations like the others. */
export async function joinNodes([{ admin, postgres: { port } }, ...workers]: Nodes): Promise<void> {
  await admin`select citus_set_coordinator_host('127.0.0.1', ${port})`;
  for (const { postgres } of workers) {
    await admin`select citus_add_node('127.0.0.1', ${postgres.port})`;
  }
  await admin`select citus_set_node_property('127.0.0.1', ${port}, 'shouldhaveshards', true)`;
}

/** Lists who may do what with the functions, tables, shards and columns of a node. */
export async function listPrivileges({ admin }: Node): Promise<string[]> {
  await admin`set citus.override_table_visibility = off`;
  return await valueOf(admin`
    select array_agg(distinct concat_ws(' ', name, (select array_agg(a::text order by a::text) from unnest(acl) as a)))
    from (
      select pronamespace as schema, concat_ws(' ', oid::regprocedure, prosecdef, proconfig, md5(prosrc)) as name, proacl as acl
      from pg_proc
      union all
      select relnamespace, concat_ws(' ', regexp_replace(relname, '_\\d{6,}$', ''), relrowsecurity, attname), coalesce(attacl, relacl)
      from pg_class left join pg_attribute on attrelid = pg_class.oid and attacl is not null
      where relkind = 'r' and relname not in ('upkeep_state', 'stream_home')
    ) as objects
    where schema in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace, 'audit_log_here'::regnamespace)`);
}

/** Finds the node that has an organization. Returns its index. */
export async function homeOf(nodes: Nodes, id: string): Promise<number> {
  const port = await valueOf(nodes[0].admin`
    select nodeport from pg_dist_placement join pg_dist_node using (groupid)
    where shardid = get_shard_id_for_distribution_column('audit_log.organizations', ${id}::uuid)`);
  return nodes.findIndex(({ postgres }) => postgres.port === port);
}

/** The processor time that the databases of these nodes have used since they were started, in milliseconds. */
export async function processorTime(nodes: readonly Node[]): Promise<number> {
  let time = 0;
  for (const { postgres } of nodes) {
    for (const pid of await processesOf(postgres)) {
      // A backend may have ended since. Then the postmaster, its parent, has its time.
      time += await processes.processorTime(pid).catch(() => 0);
    }
  }
  return time;
}
