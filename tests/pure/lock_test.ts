import { assertEquals, assertRejects } from "@std/assert";
import { it } from "@std/testing/bdd";
import { lock } from "../../cli/files.ts";
import { runDeno } from "../run_program.ts";

const FILES = new URL("../../cli/files.ts", import.meta.url).href;

/** Locks a file six times at one moment, says how often that succeeded, and ends when everybody has tried. */
const RACE = `
import { lock } from "${FILES}";
const [path, start] = Deno.args;
await new Promise((resolve) => setTimeout(resolve, Number(start) - Date.now()));
const tries = await Promise.allSettled(Array.from({ length: 6 }, () => lock(path)));
console.log(tries.filter(({ status }) => status === "fulfilled").length);
await new Promise((resolve) => setTimeout(resolve, 2_000));`;
const KILLED_HOLDER = `
import { lock } from "${FILES}";
await lock(Deno.args[0]);
Deno.kill(Deno.pid, "SIGKILL");`;

it("lock() is won by exactly one of four processes after its holder was killed, and then by nobody", async () => {
  const path = await Deno.makeTempFile();
  const run = (program: string, ...args: string[]) =>
    runDeno({ args: ["eval", "--ext=ts", program, path, ...args] });
  assertEquals((await run(KILLED_HOLDER)).code, 137);
  const start = String(Date.now() + 2_000);
  const ended = await Promise.all(Array.from({ length: 4 }, () => run(RACE, start)));
  const won = ended.map(({ stdout, stderr }) => stdout.trim() || stderr).toSorted();
  assertEquals(won, ["0", "0", "0", "1"]);
  await lock(path);
  await assertRejects(() => lock(path), Error, "is in use");
  await Deno.remove(path);
});
