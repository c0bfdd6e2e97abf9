import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { setTimeout as delay } from "node:timers/promises";
import { followUnderLoad } from "./feed_load.ts";
import { besideGroups } from "./group_load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

describe("followers", () => {
  it("are given every entry once, beside 16 writers and an open transaction, killed and resumed", async () => {
    const figures = await followUnderLoad({ stack, seconds: 10, heldSeconds: 6 });
    assert(figures.entries > 200, `only ${figures.entries} entries were written`);
    assert(figures.whileHeld > 200, `only ${figures.whileHeld} came while a transaction was open`);
  });
});

describe("readers of pages", () => {
  it("see all of a statement or nothing, beside writers and deletions", async () => {
    const { reads, deletions, failures } = await besideGroups(
      { stacks: [stack], atOnce: 3 },
      () => delay(5_000),
    );
    assertEquals(failures, []);
    assert(reads > 100 && deletions > 100, `only ${reads} reads, ${deletions} deletions`);
  });
});
