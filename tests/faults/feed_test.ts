import { assert } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { followUnderLoad } from "./feed_load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

describe("followers", () => {
  it("are given every entry once, beside 16 writers and an open transaction, killed and resumed", async () => {
    const figures = await followUnderLoad({ stack, seconds: 10, heldSeconds: 6 });
    assert(figures.entries > 200, `only ${figures.entries} entries were written`);
    assert(figures.whileHeld > 200, `only ${figures.whileHeld} came while a transaction was open`);
  });
});
