import { lockData, STATUS_FILE, taskCommand } from "./options.ts";

using lock = await lockData();
const status = lock ? "" : await Deno.readTextFile(STATUS_FILE).catch(() => "");
if (status) {
  console.log(status);
} else {
  console.error(
    lock
      ? `Nothing runs here. Start it: ${taskCommand("start")}\n` +
        "If you started it with --data-dir, give the same --data-dir here."
      : "Starting or stopping: try again in a few seconds.",
  );
  Deno.exitCode = 1;
}
