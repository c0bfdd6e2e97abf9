// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { type Bound, demand } from "../../dev/bench/report.ts";

it("a benchmark fails if a figure is beyond its bound, or is no number", () => {
  const kept = (bound: Bound, ...figures: number[]) =>
    figures.filter((figure) => {
      demand(figure, bound);
      const code = Deno.exitCode;
      Deno.exitCode = 0;
      return code === 0;
    });
  assertEquals(kept({ most: 1.3 }, 1.3, 1.31, NaN), [1.3]);
  assertEquals(kept({ least: 65 }, 65, 64, NaN), [65]);
});
