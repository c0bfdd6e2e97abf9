// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { countTests } from "../../dev/tasks/run_tests.ts";
import { runDeno } from "../helpers/run_program.ts";

/** Two tests pass, two fail and one is skipped. A group fails, with two steps that fail and one that is skipped. */
const MIXED = `
const fail = () => { throw new Error("ok | 99 passed | 0 failed"); };
Deno.test("plain", () => console.log("ok | 99 passed | 0 failed (1ms)"));
Deno.test("ok | 99 passed | 0 failed (1ms)", () => {});
Deno.test("fails", fail);
Deno.test("a group", (group) =>
  group.step("within", async (inner) => {
    await inner.step("passes", () => {});
    await inner.step("fails", fail);
    await inner.step({ name: "skipped", ignore: true, fn: () => {} });
  }).then(() => {}));
Deno.test({ name: "skipped", ignore: true, fn: () => {} });
`;
const PASSING = 'Deno.test("a", async (group) => { await group.step("b", () => {}); });';

it("the last line of the tests counts each test and step as Deno does. A run that fails without a test, or runs none, counts as a failure", async () => {
  const file = await Deno.makeTempFile({ suffix: "_test.ts" });
  const cases: [text: string, passed: number, failed: number, skipped: number][] = [
    [MIXED, 3, 4, 2],
    [PASSING, 2, 0, 0],
    // A file that does not compile, one that throws, and a process that ends.
    ["const x = ;", 0, 1, 0],
    [`${PASSING} throw new Error();`, 0, 1, 0],
    [`${PASSING} Deno.test("c", () => Deno.kill(Deno.pid, "SIGKILL"));`, 0, 1, 0],
    ["", 0, 1, 0],
    ['Deno.test({ name: "skipped", ignore: true, fn: () => {} });', 0, 1, 1],
  ];
  for (const [text, passed, failed, skipped] of cases) {
    await Deno.writeTextFile(file, text);
    const { code, stdout } = await runDeno({ args: ["test", "--allow-all", "--no-check", file] });
    assertEquals(countTests(stdout, code === 0), { passed, failed, skipped }, text);
  }
  await Deno.remove(file);
});
