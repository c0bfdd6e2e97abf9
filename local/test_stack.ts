import { freePort } from "./edge_function.ts";
import { type StackInfo, startStack } from "./stack.ts";

/** A stack for tests, and what its function has logged. */
export interface TestStack extends StackInfo, AsyncDisposable {
  log: string[];
}

/** Starts a stack on free ports, with an empty database in a temporary folder. */
export async function startTestStack(): Promise<TestStack> {
  await using started = new AsyncDisposableStack();
  const dataDir = await Deno.makeTempDir({ prefix: "public_audit_log_" });
  started.defer(() => Deno.remove(dataDir, { recursive: true }));
  const log: string[] = [];
  const stack = started.use(
    await startStack({
      dataDir,
      apiPort: freePort(),
      databasePort: freePort(),
      seed: false,
      progress: (step) => console.log(`  ${step} …`),
      log: (text) => log.push(text),
    }),
  );
  const running = started.move();
  return { ...stack, log, [Symbol.asyncDispose]: () => running.disposeAsync() };
}
