import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
// The Deno of Supabase's runtime, which only this line names: DENO_VERSION in `.env` of
// github.com/supabase/edge-runtime, looked up on 2026-11-27 in its commit b1edf45 (2026-04-30).
import runtime from "npm:@deno/linux-x64-glibc@2.1.4/package.json" with { type: "json" };
import { type ChildProcess, startChildProcess } from "./child_process.ts";
import { runCommand } from "./run_command.ts";

export interface EdgeFunctionOptions {
  apiUrl: string;
  secretKey: string;
  name?: "public-audit-log" | "audit-log-streams";
  env?: Record<string, string>;
  main?: URL;
  log: (line: string) => void;
}

export interface EdgeFunction extends ChildProcess {
  port: number;
}

/**
 * Starts an Edge Function as Supabase does, on the same version of Deno, with the same entry file and environment.
 * The one that answers readers may only talk to the Data API. Resolves when it listens.
 */
export async function startEdgeFunction(options: EdgeFunctionOptions): Promise<EdgeFunction> {
  const { apiUrl, secretKey, name = "public-audit-log", env = {}, log } = options;
  const folder = new URL(`../../supabase/functions/${name}/`, import.meta.url);
  const { main = new URL("index.ts", folder) } = options;
  const host = new URL(apiUrl).host;
  // Port 0 listens on any free port. It does not allow calls.
  const net = name === "public-audit-log" ? `--allow-net=127.0.0.1:0,${host}` : "--allow-net";
  const listening = Promise.withResolvers<number>();
  let lastLines = "";
  const process = startChildProcess(await findRuntime(), {
    args: [
      ...["run", "--no-prompt", "--allow-env", net],
      // By default a Deno process may import from some hosts and all of npm, which could leak data.
      ...["--no-remote", "--cached-only", "--node-modules-dir=manual"],
      // The repository's own configuration and lockfile are for today's Deno.
      ...["--no-config", "--no-lock"],
      `--import-map=${fileURLToPath(new URL("deno.json", folder))}`,
      listenAnywhere(main),
    ],
    env: {
      SUPABASE_URL: apiUrl,
      SUPABASE_SECRET_KEYS: JSON.stringify({ default: secretKey }),
      NO_COLOR: "1",
      // A company's proxy may have a certificate that only the system knows.
      DENO_TLS_CA_STORE: "mozilla,system",
      ...env,
    },
    onLine(line) {
      const port = line.match(/Listening on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
      if (port) listening.resolve(Number(port));
      else log(line);
      lastLines = (lastLines + line).slice(-2000);
    },
  });
  process.ended.then((end) => {
    listening.reject(new Error(`The function ended at its start (${end}): ${lastLines}`));
  });
  return { ...process, port: await listening.promise };
}

let found: Promise<string> | undefined;

/** Finds the Deno of Supabase's runtime: on Linux x64 as locked, elsewhere the one that npx installs. */
export function findRuntime(): Promise<string> {
  const isLocked = Deno.build.os === "linux" && Deno.build.arch === "x86_64";
  const { resolve } = createRequire(import.meta.url);
  return found ??= isLocked
    ? Promise.resolve(join(resolve("@deno/linux-x64-glibc/package.json"), "../deno"))
    : runtimeFromNpx();
}

/** Asks the program itself where it is, because the one on npx's path only starts it. */
async function runtimeFromNpx(): Promise<string> {
  const call = `deno eval --no-config --no-lock "console.log(Deno.execPath())"`;
  const args = ["--yes", `--package=deno@${runtime.version}`, `--call=${call}`];
  return (await runCommand("npx", { args }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Error(`There is no npx, which installs Deno ${runtime.version}: install Node`);
  })).trim();
}

/**
 * Returns a module that runs the entry file. As on Supabase, the runtime decides where `Deno.serve` listens, and does not
 * abort a request's signal when its client leaves (ext/runtime/js/01_http.js of supabase/edge-runtime).
 */
function listenAnywhere(main: URL): string {
  const code = `
    const { serve } = Deno;
    const { signal } = new AbortController();
    const serveAsThere = (handler) => serve(
      { hostname: "127.0.0.1", port: 0 },
      (request) => handler(new Request(request, { signal })),
    );
    Object.assign(Deno, { serve: serveAsThere });
    await import(${JSON.stringify(main.href)});`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
}
