import { AUDIT_LOG_URL } from "../helpers.ts";
import { type Ended, textOf } from "../run_program.ts";

const LONGEST_RUN_MS = 60_000;

export const KILLED = 137;

/** This machine's Node, the oldest and the newest Node that the command supports, and Deno. */
const RUNTIMES = {
  Node: ["node"],
  "Node 20": ["npx", "-y", "node@20.20.2"],
  "Node 22": ["npx", "-y", "node@22.23.3"],
  Deno: [Deno.execPath(), "run", "-A"],
};

export interface CliOptions {
  key?: string;
  /** The API, or a proxy before it. */
  url?: string;
  env?: Record<string, string>;
  on?: keyof typeof RUNTIMES;
}

export interface Running {
  process: Deno.ChildProcess;
  output: Promise<Ended>;
}

/** Starts the command that is installed in a folder. */
export function startCli(installed: string, args: string[], options: CliOptions): Running {
  const { key = "", url = AUDIT_LOG_URL, env = {}, on = "Node" } = options;
  const main = `${installed}/node_modules/public-audit-log/dist/main.js`;
  const [runtime = "", ...before] = RUNTIMES[on];
  const process = new Deno.Command(runtime, {
    args: [...before, main, ...args],
    env: { NO_COLOR: "1", AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  // Ends a run that hangs. Its exit code is then 143, which no test expects.
  const hangs = setTimeout(() => process.kill("SIGTERM"), LONGEST_RUN_MS);
  const output = process.output().finally(() => clearTimeout(hangs)).then(textOf);
  return { process, output };
}
