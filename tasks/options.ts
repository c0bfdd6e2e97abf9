import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const USAGE = `Options of deno task start, status and reset:
  --api-port=54321   port of the API
  --db-port=54322    port of Postgres
  --data-dir=…       folder of all data (default: local/data)`;

const { apiPort, databasePort, dataDir, given } = readOptions();

export const API_PORT = apiPort;
export const DATABASE_PORT = databasePort;

/** `deno task start` keeps everything here between two starts. */
export const DATA_DIR = dataDir;

/** A running start writes its `StackInfo` here, for `deno task status`. */
export const STATUS_FILE = join(DATA_DIR, "status.json");

/** Suggests a command with the options of this one, and with npx if this one was run with it. */
export function taskCommand(task: string, changes: Record<string, number> = {}): string {
  const npx = Deno.env.get("npm_command") === "exec" ? "npx -y " : "";
  const options = { ...given, ...changes };
  const flags = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  return [`${npx}deno task ${task}`, ...flags].join(" ");
}

function readOptions() {
  try {
    const given = parseArgs({
      options: {
        "api-port": { type: "string" },
        "db-port": { type: "string" },
        "data-dir": { type: "string" },
      },
    }).values;
    const apiPort = readPort("api-port", given["api-port"] ?? "54321");
    const databasePort = readPort("db-port", given["db-port"] ?? "54322");
    if (apiPort === databasePort) throw new RangeError("--api-port and --db-port are the same");
    const dataDir = given["data-dir"] ?? fileURLToPath(new URL("../local/data", import.meta.url));
    return { apiPort, databasePort, dataDir, given };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    Deno.exit(2);
  }
}

function readPort(option: string, text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new RangeError(`--${option}=${text}: must be a port, 1 to 65535`);
}
