import { assert } from "@std/assert";

/**
 * Two equal distributions exceed this |z| once in fifty million comparisons. A run makes fewer than
 * 50, so it fails by chance once in a million runs.
 */
const MEASURABLE = 5.6;
const SAMPLES = 200;

type Ask = () => Promise<unknown>;

/**
 * Asserts that nobody can tell two requests apart by how long they take. Times each of them 200
 * times, and compares the times by rank (Mann-Whitney's U), so that a few slow ones do not matter.
 */
export async function assertSameTimes(what: string, first: Ask, second: Ask): Promise<void> {
  const [firstTimes, secondTimes]: number[][] = [[], []];
  const requests = [{ ask: first, times: firstTimes }, { ask: second, times: secondTimes }];
  // Each connection of the Data API's pool first makes its plans.
  for (let n = 0; n < 40; n++) await requests[n % 2]?.ask();
  for (let n = 0; n < SAMPLES; n++) {
    // In random order: the pool takes its connections in turn.
    for (const { ask, times } of Math.random() < 0.5 ? requests : requests.toReversed()) {
      const start = performance.now();
      await ask();
      times?.push(performance.now() - start);
    }
  }
  let u = 0;
  for (const a of firstTimes ?? []) {
    for (const b of secondTimes ?? []) u += a > b ? 1 : a === b ? 0.5 : 0;
  }
  const pairs = SAMPLES * SAMPLES;
  const z = (u - pairs / 2) / Math.sqrt(pairs * (2 * SAMPLES + 1) / 12);
  assert(Math.abs(z) < MEASURABLE, `${what}: z = ${z}`);
}
