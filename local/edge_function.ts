import { forEachLine } from "./lines.ts";

const MAIN = new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url);
const EXIT_WITH_PARENT = new URL("exit_with_parent.ts", import.meta.url);

export interface EdgeFunctionOptions {
  apiUrl: string;
  secretKey: string;
  /** The entry file. Benchmarks and tests of faults run others. */
  main?: URL;
  /** Deno's permission flags; {@linkcode permissionFlags} by default. */
  permissions?: string[];
  /** Given each line that the function logs. */
  log: (text: string) => void;
}

/** The Edge Function, running in its own process. */
export interface EdgeFunction extends AsyncDisposable {
  port: number;
  pid: number;
  /** Resolves when the process has ended, to its exit code. */
  ended: Promise<number>;
}

/**
 * Starts the Edge Function like on the platform: with the same entry file and environment, and permission to
 * talk to the Data API only. Resolves when it listens.
 */
export async function startEdgeFunction(options: EdgeFunctionOptions): Promise<EdgeFunction> {
  const { apiUrl, secretKey, main = MAIN, permissions = permissionFlags(apiUrl), log } = options;
  const environment = {
    SUPABASE_URL: apiUrl,
    SUPABASE_SECRET_KEYS: JSON.stringify({ default: secretKey }),
  };
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...permissions,
      `--preload=${EXIT_WITH_PARENT}`,
      main.href,
    ],
    env: { ...environment, DENO_SERVE_ADDRESS: "tcp:127.0.0.1:0", NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();

  const listening = Promise.withResolvers<number>();
  let errors = "";
  const output = Promise.all([
    forEachLine(process.stdout, log),
    forEachLine(process.stderr, (line) => {
      const port = line.match(/Listening on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
      if (port) listening.resolve(Number(port));
      else log(line);
      errors += line;
    }),
  ]);
  // Waits for the output, which explains why a process ended at its start.
  const ended = output.then(() => process.status).then(({ code }) => code);
  ended.then((code) => {
    listening.reject(new Error(`The function ended with code ${code} at its start: ${errors}`));
  });
  return {
    port: await listening.promise,
    pid: process.pid,
    ended,
    async [Symbol.asyncDispose]() {
      try {
        process.kill();
      } catch (error) {
        // It has ended already.
        if (!(error instanceof TypeError)) throw error;
      }
      await output;
    },
  };
}

/** Permission to listen, to talk to the Data API and to read its variables; nothing else. */
export function permissionFlags(apiUrl: string): string[] {
  return [
    "--no-prompt",
    // Port 0 listens on any free port. It does not allow calls.
    `--allow-net=127.0.0.1:0,${new URL(apiUrl).host}`,
    "--allow-env=SUPABASE_URL,SUPABASE_SECRET_KEYS,PUBLIC_AUDIT_LOG_URL",
    // By default a Deno process may import from some hosts and all of npm, which could leak data. Closing
    // that takes all three flags (Deno 2.9: --deny-import alone leaves the default hosts open).
    "--deny-import",
    "--cached-only",
    "--frozen",
  ];
}
