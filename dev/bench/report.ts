/** Takes several figures in each round. Returns those of each kind. Round 0 warms up and does not count. */
async function takeRounds(
  rounds: number,
  measure: (round: number) => Promise<number[]>,
): Promise<number[][]> {
  const taken = (await measure(0)).map((): number[] => []);
  for (let round = 1; round <= rounds; round++) {
    for (const [n, figure] of (await measure(round)).entries()) taken[n]?.push(figure);
  }
  return taken;
}

export function median(values: number[] = []): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function spread(values: number[], digits = 0): string {
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

/** A figure may be so large, or must be. */
export type Bound = { most: number } | { least: number };

/** Lets this process fail unless a figure keeps its bound, which NaN does not. Returns the bound in words. */
export function demand(figure: number, bound: Bound): string {
  const isKept = "most" in bound ? figure <= bound.most : figure >= bound.least;
  if (!isKept) Deno.exitCode = 1;
  return "most" in bound ? `at most ${bound.most}` : `at least ${bound.least}`;
}

/**
 * Measures subjects by turns, forwards in one round and backwards in the next, so that a slow minute of the machine slows
 * all of them. Prints the figures of each, and round by round, how many times that of the first the figure of the last is.
 * The bound is for the median of these ratios.
 */
export async function compare<T>(
  rounds: number,
  what: string,
  subjects: readonly T[],
  measure: (subject: T) => Promise<number>,
  bound?: Bound,
): Promise<void> {
  const figures = await takeRounds(rounds, async (round) => {
    const seen: number[] = [];
    const order = [...subjects.entries()];
    for (const [n, subject] of round % 2 ? order : order.toReversed()) {
      seen[n] = await measure(subject);
    }
    return seen;
  });
  const [first = [], last = []] = [figures[0], figures.at(-1)];
  const ratios = last.map((value, round) => value / (first[round] ?? NaN));
  const spreads = [...figures, ratios].map((values) => spread(values, 2));
  printRow(what, ...spreads, bound ? demand(median(ratios), bound) : "");
}

/** Takes several figures at once, round by round. Returns the spread of each, with the most that its median may be. */
export async function measureSpreads(
  rounds: number,
  bounds: number[],
  measure: () => Promise<number[]>,
): Promise<string[]> {
  const taken = await takeRounds(rounds, measure);
  return taken.map((values, n) => {
    const most = bounds[n] ?? Infinity;
    const bound = demand(median(values), { most });
    return most < Infinity ? `${spread(values)}, ${bound}` : spread(values);
  });
}
