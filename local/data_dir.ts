import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Everything that `deno task start` keeps between two starts. Git-ignored. */
export const DATA_DIR = fileURLToPath(new URL("data", import.meta.url));

/** What `deno task status` prints while a start runs. */
export const STATUS_FILE = join(DATA_DIR, "status.env");

/**
 * Takes the data folder for this process, until it ends in whatever way; `null` if another has it.
 */
export async function lockDataDir(): Promise<Disposable | null> {
  await Deno.mkdir(DATA_DIR, { recursive: true });
  const file = await Deno.open(join(DATA_DIR, "lock"), { create: true, write: true });
  if (await file.tryLock(true)) return file;
  file.close();
  return null;
}
