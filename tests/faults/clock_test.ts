import { assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

/** In milliseconds. */
const DAY = 24 * 60 * 60 * 1000;

describe("no answer depends on the clock of the function's machine, not when it is", () => {
  for (const [is, days] of [["a day ahead", 1], ["a day behind", -1]] as const) {
    it(is, async () => {
      const faults: string[] = [];
      await using edgeFunction = await startEdgeFunction({
        apiUrl: stack.apiUrl,
        secretKey: stack.secretKey,
        main: new URL(`wrong_clock.ts?days=${days}`, import.meta.url),
        log: (line) => faults.push(line),
      });
      const url = `http://127.0.0.1:${edgeFunction.port}/public-audit-log`;
      await underLoad({ stack, edgeFunction: { url, faults } }, (load) => load.answers(100));
      const [, itsTime = ""] = faults.join("").match(/^The clock says (.*)$/m) ?? [];
      const wrongBy = (Date.parse(itsTime) - Date.now()) / DAY;
      assertEquals(Math.round(wrongBy), days);
    });
  }
});
