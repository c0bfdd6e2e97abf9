/**
 * Measures subjects by turns, forwards in one round and backwards in the next, so that a slow minute of
 * the machine slows all of them. Returns the figures of each. Round 0 warms up and does not count.
 */
export async function byTurns<T, F>(
  rounds: number,
  subjects: readonly T[],
  measure: (subject: T, round: number) => Promise<F>,
): Promise<Map<T, F[]>> {
  const seen = new Map<T, F[]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const subject of round % 2 ? subjects : subjects.toReversed()) {
      const figure = await measure(subject, round);
      if (round) seen.get(subject)?.push(figure);
    }
  }
  return seen;
}

export function median(values: number[] = []): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

/** The quotients of two lists, round by round. */
export function ratios(values: number[] = [], others: number[] = []): number[] {
  return others.map((other, round) => (values[round] ?? NaN) / other);
}

/** Median, and the lowest and the highest round. */
export function spread(values: number[] = [], digits = 0): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
}

/** Begins a table whose first column is text. */
export function printHead(...names: string[]): void {
  console.log(`\n| ${names.join(" | ")} |\n| --- |${" ---: |".repeat(names.length - 1)}`);
}

export function printRow(...cells: (string | number)[]): void {
  console.log(`| ${cells.join(" | ")} |`);
}
