import { lockDataDir, stopOrphan } from "./data_dir.ts";
import { DEMO_EMAILS, DEMO_PASSWORD, demoApiKey } from "./demo.ts";
import { API_PORT, DATA_DIR, DATABASE_PORT, STATUS_FILE } from "./options.ts";
import { type Stack, startStack } from "./stack.ts";

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
  using lock = await lockDataDir(DATA_DIR);
  if (!lock) throw new Error("Already running. Its addresses: deno task status");
  await stopOrphan(DATA_DIR);
  await Deno.writeTextFile(STATUS_FILE, "");
  checkPort(API_PORT, "api-port");
  checkPort(DATABASE_PORT, "db-port");

  console.log("Starting the public audit log:");
  await using stack = await startStack({
    dataDir: DATA_DIR,
    apiPort: API_PORT,
    databasePort: DATABASE_PORT,
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

Ctrl-C stops. The data is kept; deno task reset empties it. Requests are logged below.
`;
}
