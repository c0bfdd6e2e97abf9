import { lockDataDir, STATUS_FILE } from "./data_dir.ts";

using lock = await lockDataDir();
if (lock) {
  console.error("Not running. Start it: deno task start");
  Deno.exit(1);
}
try {
  Deno.stdout.writeSync(await Deno.readFile(STATUS_FILE));
} catch (error) {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
  console.error("Starting or stopping: try again in a few seconds");
  Deno.exit(1);
}
