import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    "api-port": { type: "string", default: "54321" },
    "db-port": { type: "string", default: "54322" },
    "data-dir": { type: "string", default: fileURLToPath(new URL("data", import.meta.url)) },
  },
});

export const API_PORT = Number(values["api-port"]);
export const DATABASE_PORT = Number(values["db-port"]);

/** Everything that `deno task start` keeps between two starts. */
export const DATA_DIR = values["data-dir"];

/** What `deno task status` prints while a start runs. */
export const STATUS_FILE = join(DATA_DIR, "status.env");
