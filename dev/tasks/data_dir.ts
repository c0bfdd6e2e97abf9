import { join } from "node:path";

/** Locks a data folder for this process until it ends; `null` if another process has the lock. */
export async function lockDataDir(dataDir: string): Promise<Disposable | null> {
  await Deno.mkdir(dataDir, { recursive: true });
  const file = await Deno.open(join(dataDir, "lock"), { create: true, write: true });
  if (await file.tryLock(true)) return file;
  file.close();
  return null;
}
