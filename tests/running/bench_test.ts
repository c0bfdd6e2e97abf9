// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { type Bound, demand } from "../../dev/bench/report.ts";

it("a benchmark fails if a figure is beyond its bound, or is no number", () => {
  const cases: [figure: number, bound: Bound, isKept: boolean][] = [
    [1.3, { most: 1.3 }, true],
    [1.31, { most: 1.3 }, false],
    [65, { least: 65 }, true],
    [64, { least: 65 }, false],
    [NaN, { most: 1.3 }, false],
    [NaN, { least: 65 }, false],
  ];
  for (const [figure, bound, isKept] of cases) {
    demand(figure, bound);
    assertEquals(Deno.exitCode, isKept ? 0 : 1, `${figure} ${JSON.stringify(bound)}`);
    Deno.exitCode = 0;
  }
});
