import postgres from "postgres";
import {
  addKeys,
  addOrganization,
  insertEntries,
  LONGEST,
  runUpkeep,
  valueOf,
} from "../tests/project.ts";
import { queryOf } from "./data_sets.ts";
import { askForPage, DAY, pageUrl } from "./memory.ts";
import { memoryOf, resetPeak } from "./processes.ts";
import { median, printHead, printRow, quantile } from "./report.ts";
import { type BenchStack, resetLimits, startBenchStack } from "./stack.ts";

/** One key asks for so many pages at once: its quota. */
const AT_ONCE = 60;
/** The requests of the quiet organization that are timed while nobody else asks. */
const ALONE = 1500;

/** Measures how much one organization's requests, and work for it, slow down another's requests. */
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
    seen.push({ alone, beside, answered: done, peak: await memoryOf("peak", pid) });
    print(`${round}`, seen.slice(-1));
  }
  print("all", seen);

  await measureWork(stack, quiet.id, rounds);
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

/** Prints how long a first page takes in the database while that works for another organization. */
async function measureWork(stack: BenchStack, quiet: string, rounds: number): Promise<void> {
  const { sql } = stack;
  const other = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  const whileMore = async (call: string) => {
    while (await valueOf(other.unsafe(`select audit_log_private.${call}`)));
  };
  const query = queryOf({ start_date: DAY, end_date: DAY });
  const ask = async (n: number) => {
    if (n % 50 === 0) await resetLimits(sql);
    const decision = sql.unsafe(`
      select audit_log.public_audit_log(encode(h.token_hash, 'hex'), 'entries', ${query})::json ->> 'decision'
      from audit_log_private.api_key_hashes h where h.organization_id = '${quiet}' limit 1`);
    return await valueOf(decision) === "accepted";
  };
  console.log("\nIn the database, medians in milliseconds");
  printHead("a first page beside", "alone", "beside", "ratio");
  for (let round = 0; round < rounds; round++) {
    const { id } = await addOrganization(sql);
    const jobs = {
      "a backfill": () => backfill(other, id),
      "the upkeep": () => runUpkeep(other),
      "retention": () => whileMore(`delete_entries_before('${id}', '2025-07-01')`),
      "a deletion": () => whileMore(`delete_organization('${id}')`),
    };
    for (const [job, run] of Object.entries(jobs)) {
      const times = await compare(ask, run);
      const [alone, beside] = [median(times.alone), median(times.beside)];
      printRow(job, alone.toFixed(2), beside.toFixed(2), (beside / alone).toFixed(2));
    }
  }
  await other.end();
}

/** Writes 200,000 entries of a year, 10,000 in a statement. */
async function backfill(sql: postgres.Sql, id: string): Promise<void> {
  for (let n = 0; n < 20; n++) {
    const day = new Date(Date.UTC(2025, 0, 1 + 18 * n)).toISOString();
    await insertEntries(sql, id, day, 10_000, { every: "155 seconds" });
  }
}
