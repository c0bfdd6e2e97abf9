/**
 * A |z| that two equal distributions exceed once in fifty million comparisons: with the fewer than 50
 * that a run makes, once in a million runs.
 */
export const MEASURABLE = 5.6;

/**
 * Times two requests, 200 times each and in random order, and compares the times by rank, so that a
 * few slow ones do not matter (Mann-Whitney's U). Returns its z: 0 when neither is slower, negative
 * when the first is the faster one.
 */
export async function compareTimes(
  first: () => Promise<unknown>,
  second: () => Promise<unknown>,
): Promise<number> {
  // Each connection of the Data API's pool makes its plans first.
  for (let i = 0; i < 40; i++) await (i % 2 ? first : second)();
  const times: { isFirst: boolean; milliseconds: number }[] = [];
  for (let pair = 0; pair < 200; pair++) {
    // Not strictly alternating: the pool takes its connections in turn.
    const order = Math.random() < 0.5 ? [true, false] : [false, true];
    for (const isFirst of order) {
      const start = performance.now();
      await (isFirst ? first : second)();
      times.push({ isFirst, milliseconds: performance.now() - start });
    }
  }
  return rankSumZ(
    times.filter(({ isFirst }) => isFirst).map(({ milliseconds }) => milliseconds),
    times.filter(({ isFirst }) => !isFirst).map(({ milliseconds }) => milliseconds),
  );
}

/** Mann-Whitney's U as a standard normal variable; equal values count half. */
function rankSumZ(first: number[], second: number[]): number {
  let u = 0;
  for (const a of first) {
    for (const b of second) u += a > b ? 1 : a === b ? 0.5 : 0;
  }
  const n = first.length * second.length;
  return (u - n / 2) / Math.sqrt(n * (first.length + second.length + 1) / 12);
}
