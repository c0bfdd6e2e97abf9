/** Draws a whole number below a bound. */
export type Random = (below: number) => number;

/** Makes random numbers that are the same in every run (mulberry32). */
export function randomFrom(seed: number): Random {
  return (below) => {
    seed = (seed + 0x6D2B79F5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor(((t ^ (t >>> 14)) >>> 0) / 4294967296 * below);
  };
}

export function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[random(items.length)];
  if (item === undefined) throw new RangeError("nothing to pick from");
  return item;
}
