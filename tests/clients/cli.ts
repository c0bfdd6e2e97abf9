import { afterAll } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { type Ended, runDeno, runProgram, textOf } from "../run_program.ts";

const BUILD = fileURLToPath(new URL("../../tasks/build_cli.ts", import.meta.url));
const LONGEST_RUN_MS = 60_000;

/** The exit code of a killed process. */
export const KILLED = 137;

/** Installs the package as people do: builds it, packs it, and installs it into an empty folder. */
export async function installCli(...withPackages: string[]): Promise<string> {
  const folder = await Deno.makeTempDir();
  afterAll(() => Deno.remove(folder, { recursive: true }));
  await mustRun(runDeno({ args: ["run", "--allow-all", BUILD, `${folder}/built`] }));
  await mustRun(runProgram("npm", { args: ["pack", "./built"], cwd: folder }));
  await Deno.mkdir(`${folder}/installed`);
  const tarball = Array.from(Deno.readDirSync(folder)).find(({ name }) => name.endsWith(".tgz"));
  await mustRun(runProgram("npm", {
    args: ["install", "--no-audit", "--no-fund", `../${tarball?.name}`, ...withPackages],
    cwd: `${folder}/installed`,
  }));
  return `${folder}/installed`;
}

/** Returns the output of a program, which must succeed. */
export async function mustRun(ended: Promise<Ended>): Promise<Ended> {
  const { code, stdout, stderr } = await ended;
  if (code !== 0) throw new Error(`exit code ${code}: ${stdout}${stderr}`);
  return { code, stdout, stderr };
}

/** This machine's Node, the oldest and the newest Node that the command supports, and Deno. */
const RUNTIMES = {
  Node: ["node"],
  "Node 20": ["npx", "-y", "node@20.20.2"],
  "Node 22": ["npx", "-y", "node@22.23.3"],
  Deno: [Deno.execPath(), "run", "-A"],
};

/** How a test runs the command. */
export interface CliOptions {
  env: Record<string, string>;
  on?: keyof typeof RUNTIMES | undefined;
  /** The largest size of a file in bytes. A write beyond it kills the process. */
  longestFile?: number | undefined;
}

export interface Running {
  process: Deno.ChildProcess;
  output: Promise<Ended>;
}

/** Starts the command that is installed in a folder. */
export function startCli(
  installed: string,
  args: string[],
  { env, on = "Node", longestFile }: CliOptions,
): Running {
  const limited = longestFile === undefined
    ? []
    : ["sh", "-c", `ulimit -f ${Math.floor(longestFile / 512)}; exec "$@"`, "sh"];
  const main = `${installed}/node_modules/public-audit-log/dist/main.js`;
  const [program = "", ...rest] = [...limited, ...RUNTIMES[on], main, ...args];
  const process = new Deno.Command(program, {
    args: rest,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  // Ends a run that hangs. Its exit code is then 143, which no test expects.
  const hangs = setTimeout(() => process.kill("SIGTERM"), LONGEST_RUN_MS);
  const output = process.output().finally(() => clearTimeout(hangs)).then(textOf);
  return { process, output };
}
