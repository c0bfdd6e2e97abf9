import { assertEquals, assertMatch } from "@std/assert";
import { afterAll } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL } from "./mod.ts";
import { type Ended, runDeno, runProgram, textOf } from "./run_program.ts";

export * from "./command_log.ts";
export * from "./loopback.ts";
export * from "./mod.ts";
export * from "./proxy.ts";
export * from "./recipes.ts";
export * from "./run_program.ts";

const BUILD = fileURLToPath(new URL("../../dev/tasks/build_cli.ts", import.meta.url));

const temporary = Deno.makeTempDirSync();
afterAll(() => Deno.remove(temporary, { recursive: true }));

/** Makes a folder that is removed after the tests. */
export function newFolder(): string {
  return Deno.makeTempDirSync({ dir: temporary });
}

/** Installs the package as people do, into an empty folder. */
export async function installCli(): Promise<string> {
  const folder = newFolder();
  await mustRun(runDeno({ args: ["run", "--allow-all", BUILD, `${folder}/cli.tgz`] }));
  const args = ["install", "--no-audit", "--no-fund", "./cli.tgz"];
  await mustRun(runProgram("npm", { args, cwd: folder }));
  return folder;
}

/** Returns the output of a program, which must succeed. */
export async function mustRun(ended: Promise<Ended>): Promise<Ended> {
  const { code, stdout, stderr } = await ended;
  if (code !== 0) throw new Error(`exit code ${code}: ${stdout}${stderr}`);
  return { code, stdout, stderr };
}

const LONGEST_RUN_MS = 60_000;

export const KILLED = 137;

/** This machine's Node, the Nodes that are maintained, and Deno. */
const RUNTIMES = {
  Node: ["node"],
  "Node 22": ["npx", "-y", "node@22.23.3"],
  "Node 24": ["npx", "-y", "node@24.9.0"],
  Deno: [Deno.execPath(), "run", "-A"],
};

export interface CliOptions {
  key?: string;
  /** The API, or a proxy before it. */
  url?: string;
  env?: Record<string, string>;
  on?: keyof typeof RUNTIMES;
}

/** Starts the command that is installed in a folder. */
export function startCli(installed: string, args: string[], options: CliOptions) {
  const { key = "", url = AUDIT_LOG_URL, env = {}, on = "Node" } = options;
  const main = `${installed}/node_modules/Public-Audit-Log/dist/main.js`;
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

/** Fails unless a run ends with an exit code and says why. Returns what it says. */
export async function mustFail(
  { output }: Pick<ReturnType<typeof startCli>, "output">,
  code: number,
  why: RegExp,
): Promise<string> {
  const ended = await output;
  assertEquals(ended.code, code, ended.stderr);
  assertMatch(ended.stderr, why);
  return ended.stderr;
}
