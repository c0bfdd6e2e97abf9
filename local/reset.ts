import { DATA_DIR, lockDataDir } from "./data_dir.ts";

using lock = await lockDataDir();
if (!lock) {
  console.error("Running: stop it with Ctrl-C first");
  Deno.exit(1);
}
await Deno.remove(DATA_DIR, { recursive: true });
console.log("Emptied. The next deno task start makes everything anew.");
