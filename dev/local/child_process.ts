import { createInterface } from "node:readline";
import { Readable } from "node:stream";

const STOP_TIMEOUT_MS = 3_000;

/**
 * Replaces this shell by the program. A second shell reads standard input. A line tells it that the program has
 * ended. If the input ends without a line, our own process was killed, and the second shell kills the program.
 */
const RUN = `
exec 3<&0 </dev/null
(read -r ended <&3 || kill -9 $$) >/dev/null 2>&1 &
exec "$0" "$@" 3<&-
`;

export type ChildProcess = ReturnType<typeof startChildProcess>;

/**
 * Starts a program with the PATH, the given environment, and nothing else of ours. It ends with this process, even if that
 * is killed. `ended` resolves to its signal or exit code, when all its output has been read.
 */
export function startChildProcess(path: string, options: {
  args?: string[];
  env: Record<string, string>;
  onLine: (line: string) => void;
}) {
  const { args = [], env, onLine } = options;
  const process = new Deno.Command("sh", {
    args: ["-c", RUN, path, ...args],
    clearEnv: true,
    // The imports of an Edge Function are those in our node_modules.
    cwd: new URL("../..", import.meta.url),
    env: { PATH: Deno.env.get("PATH") ?? "", ...env },
    // So that Ctrl-C in a terminal does not reach it: this process stops it.
    detached: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = [process.stdout, process.stderr].map(async (stream) => {
    for await (const line of createInterface(Readable.from(stream))) onLine(`${line}\n`);
  });
  let hasEnded = false;
  const ended = process.status.then(async ({ code, signal }) => {
    hasEnded = true;
    // The second shell may have been killed, too.
    await new Blob(["\n"]).stream().pipeTo(process.stdin).catch(() => {});
    await Promise.all(output);
    return signal ?? `code ${code}`;
  });
  return {
    pid: process.pid,
    ended,
    async [Symbol.asyncDispose]() {
      if (!hasEnded) process.kill("SIGTERM");
      // A stopped or hanging process ignores SIGTERM.
      const timer = setTimeout(() => hasEnded || process.kill("SIGKILL"), STOP_TIMEOUT_MS);
      await ended;
      clearTimeout(timer);
    },
  };
}
