import { lockDataDir } from "./data_dir.ts";
import { DATA_DIR, STATUS_FILE, taskCommand } from "./options.ts";

using lock = await lockDataDir(DATA_DIR);
if (lock) {
  console.error(`Not running. Start it: ${taskCommand("start")}`);
  Deno.exit(1);
}
const status = await Deno.readTextFile(STATUS_FILE).catch(() => "");
if (!status) {
  console.error("Starting or stopping: try again in a few seconds.");
  Deno.exit(1);
}
console.log(status.trimEnd());
