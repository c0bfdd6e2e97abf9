import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { countTests } from "../../tasks/run_tests.ts";
import { runDeno } from "../run_program.ts";

/** Two tests pass, three fail and two are skipped. Groups are none, and no text of a test reads as markup. */
const TESTS = String.raw`
const fail = () => { throw new Error('\0\x1b[31m ]]> <failure/> </testcase> & \ud800 \ufffe'); };
Deno.test("plain", () => {});
Deno.test("<skipped/> & \"quoted\"", () => {});
Deno.test("fails", fail);
Deno.test("a group > of groups", (group) =>
  group.step("within", async (inner) => {
    await inner.step("fails", fail);
    await inner.step("<testcase", fail);
    await inner.step({ name: "skipped", ignore: true, fn: () => {} });
  }).then(() => {}));
Deno.test({ name: "skipped", ignore: true, fn: () => {} });
`;

it("the last line of the tests counts each test once, and no group, whatever their names and errors say", async () => {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/some_test.ts`, TESTS);
  const args = ["test", "--no-check", "--quiet", "--junit-path=report.xml", "some_test.ts"];
  await runDeno({ args, cwd: folder });
  const report = await Deno.readTextFile(`${folder}/report.xml`);
  await Deno.remove(folder, { recursive: true });
  assertEquals(countTests(report), { passed: 2, failed: 3, skipped: 2 });
  assertEquals(countTests(""), { passed: 0, failed: 0, skipped: 0 });
});
