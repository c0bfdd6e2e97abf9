import { join } from "node:path";
import { freePort } from "./free_port.ts";
import { killPostgres } from "./postgres.ts";
import { type Stack, type StackOptions, startStack } from "./stack.ts";

/** `faults` are the errors that its Edge Function logged: the causes of 500s. */
export type TemporaryStack = Stack & { faults: string[] };

/**
 * Starts a stack on free ports, with an empty database in a temporary folder. POSTGRES_PROGRAMS may name the folder
 * of another Postgres than the package's. With WITHOUT_STREAMS, the service is installed without streams.
 */
export async function startTemporaryStack(
  options: Pick<StackOptions, "server" | "isMigrated"> = {},
): Promise<TemporaryStack> {
  await using started = new AsyncDisposableStack();
  const dataDir = await Deno.makeTempDir({ prefix: "public_audit_log_" });
  started.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Only Postgres would outlive this process. Of a test file whose tests are all filtered out, no afterAll runs.
  const kill = () => {
    killPostgres(join(dataDir, "postgres"));
    Deno.removeSync(dataDir, { recursive: true });
  };
  addEventListener("unload", kill);
  started.defer(() => removeEventListener("unload", kill));
  const exit = () => Deno.exit(130);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, exit);
    started.defer(() => Deno.removeSignalListener(signal, exit));
  }
  const faults: string[] = [];
  const programs = Deno.env.get("POSTGRES_PROGRAMS");
  const { server = { ...programs && { programs } } } = options;
  // Saves a few milliseconds a commit. The data need not survive a crash of this machine.
  const settings = ["fsync=off", ...server.settings ?? []];
  const stack = started.use(
    await startStack({
      ...options,
      server: { ...server, settings },
      dataDir,
      apiPort: freePort(),
      databasePort: freePort(),
      hasStreams: !Deno.env.has("WITHOUT_STREAMS"),
      progress: (step) => console.log(`  ${step} …`),
      log: (text) => void (text.includes('"error"') && faults.push(text)),
    }),
  );
  const running = started.move();
  return { ...stack, faults, [Symbol.asyncDispose]: () => running.disposeAsync() };
}
