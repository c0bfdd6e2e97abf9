import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { createLite } from "../local/auth.ts";
import { createBaseline } from "../local/baseline.ts";
import { signJwt } from "../local/data_api.ts";
import { freePort } from "../local/free_port.ts";
import {
  databaseUrl,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "../local/postgres.ts";
import { findPostgrest, startPostgrest } from "../local/postgrest.ts";

/** A Postgres that looks like a project, and a Data API in front of it. */
export interface Node {
  name: string;
  postgres: PostgresOptions;
  /** Connections of the schema's owner, and one of the superuser. */
  sql: postgres.Sql;
  admin: postgres.Sql;
  /** Sends a request to the Data API as the platform itself. */
  post(path: string, body: unknown): Promise<Response>;
}

/** Where all nodes keep their data, and what starts them. */
export interface Cluster extends AsyncDisposable {
  folder: string;
  /** Folder of the programs of a Postgres 17 with Citus. */
  programs: string;
  started: AsyncDisposableStack;
}

const JWT_SECRET = crypto.randomUUID() + crypto.randomUUID();

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

/** Starts a Postgres as a new project has it; not yet a node of anything. */
export async function startNode(
  { folder, programs, started }: Cluster,
  name: string,
): Promise<Node> {
  const port = freePort();
  const adminPassword = crypto.randomUUID();
  const server = {
    dataDir: join(folder, name),
    port,
    adminPassword,
    programs,
    settings: SETTINGS,
  };
  await startPostgres(server);
  started.defer(() => stopPostgres(server.dataDir, "immediate"));
  const adminUrl = databaseUrl(port, "supabase_admin", adminPassword);
  const keys = { publishableKey: "", secretKey: "" };
  const lite = await createLite({
    databasePort: port,
    adminPassword,
    jwtSecret: JWT_SECRET,
    ...keys,
  });
  await createBaseline(adminUrl, { lite, authenticatorPassword: "authenticator" });
  await lite[Symbol.asyncDispose]();
  const admin = postgres(adminUrl, { max: 1, onnotice: () => {} });
  started.defer(() => admin.end());
  // The nodes let each other in. This machine is all of them.
  await Deno.writeTextFile(
    join(server.dataDir, "pg_hba.conf"),
    "host all all 127.0.0.1/32 trust\n",
  );
  await admin`select pg_reload_conf()`;
  // As in a project that was made years ago.
  for (const role of ["postgres", "supabase_admin"]) {
    for (const objects of ["tables", "functions"]) {
      await admin.unsafe(
        `alter default privileges for role ${role} in schema public
           grant all on ${objects} to anon, authenticated, service_role`,
      );
    }
  }
  const sql = postgres(databaseUrl(port), { max: 8, onnotice: () => {}, prepare: false });
  started.defer(() => sql.end());
  return {
    name,
    postgres: server,
    sql,
    admin,
    post: () => Promise.reject(new Error(`${name} has no Data API yet`)),
  };
}

/** Puts a Data API in front of a node, when its schema is there. */
export async function startDataApi({ started }: Cluster, node: Node): Promise<void> {
  const program = await findPostgrest();
  const { port } = started.use(
    await startPostgrest(program, {
      apiUrl: "http://127.0.0.1",
      databaseUrl: databaseUrl(node.postgres.port, "authenticator", "authenticator"),
      jwtSecret: JWT_SECRET,
      log: () => {},
    }),
  );
  const headers = {
    Authorization: `Bearer ${await signJwt({ role: "service_role" }, JWT_SECRET)}`,
    "Content-Type": "application/json",
    Prefer: "return=minimal",
  };
  node.post = (path, body) =>
    fetch(`http://127.0.0.1:${port}/${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
}

/** Applies the migrations. */
export async function migrate({ sql }: Node): Promise<void> {
  const folder = new URL("../supabase/migrations/", import.meta.url);
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  for (const name of names.sort()) {
    await sql.unsafe(await Deno.readTextFile(new URL(name, folder)));
  }
}

/**
 * Runs a file of this folder with psql, as the superuser.
 *
 * @throws {Error} with what it said, if it fails.
 */
export async function runFile(
  { programs }: Cluster,
  { postgres }: Node,
  file: string,
): Promise<void> {
  const url = databaseUrl(postgres.port, "supabase_admin", postgres.adminPassword);
  const path = fileURLToPath(new URL(file, import.meta.url));
  const { success, stderr } = await new Deno.Command(join(programs, "psql"), {
    args: ["--no-psqlrc", "--quiet", "--output=/dev/null", `--file=${path}`, url],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** Makes one cluster of nodes: the first is the coordinator, and holds organizations as the others do. */
export async function joinNodes(nodes: Node[]): Promise<void> {
  const [coordinator, ...workers] = nodes;
  if (!coordinator) throw new RangeError("no nodes");
  const { admin, postgres: { port } } = coordinator;
  await admin`select citus_set_coordinator_host('127.0.0.1', ${port})`;
  for (const { postgres } of workers) {
    await admin`select citus_add_node('127.0.0.1', ${postgres.port})`;
  }
  await admin`select citus_set_node_property('127.0.0.1', ${port}, 'shouldhaveshards', true)`;
}

/** The processor time that nodes have used since they were started, in milliseconds. */
export async function processorTime(nodes: readonly Node[]): Promise<number> {
  let ticks = 0;
  for (const { postgres } of nodes) {
    const pidFile = await Deno.readTextFile(join(postgres.dataDir, "postmaster.pid"));
    const postmaster = pidFile.split("\n")[0];
    for await (const { name } of Deno.readDir("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      const stat = await Deno.readTextFile(`/proc/${name}/stat`).catch(() => "");
      // After the name in parentheses: state, parent, …; the 14th to 17th fields are the times, those of
      // ended children last.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (name === postmaster) ticks += Number(fields[13]) + Number(fields[14]);
      if (name === postmaster || fields[1] === postmaster) {
        ticks += Number(fields[11]) + Number(fields[12]);
      }
    }
  }
  return ticks * 10;
}
