import { join } from "node:path";
import { parseArgs } from "node:util";
import { DATA_DIR, lockDataDir, STATUS_FILE } from "./data_dir.ts";
import { DEMO_EMAILS, DEMO_PASSWORD, demoApiKey } from "./demo.ts";
import { postgresRuns, stopPostgres } from "./postgres.ts";
import { type Stack, startStack } from "./stack.ts";

const { values } = parseArgs({
  options: {
    "api-port": { type: "string", default: "54321" },
    "db-port": { type: "string", default: "54322" },
  },
});
const apiPort = Number(values["api-port"]);
const databasePort = Number(values["db-port"]);

const stopped = Promise.withResolvers<void>();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  Deno.addSignalListener(signal, stopped.resolve);
}

await main().catch((error) => {
  console.error(`\n${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
});
Deno.exit();

async function main(): Promise<void> {
  using lock = await lockDataDir();
  if (!lock) throw new Error("Already running. Stop it with Ctrl-C where it was started.");
  const clusterDir = join(DATA_DIR, "postgres");
  if (await postgresRuns(clusterDir)) {
    console.log("An earlier run ended without stopping its Postgres: stopping it.");
    await stopPostgres(clusterDir);
  }
  checkPort(apiPort, "api-port");
  checkPort(databasePort, "db-port");

  console.log("Starting the public audit log:");
  await using stack = await startStack({
    dataDir: DATA_DIR,
    apiPort,
    databasePort,
    seed: true,
    progress: (step) => console.log(`  ${step} …`),
    log: (text) => Deno.stdout.writeSync(new TextEncoder().encode(text)),
  });
  const apiKey = await demoApiKey(stack, DATA_DIR);
  await Deno.writeTextFile(STATUS_FILE, status(stack, apiKey), { mode: 0o600 });
  console.log(welcome(stack, apiKey));

  await stopped.promise;
  console.log("\nStopping …");
  await Deno.remove(STATUS_FILE);
}

function checkPort(port: number, option: string): void {
  try {
    Deno.listen({ hostname: "127.0.0.1", port }).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new Error(
      `Port ${port} is taken. Stop what uses it, or choose another: ` +
        `deno task start --${option} ${port + 100}`,
    );
  }
}

function status(stack: Stack, apiKey: string): string {
  return Object.entries({
    API_URL: stack.apiUrl,
    DB_URL: stack.databaseUrl,
    PUBLISHABLE_KEY: stack.publishableKey,
    SECRET_KEY: stack.secretKey,
    DEMO_API_KEY: apiKey,
  }).map(([name, value]) => `${name}="${value}"\n`).join("");
}

function welcome(stack: Stack, apiKey: string): string {
  const today = new Date();
  const end = today.toISOString().slice(0, 10);
  const start = new Date(today.getTime() - 6 * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
  return `
Ready.

  API        ${stack.apiUrl}/functions/v1/public-audit-log
  Database   ${stack.databaseUrl}
  Sign in    ${DEMO_EMAILS.join(" or ")}, password ${DEMO_PASSWORD}
  Demo key   ${apiKey}

Try it:

  curl "${stack.apiUrl}/functions/v1/public-audit-log?start=${start}&end=${end}&limit=2" \\
    -H "Authorization: Bearer ${apiKey}"

Data is kept in local/data (deno task reset empties it). Ctrl-C stops. Requests are logged below.
`;
}
