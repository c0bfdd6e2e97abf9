/**
 * Measures subjects by turns, forwards in one round and backwards in the next, so that a slow minute of
 * the machine slows all of them. Returns the figures of each. Round 0 warms up and does not count.
 */
export async function byTurns<T, F>(
  rounds: number,
  subjects: readonly T[],
  measure: (subject: T) => Promise<F>,
): Promise<F[][]> {
  const seen = subjects.map(() => [] as F[]);
  for (let round = 0; round <= rounds; round++) {
    const order = [...subjects.entries()];
    for (const [n, subject] of round % 2 ? order : order.toReversed()) {
      const figure = await measure(subject);
      if (round) seen[n]?.push(figure);
    }
  }
  return seen;
}

export function median(values: number[] = []): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

export function spread(values: number[] = [], digits = 0): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
}

/** Begins a table with what it shows, and the day. Its first column is text. */
export function printHead(title: string, ...names: string[]): void {
  const day = new Date().toISOString().slice(0, 10);
  console.log(`\n${title} (${day}):\n`);
  console.log(`| ${names.join(" | ")} |\n| --- |${" ---: |".repeat(names.length - 1)}`);
}

export function printRow(...cells: (string | number)[]): void {
  console.log(`| ${cells.join(" | ")} |`);
}

/** A ratio may be so large, or must be. */
export interface Bound {
  most?: number;
  least?: number;
}

/**
 * Measures one and the other by turns, and prints both with their ratio, round by round. The exit code is 1 if the
 * median is beyond its bound.
 */
export async function printRatio<T>(
  rounds: number,
  what: string,
  subjects: readonly [T, T],
  measure: (subject: T) => Promise<number>,
  { most = Infinity, least = 0 }: Bound = {},
): Promise<void> {
  const [ones = [], others = []] = await byTurns(rounds, subjects, measure);
  const ratios = ones.map((value, round) => value / (others[round] ?? NaN));
  const ratio = median(ratios);
  if (ratio > most || ratio < least) Deno.exitCode = 1;
  const bound = least ? `at least ${least}` : most < Infinity ? `at most ${most}` : "";
  printRow(what, spread(ones, 2), spread(others, 2), spread(ratios, 2), bound);
}
