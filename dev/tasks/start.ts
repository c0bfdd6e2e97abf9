import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { stopPostgres } from "../local/postgres.ts";
import { DEMO_EMAILS, DEMO_PASSWORD, demoApiKey } from "./demo.ts";
import { API_PORT, DATA_DIR, DATABASE_PORT, lockData, STATUS_FILE } from "./options.ts";
import { isRunByNpx, taskCommand } from "./options.ts";
import { isRunning } from "../../cli/files.ts";
import { sanitizeForLog } from "../../supabase/functions/public-audit-log/log_line.ts";
import { freePort } from "../local/free_port.ts";
import { runCommand } from "../local/run_command.ts";
import { type Stack, startStack } from "../local/stack.ts";

const stopRequest = Promise.withResolvers<string>();
let stopRequested = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) Deno.addSignalListener(signal, stop);

if (isRunByNpx()) npxEnded().then(stop);

try {
  await main();
} catch (error) {
  // After Ctrl-C, errors are its consequence.
  if (!stopRequested) {
    console.log(`\n${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
console.log("Stopped.");
Deno.exit();

async function main(): Promise<void> {
  using lock = await lockData();
  if (!lock) {
    throw new Error(
      `Already running. Its addresses: ${taskCommand("status")}\n` +
        "To start another beside it, give that one --api-port, --db-port and --data-dir.",
    );
  }
  // A run that was killed leaves its Postgres running.
  await stopPostgres(join(DATA_DIR, "postgres"));
  await Deno.writeTextFile(STATUS_FILE, "");
  checkPort(API_PORT, "api-port");
  checkPort(DATABASE_PORT, "db-port");

  console.log("Starting the public audit log:");
  await using stack = await startStack({
    dataDir: DATA_DIR,
    apiPort: API_PORT,
    databasePort: DATABASE_PORT,
    isDemo: true,
    progress: (step) => console.log(`  ${step} …`),
    // Log lines contain text from callers.
    log: (text) => console.log(sanitizeForLog(text.trimEnd(), 2000)),
  });
  const apiKey = await demoApiKey(stack, DATA_DIR);
  const shown = {
    API_URL: stack.apiUrl,
    DB_URL: stack.databaseUrl,
    PUBLISHABLE_KEY: stack.publishableKey,
    SECRET_KEY: stack.secretKey,
    AUDIT_LOG_URL: `${stack.apiUrl}/functions/v1/public-audit-log`,
    AUDIT_LOG_API_KEY: apiKey,
  };
  const lines = Object.entries(shown).map(([name, value]) => `${name}="${value}"`);
  await Deno.writeTextFile(STATUS_FILE, lines.join("\n"), { mode: 0o600 });
  console.log(welcome(stack, apiKey));

  const fault = await Promise.race([
    stopRequest.promise,
    stack.functionEnded.then((end) => `The function's process has ended (${end}).`),
  ]);
  await Deno.remove(STATUS_FILE);
  if (fault) throw new Error(`${fault} Start again: ${taskCommand("start")}`);
  console.log("\nStopping …");
}

function stop(): void {
  stopRequested = true;
  stopRequest.resolve("");
}

/**
 * Resolves when npx has ended. SIGTERM ends npx and the shell that it runs, but not `deno task`, which runs in that shell
 * and is our parent.
 */
async function npxEnded(): Promise<void> {
  const shell = await parentOf(Deno.ppid);
  // If it has ended already, the parent is process 1.
  while (shell !== "1" && isRunning(shell)) await delay(500);
}

async function parentOf(pid: number): Promise<string> {
  const id = Deno.build.os === "linux"
    ? (await Deno.readTextFile(`/proc/${pid}/status`)).match(/^PPid:\s*(\d+)/m)?.[1]
    : await runCommand("ps", { args: ["-o", "ppid=", "-p", String(pid)] });
  return `${id}`.trim();
}

function checkPort(port: number, option: string): void {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
  } catch (error) {
    const what = error instanceof Deno.errors.AddrInUse ? "is taken" : `cannot be used (${error})`;
    throw new Error(`Port ${port} ${what}. Choose another, as with --${option}=${freePort()}`);
  }
}

function welcome(stack: Stack, apiKey: string): string {
  const url = `${stack.apiUrl}/functions/v1/public-audit-log`;
  // The seed has a year of entries, up to the day of the first start.
  const [start, end] = [364, 0]
    .map((days) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10));
  return `
Ready.

  Console   ${stack.apiUrl}/
  Docs      ${stack.apiUrl}/docs/quick-start.html
  API       ${url}
  Database  ${stack.databaseUrl}
  Sign in   ${DEMO_EMAILS.join(" or ")}, password ${DEMO_PASSWORD}
  Demo key  ${apiKey}

Try it:

  curl "${url}?start=${start}&end=${end}&limit=2" \\
    -H "Authorization: Bearer ${apiKey}"

Ctrl-C stops; the data is kept (${taskCommand("reset")} empties it). Requests are logged below.
`;
}
