import { type ChildProcess, startChildProcess } from "./child_process.ts";

const MAIN = new URL("../supabase/functions/public-audit-log/index.ts", import.meta.url);

export interface EdgeFunctionOptions {
  apiUrl: string;
  secretKey: string;
  /** The entry file. Benchmarks and tests of attacks run others. */
  main?: URL;
  /** More flags for Deno. */
  flags?: string[];
  log: (line: string) => void;
}

export interface EdgeFunction extends ChildProcess {
  port: number;
}

/**
 * Starts the Edge Function as Supabase does, with the same entry file and environment. It may only talk to the
 * Data API. Resolves when it listens.
 */
export async function startEdgeFunction(options: EdgeFunctionOptions): Promise<EdgeFunction> {
  const { apiUrl, secretKey, main = MAIN, flags = [], log } = options;
  const listening = Promise.withResolvers<number>();
  let lastLines = "";
  const process = startChildProcess(Deno.execPath(), {
    args: ["run", ...permissionFlags(apiUrl), ...flags, main.href],
    env: {
      SUPABASE_URL: apiUrl,
      SUPABASE_SECRET_KEYS: JSON.stringify({ default: secretKey }),
      DENO_SERVE_ADDRESS: "tcp:127.0.0.1:0",
      NO_COLOR: "1",
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

/** Lets the function listen, talk to the Data API and read its variables, and nothing else. */
function permissionFlags(apiUrl: string): string[] {
  return [
    "--no-prompt",
    // Without it, Deno 2.9 warns when a request's signal was read, and aborts it after each answer, too.
    "--unstable-no-legacy-abort",
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
