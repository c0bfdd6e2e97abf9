import { forEachLine } from "./lines.ts";

const MAIN = new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url);
const EXIT_WITH_PARENT = new URL("exit_with_parent.ts", import.meta.url);

export interface EdgeFunctionOptions {
  apiUrl: string;
  secretKey: string;
  /** Its entry file; benchmarks and faults have others. */
  main?: URL;
  /** What it may do: nothing more than {@linkcode permissionFlags}. */
  permissions?: string[];
  /** Given each line that the function logs. */
  log: (text: string) => void;
}

/** The Edge Function in a process of its own. */
export interface EdgeFunction extends AsyncDisposable {
  port: number;
  pid: number;
  /** Resolves when the process has ended, to its exit code. */
  ended: Promise<number>;
}

/**
 * Starts the Edge Function as it is deployed: the same entry file, only the environment the platform
 * gives it, and no permission but to talk to the Data API. Resolves when it listens.
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
  // Its last words are what explains an end at the start.
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
        // It has ended by itself.
        if (!(error instanceof TypeError)) throw error;
      }
      await output;
    },
  };
}

/** To listen, to talk to the Data API, to read two variables; nothing else. */
export function permissionFlags(apiUrl: string): string[] {
  return [
    "--no-prompt",
    // Port 0 is any free one, and only to listen on: nobody can be called there.
    `--allow-net=127.0.0.1:0,${new URL(apiUrl).host}`,
    "--allow-env=SUPABASE_URL,SUPABASE_SECRET_KEYS",
    // Deno lets every process import from some hosts and all of npm, and then writes it to the
    // lockfile: a way in, and out for data. It takes all three (Deno 2.9: --deny-import alone does
    // not close the hosts that are open by default).
    "--deny-import",
    "--cached-only",
    "--frozen",
  ];
}
