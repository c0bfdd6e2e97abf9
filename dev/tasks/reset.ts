import { join } from "node:path";
import { stopPostgres } from "../local/postgres.ts";
import { DATA_DIR, lockData } from "./options.ts";

using lock = await lockData();
if (!lock) {
  console.error("Running: stop it with Ctrl-C where it was started, then try again.");
  Deno.exit(1);
}
await stopPostgres(join(DATA_DIR, "postgres"));
await Deno.remove(DATA_DIR, { recursive: true });
console.log("Emptied. The next start installs everything again.");
