import { lockDataDir, stopOrphan } from "./data_dir.ts";
import { DATA_DIR } from "./options.ts";

using lock = await lockDataDir(DATA_DIR);
if (!lock) {
  console.error("Running: stop it with Ctrl-C where it was started, then try again.");
  Deno.exit(1);
}
await stopOrphan(DATA_DIR);
await Deno.remove(DATA_DIR, { recursive: true });
console.log("Emptied. The next start makes everything anew.");
