import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { parseOrPrintUsage, wholeNumber } from "./usage.ts";

const DATA = fileURLToPath(new URL("../local/data", import.meta.url));
const USAGE = `The tasks start, status and reset take the same options:

  --api-port=PORT    the console and the API (54321)
  --db-port=PORT     Postgres (54322)
  --data-dir=FOLDER  keeps everything between two starts (dev/local/data)
  -h, --help         prints this`;

export const { API_PORT, DATABASE_PORT, DATA_DIR } = parseOrPrintUsage(USAGE, () => {
  const { values } = parseArgs({
    options: {
      "api-port": { type: "string", default: "54321" },
      "db-port": { type: "string", default: "54322" },
      "data-dir": { type: "string", default: DATA },
    },
  });
  return {
    API_PORT: wholeNumber("api-port", values["api-port"], 65_535),
    DATABASE_PORT: wholeNumber("db-port", values["db-port"], 65_535),
    DATA_DIR: values["data-dir"],
  };
});

/** A running start writes its addresses and keys here, which `deno task status` prints. */
export const STATUS_FILE = join(DATA_DIR, "status.json");

export function isRunByNpx(): boolean {
  return Deno.env.get("npm_command") === "exec";
}

/** Suggests a command with the options of this one, and with npx if this one was run with it. */
export function taskCommand(task: string): string {
  const npx = isRunByNpx() ? "npx -y " : "";
  return [`${npx}deno task ${task}`, ...Deno.args].join(" ");
}

/** Locks the data folder for this process until it ends; `null` if another process has the lock. */
export async function lockData(): Promise<Disposable | null> {
  await Deno.mkdir(DATA_DIR, { recursive: true });
  const file = await Deno.open(join(DATA_DIR, "lock"), { create: true, write: true });
  if (await file.tryLock(true)) return file;
  file.close();
  return null;
}
