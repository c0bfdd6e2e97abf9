import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { setTimeout as delay } from "node:timers/promises";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { followUnderLoad } from "./feed_load.ts";
import { besideGroups } from "./group_load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

describe("followers", () => {
  it("get every entry once beside 16 writers and an open transaction, also when they are killed", async () => {
    const figures = await followUnderLoad({ stack, seconds: 6, heldSeconds: 4 });
    assert(figures.entries > 200, `only ${figures.entries} entries were written`);
    assert(figures.whileHeld > 200, `only ${figures.whileHeld} came while a transaction was open`);
  });
});

describe("readers of pages", () => {
  it("see all of a statement or nothing, beside writers and deletions", async () => {
    const { failures } = await besideGroups({ stacks: [stack], atOnce: 3 }, async (seen) => {
      while (seen.reads < 500 || seen.deletions < 100) await delay(50);
    });
    assertEquals(failures, []);
  });
});
