import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { processorTime } from "../bench/processes.ts";
import { createLite } from "../local/auth.ts";
import { createBaseline } from "../local/baseline.ts";
import { createDataApi, type DataApi } from "../local/data_api.ts";
import { freePort } from "../local/free_port.ts";
import {
  databaseUrl,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../local/postgres.ts";
import { findPostgrest, startPostgrest } from "../local/postgrest.ts";

/** A Postgres that looks like a project, with the connections of the schema's owner and of a superuser. */
export interface Node {
  name: string;
  postgres: PostgresOptions;
  sql: postgres.Sql;
  admin: postgres.Sql;
}

/** Where nodes keep their data, and what stops them. */
export interface Cluster extends AsyncDisposable {
  folder: string;
  /** Folder of the programs of a Postgres 17 with Citus. */
  programs: string;
  started: AsyncDisposableStack;
}

/** Of all Data APIs. */
export const SECRET_KEY = "sb_secret_trial";

const KEYS = {
  jwtSecret: crypto.randomUUID() + crypto.randomUUID(),
  publishableKey: "sb_publishable_trial",
  secretKey: SECRET_KEY,
};

/** What Citus needs; `wal_level` is for moving shards. Each node has backends for the others' requests. */
const SETTINGS = [
  "shared_preload_libraries=citus",
  "wal_level=logical",
  "max_prepared_transactions=200",
  "max_connections=300",
];

/** A place for nodes; disposing of it stops them and deletes their data. */
export async function openCluster(programs: string): Promise<Cluster> {
  const folder = await Deno.makeTempDir({ prefix: "public_audit_log_citus_" });
  const started = new AsyncDisposableStack();
  started.defer(() => Deno.remove(folder, { recursive: true }));
  return { folder, programs, started, [Symbol.asyncDispose]: () => started.disposeAsync() };
}

/** Starts a Postgres as a project has it that was made years ago; not yet a node of anything. */
export async function startNode(cluster: Cluster, name: string): Promise<Node> {
  const { folder, programs, started } = cluster;
  const port = freePort();
  const adminPassword = crypto.randomUUID();
  const dataDir = join(folder, name);
  const server = { dataDir, port, adminPassword, programs, settings: SETTINGS };
  await startPostgres(server);
  started.defer(() => stopPostgres(dataDir, "immediate"));
  const adminUrl = databaseUrl(port, "supabase_admin", adminPassword);
  const lite = await createLite({ databasePort: port, adminPassword, ...KEYS });
  await createBaseline(adminUrl, { lite, authenticatorPassword: "authenticator" });
  await lite[Symbol.asyncDispose]();
  const admin = postgres(adminUrl, { max: 1, onnotice: () => {} });
  started.defer(() => admin.end());
  // The nodes let each other in. This machine is all of them.
  await Deno.writeTextFile(join(dataDir, "pg_hba.conf"), "host all all 127.0.0.1/32 trust\n");
  await admin`select pg_reload_conf()`;
  for (const role of ["postgres", "supabase_admin"]) {
    for (const objects of ["tables", "functions"]) {
      await admin.unsafe(
        `alter default privileges for role ${role} grant all on ${objects} to anon, authenticated, service_role`,
      );
    }
  }
  const sql = postgres(databaseUrl(port), { max: 8, onnotice: () => {}, prepare: false });
  started.defer(() => sql.end());
  return { name, postgres: server, sql, admin };
}

/** Puts a Data API in front of a node, when its schema is there. */
export async function startDataApi({ started }: Cluster, { postgres }: Node): Promise<DataApi> {
  const program = await findPostgrest();
  if (!program) throw new Error("There is no PostgREST for this machine");
  const log = () => {};
  const postgrest = started.use(
    await startPostgrest(program, {
      apiUrl: "http://127.0.0.1",
      databaseUrl: databaseUrl(postgres.port, "authenticator", "authenticator"),
      jwtSecret: KEYS.jwtSecret,
      log,
    }),
  );
  return started.use(await createDataApi({ port: postgrest.port, ...KEYS, log }));
}

/**
 * Runs files with psql, each in a transaction of its own.
 *
 * @throws {Error} with what psql said, if one fails.
 */
export async function runFiles({ programs }: Cluster, url: string, files: URL[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(join(programs, "psql"), {
    args: [
      "--no-psqlrc",
      "--quiet",
      "--output=/dev/null",
      "--set=ON_ERROR_STOP=1",
      ...files.map((file) => `--file=${fileURLToPath(file)}`),
      url,
    ],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** Runs a file of this folder as the superuser. */
export async function runFile(cluster: Cluster, { postgres }: Node, file: string): Promise<void> {
  const url = databaseUrl(postgres.port, "supabase_admin", postgres.adminPassword);
  await runFiles(cluster, url, [new URL(file, import.meta.url)]);
}

/** Applies the migrations. */
export async function migrate(cluster: Cluster, { postgres }: Node): Promise<void> {
  const folder = new URL("../supabase/migrations/", import.meta.url);
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  await runFiles(
    cluster,
    databaseUrl(postgres.port),
    names.sort().map((name) => new URL(name, folder)),
  );
}

/** Makes one cluster of nodes: the first is the coordinator, and holds organizations as the others do. */
export async function joinNodes([coordinator, ...workers]: [Node, ...Node[]]): Promise<void> {
  const { admin, postgres: { port } } = coordinator;
  await admin`select citus_set_coordinator_host('127.0.0.1', ${port})`;
  for (const { postgres } of workers) {
    await admin`select citus_add_node('127.0.0.1', ${postgres.port})`;
  }
  await admin`select citus_set_node_property('127.0.0.1', ${port}, 'shouldhaveshards', true)`;
}

/** The processor time that nodes have used since they were started, in milliseconds. */
export async function processorTimeOf(nodes: readonly Node[]): Promise<number> {
  let time = 0;
  for (const { postgres, admin } of nodes) {
    const file = await Deno.readTextFile(join(postgres.dataDir, "postmaster.pid"));
    const rows = await admin<{ pid: number }[]>`select pid from pg_stat_activity`;
    for (const pid of [parseInt(file), ...rows.map(({ pid }) => pid)]) {
      // One may have ended since: then the first, their parent, has its time.
      time += await processorTime([pid]).catch(() => 0);
    }
  }
  return time;
}
