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

it("the last line of the tests counts each test and step as Deno does. A run that fails without a test, or runs none, counts as a failure", async () => {
  const folder = await Deno.makeTempDir();
  const passing = 'Deno.test("a", async (group) => { await group.step("b", () => {}); });';
  const cases = {
    "a group with mixed steps": [MIXED, { passed: 3, failed: 4, skipped: 2 }],
    "a group that passes": [passing, { passed: 2, failed: 0, skipped: 0 }],
    "a file that does not compile": ["const x = ;", { passed: 0, failed: 1, skipped: 0 }],
    "a file that throws": [`${passing} throw new Error();`, { passed: 0, failed: 1, skipped: 0 }],
    "a process that ends": [
      `${passing} Deno.test("c", () => Deno.kill(Deno.pid, "SIGKILL"));`,
      { passed: 0, failed: 1, skipped: 0 },
    ],
    "no test": ["", { passed: 0, failed: 1, skipped: 0 }],
    "only skipped tests": [
      'Deno.test({ name: "skipped", ignore: true, fn: () => {} });',
      { passed: 0, failed: 1, skipped: 1 },
    ],
  } as const;
  for (const [name, [text, expected]] of Object.entries(cases)) {
    await Deno.writeTextFile(`${folder}/some_test.ts`, text);
    const args = ["test", "--allow-all", "--no-check", "some_test.ts"];
    const { code, stdout } = await runDeno({ args, cwd: folder });
    assertEquals(countTests(stdout, code === 0), expected, name);
  }
  await Deno.remove(folder, { recursive: true });
});
