import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    "api-port": { type: "string", default: "54321" },
    "db-port": { type: "string", default: "54322" },
    "data-dir": {
      type: "string",
      default: fileURLToPath(new URL("../local/data", import.meta.url)),
    },
  },
});

export const API_PORT = Number(options["api-port"]);
export const DATABASE_PORT = Number(options["db-port"]);

/** `deno task start` keeps everything here between two starts. */
export const DATA_DIR = options["data-dir"];

/** A running start writes its `StackInfo` here, for `deno task status`. */
export const STATUS_FILE = join(DATA_DIR, "status.json");

/** Suggests a command with the options of this one, and with npx if this one was run with it. */
export function taskCommand(task: string): string {
  const npx = Deno.env.get("npm_command") === "exec" ? "npx -y " : "";
  return [`${npx}deno task ${task}`, ...Deno.args].join(" ");
}
