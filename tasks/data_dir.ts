import { join } from "node:path";
import { isPostgresRunning, stopPostgres } from "../local/postgres.ts";

/** Locks a data folder for this process until it ends; `null` if another process has the lock. */
export async function lockDataDir(dataDir: string): Promise<Disposable | null> {
  await Deno.mkdir(dataDir, { recursive: true });
  const file = await Deno.open(join(dataDir, "lock"), { create: true, write: true });
  if (await file.tryLock(true)) return file;
  file.close();
  return null;
}

/** Stops the Postgres that a killed run left behind. */
export async function stopOrphan(dataDir: string): Promise<void> {
  const clusterDir = join(dataDir, "postgres");
  if (!await isPostgresRunning(clusterDir)) return;
  console.log("An earlier run was killed and left its Postgres running: stopping it.");
  await stopPostgres(clusterDir);
}
