import { fileURLToPath } from "node:url";
import { freePort } from "../local/free_port.ts";
import type { StackInfo } from "../local/stack.ts";

const DATA_DIR = fileURLToPath(new URL("data", import.meta.url));

export interface BenchStack extends StackInfo, AsyncDisposable {
  pid: number;
}

/** `deno task start` in a process of its own, as the load and the Data API must not share one. */
export async function startBenchStack(dataDir = DATA_DIR): Promise<BenchStack> {
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--allow-all",
      new URL("../tasks/start.ts", import.meta.url).href,
      `--api-port=${freePort()}`,
      `--db-port=${freePort()}`,
      `--data-dir=${dataDir}`,
    ],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let output = "";
  const ready = Promise.withResolvers<void>();
  (async () => {
    for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output.includes("logged below")) ready.resolve();
    }
    ready.reject(new Error(`The stack did not start: ${output}`));
  })();
  await ready.promise;
  const info: StackInfo = JSON.parse(await Deno.readTextFile(`${dataDir}/status.json`));
  return {
    ...info,
    pid: process.pid,
    async [Symbol.asyncDispose]() {
      process.kill("SIGINT");
      await process.status;
    },
  };
}
