import { join } from "node:path";
import { freePort } from "./free_port.ts";
import { stopPostgres } from "./postgres.ts";
import { type Stack, startStack } from "./stack.ts";

/** A stack for tests, and what its function has logged. */
export interface TemporaryStack extends Stack {
  /** The faults among what its function has logged: the causes of its 500s. */
  faults: string[];
}

/** Starts a stack on free ports, with an empty database in a temporary folder. */
export async function startTemporaryStack(): Promise<TemporaryStack> {
  await using started = new AsyncDisposableStack();
  const dataDir = await Deno.makeTempDir({ prefix: "public_audit_log_" });
  started.defer(() => Deno.remove(dataDir, { recursive: true }));
  // Everything but Postgres ends with this process. Whatever else Ctrl-C sets off waits for that end.
  let stopping = false;
  const end = new Promise<never>(() => {});
  const stop = async () => {
    if (stopping) return;
    stopping = true;
    // The connections that Postgres now ends.
    for (const type of ["error", "unhandledrejection"]) {
      addEventListener(type, (event) => event.preventDefault());
    }
    await stopPostgres(join(dataDir, "postgres"), "immediate");
    await Deno.remove(dataDir, { recursive: true });
    Deno.exit(130);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, stop);
    started.defer(() => Deno.removeSignalListener(signal, stop));
  }
  const faults: string[] = [];
  const stack = started.use(
    await startStack({
      dataDir,
      apiPort: freePort(),
      databasePort: freePort(),
      seed: false,
      progress: (step) => console.log(`  ${step} …`),
      log: (text) => {
        if (text.includes('"error"')) faults.push(text);
      },
    }).catch((error) => stopping ? end : Promise.reject(error)),
  );
  const running = started.move();
  return { ...stack, faults, [Symbol.asyncDispose]: () => stopping ? end : running.disposeAsync() };
}
