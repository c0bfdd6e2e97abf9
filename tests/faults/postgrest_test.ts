import { afterAll, describe, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

describe("the service mends itself, with only lawful answers, when", () => {
  it("PostgREST is killed, and killed again as soon as it is back", async () => {
    await underLoad({ stack, causes: /503|error reading a body|connection/ }, async (load) => {
      for (let kill = 0; kill < 4; kill++) {
        Deno.kill(stack.postgrest.pid, "SIGKILL");
        await load.answers(8, 500);
        await load.answers(8, 200);
      }
    });
  });
});
