import { addKeys, addOrganization, insertEntries, LONGEST } from "../tests/project.ts";
import { askForPage, DAY, pageUrl } from "./memory.ts";
import { peakOf, resetPeak } from "./processes.ts";
import { median, printHead, printRow, quantile } from "./report.ts";
import { resetLimits, startBenchStack } from "./stack.ts";

/** One key asks for so many pages at once: its quota. */
const AT_ONCE = 60;
/** The requests of the quiet organization that are timed while nobody else asks. */
const ALONE = 1500;

/** Measures how much one organization's requests slow down another's. */
export async function measureNeighbours(rounds: number): Promise<void> {
  await using stack = await startBenchStack();
  const { sql } = stack;
  const [noisy, quiet] = [await addOrganization(sql), await addOrganization(sql)];
  const quietTokens = (await addKeys(sql, quiet.id, 200)).map(({ token }) => token);
  await insertEntries(sql, noisy.id, DAY, 1000, LONGEST);
  await insertEntries(sql, quiet.id, DAY, 1000);
  await sql`analyze audit_log.audit_entries`;
  const { port, pid } = await stack.startFunction();
  const ask = async (n: number) => {
    const response = await askForPage(port, quietTokens[n % quietTokens.length], 100);
    await response.bytes();
    return response.status === 200;
  };

  console.log("\nAnother organization's first page beside 60 largest pages, in milliseconds");
  const columns = ["alone: median", "99th", "beside: median", "99th", "ratio", "of 99th"];
  printHead("round", "answered 200", ...columns, "peak, MiB");
  const seen: Seen[] = [];
  for (let round = 1; round <= rounds; round++) {
    await resetLimits(sql);
    const { alone, beside, done } = await compare(ask, async () => {
      await resetPeak(pid);
      return await askForLargestPages(port, noisy.token);
    });
    seen.push({ alone, beside, answered: done, peak: await peakOf(pid) });
    print(`${round}`, seen.slice(-1));
  }
  print("all", seen);

  for (const fault of stack.faults) console.log(fault);
}

/** The figures of a round: milliseconds alone and beside the largest pages, how many of those came, MiB. */
interface Seen {
  alone: number[];
  beside: number[];
  answered: number;
  peak: number;
}

function print(name: string, seen: Seen[]): void {
  const [alone, beside] = [seen.flatMap((each) => each.alone), seen.flatMap((each) => each.beside)];
  const figures = [alone, beside].flatMap((times) => [median(times), quantile(times, 0.99)]);
  const [middle = NaN, late = NaN, middleBeside = NaN, lateBeside = NaN] = figures;
  const ratios = [middleBeside / middle, lateBeside / late].map((ratio) => ratio.toFixed(2));
  const answered = seen.reduce((sum, each) => sum + each.answered, 0);
  const peak = Math.max(...seen.map((each) => each.peak));
  printRow(name, answered, ...figures.map((ms) => ms.toFixed(1)), ...ratios, peak.toFixed(0));
}

/** Times requests alone, and then beside some work until it is done. */
async function compare<T>(ask: (n: number) => Promise<boolean>, work: () => Promise<T>) {
  const alone = await timesOf(ask, (asked) => asked === ALONE);
  let isOver = false;
  const working = work().finally(() => isOver = true);
  const beside = await timesOf(ask, (asked) => isOver && asked > 10);
  return { alone, beside, done: await working };
}

/** Runs a client in a process of its own. Returns how many of its pages were answered whole. */
async function askForLargestPages(port: number, token: string): Promise<number> {
  const { stdout } = await new Deno.Command("curl", {
    args: [
      ...["--silent", "--parallel", "--parallel-immediate", "--parallel-max", String(AT_ONCE)],
      ...["--header", `Authorization: Bearer ${token}`, "--output", "/dev/null"],
      ...["--write-out", "%{http_code} %{size_download}\n"],
      // curl sends a request for each number, and does not send what follows #.
      `${pageUrl(port, 1000)}#[1-${AT_ONCE}]`,
    ],
  }).output();
  return new TextDecoder().decode(stdout).match(/^200 \d{7}$/gm)?.length ?? 0;
}

/** Sends one request after the other. Returns the milliseconds of each; a failed one counts as 5 seconds. */
async function timesOf(
  ask: (n: number) => Promise<boolean>,
  isOver: (asked: number) => boolean,
): Promise<number[]> {
  const times: number[] = [];
  while (!isOver(times.length)) {
    const start = performance.now();
    times.push(await ask(times.length) ? performance.now() - start : 5_000);
  }
  return times;
}
