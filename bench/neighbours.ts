import { setTimeout as pause } from "node:timers/promises";
import postgres from "postgres";
import type { EdgeFunction } from "../local/edge_function.ts";
import { runUpkeep } from "../local/stack.ts";
import { SlowReader } from "../tests/attacks/slow_reader.ts";
import { askForPage, DAY, insertEntries, LONGEST, pageUrl } from "./memory.ts";
import { memoryOf, resetPeak } from "./processes.ts";
import { median, printHead, printRow, quantile } from "./report.ts";
import { type BenchStack, makeKeys, resetLimits, startBenchStack } from "./stack.ts";

/** One key asks for so many pages at once: its lawful minute. */
const AT_ONCE = 60;
/** So many requests of the quiet organization are timed while nobody else asks. */
const ALONE = 1500;
const STALLED_SECONDS = 75;
const BACKFILL = 200_000;

/** Measures how much one organization's requests, and work for it, slow down another's requests. */
export async function measureNeighbours(rounds: number): Promise<void> {
  await using stack = await startBenchStack();
  const { sql } = stack;
  const [noisy, quiet] = [crypto.randomUUID(), crypto.randomUUID()];
  const [noisyToken = ""] = await makeKeys(sql, noisy, 1);
  const quietTokens = await makeKeys(sql, quiet, 200);
  await insertEntries(sql, noisy, LONGEST);
  await insertEntries(sql, quiet, { email: "ada@example.com", name: "Assistant", text: "m-1" });
  const edgeFunction = await stack.startFunction();
  await measureCrowd(sql, edgeFunction, { noisyToken, quietTokens, rounds });
  await measureStalledReaders(sql, edgeFunction, noisyToken);
  await measureWork(stack, quiet, rounds);
  for (const fault of stack.faults) console.log(fault);
}

/** Prints what a first page takes alone, and beside 60 largest pages of another organization. */
async function measureCrowd(
  sql: postgres.Sql,
  { port, pid }: EdgeFunction,
  run: { noisyToken: string; quietTokens: string[]; rounds: number },
): Promise<void> {
  const { noisyToken, quietTokens, rounds } = run;
  const askQuietly = async (n: number) => {
    const response = await askForPage(port, quietTokens[n % quietTokens.length], 100);
    await response.bytes();
    return response.status === 200;
  };
  const print = (round: string, answered: number, times: number[][], peak: number) => {
    const [alone = NaN, aloneLate = NaN, beside = NaN, besideLate = NaN] = times.flatMap((each) => [
      median(each),
      quantile(each, 0.99),
    ]);
    const ratios = [beside / alone, besideLate / aloneLate].map((ratio) => ratio.toFixed(2));
    const columns = [alone, aloneLate, beside, besideLate].map((ms) => ms.toFixed(1));
    printRow(round, answered, ...columns, ...ratios, peak.toFixed(0));
  };
  console.log("\nAnother organization's first page beside 60 largest pages, in milliseconds");
  const columns = ["alone: median", "99th", "beside: median", "99th", "ratio", "of 99th"];
  printHead("round", "answered 200", ...columns, "peak, MiB");
  const all = { answered: 0, alone: [] as number[], beside: [] as number[], peak: 0 };
  for (let round = 1; round <= rounds; round++) {
    await resetLimits(sql);
    const alone = await timesOf(askQuietly, (asked) => asked === ALONE);
    await resetPeak(pid);
    let isOver = false;
    const crowd = askForLargestPages(port, noisyToken).finally(() => isOver = true);
    const beside = await timesOf(askQuietly, () => isOver);
    const answered = await crowd;
    const peak = await memoryOf("peak", pid);
    print(String(round), answered, [alone, beside], peak);
    all.answered += answered;
    all.alone.push(...alone);
    all.beside.push(...beside);
    all.peak = Math.max(all.peak, peak);
  }
  print("all", all.answered, [all.alone, all.beside], all.peak);
}

/** Runs a client in a process of its own. Returns how many of its pages were answered whole. */
async function askForLargestPages(port: number, token: string): Promise<number> {
  const { stdout } = await new Deno.Command("curl", {
    args: [
      ...["--silent", "--parallel", "--parallel-immediate", "--parallel-max", String(AT_ONCE)],
      ...["--header", `Authorization: Bearer ${token}`, "--output", "/dev/null"],
      ...["--write-out", "%{http_code} %{size_download}\n"],
      // curl asks for each number; the part after # is not sent.
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

/** Prints how much memory 60 readers take if they do not read their pages. */
async function measureStalledReaders(
  sql: postgres.Sql,
  { port, pid }: EdgeFunction,
  token: string,
): Promise<void> {
  printHead(
    "60 readers that stop or crawl",
    "before, MiB",
    "peak",
    "after 75 s",
    "after they left",
  );
  await resetLimits(sql);
  const before = await memoryOf("now", pid);
  await resetPeak(pid);
  const readers = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) => stall(port, token, n)),
  );
  await pause(STALLED_SECONDS * 1000);
  const figures = [before, await memoryOf("peak", pid), await memoryOf("now", pid)];
  for (const reader of readers) reader.close();
  await pause(5_000);
  figures.push(await memoryOf("now", pid));
  printRow("this function", ...figures.map((mebibytes) => mebibytes.toFixed(0)));
}

/** Starts a reader that stops after the headers, or after a byte of the body, or reads a byte a second. */
async function stall(port: number, token: string, n: number): Promise<SlowReader> {
  const { pathname, search } = new URL(pageUrl(port, 1000));
  const reader = await SlowReader.ask({ hostname: "127.0.0.1", port }, pathname + search, token);
  (async () => {
    await reader.readHeaders();
    if (n % 3 > 0) await reader.readByte();
    while (n % 3 === 2) await pause(1000).then(() => reader.readByte());
  })().catch(() => {});
  return reader;
}

/** Prints what a first page takes in the database while it works for another organization. */
async function measureWork(stack: BenchStack, quiet: string, rounds: number): Promise<void> {
  const other = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
  const id = crypto.randomUUID();
  const whileMore = async (call: string) => {
    while ((await other.unsafe(`select ${call} as more`))[0]?.["more"]);
  };
  const jobs = {
    "a backfill": () => backfill(other, id),
    "the upkeep": () => runUpkeep(other),
    "retention": () => whileMore(`audit_log_private.delete_entries_before('${id}', '2025-07-01')`),
    "a deletion": () => whileMore(`audit_log_private.delete_organization('${id}')`),
  };
  const askQuietly = async (n: number) => {
    if (n % 50 === 0) await resetLimits(stack.sql);
    const [row] = await stack.sql`
      select audit_log.public_audit_log(
        encode(h.token_hash, 'hex'), 'entries', (${DAY}, ${DAY}, null, null, 100, 0, false, null)
      )::json ->> 'decision' as decision
      from audit_log_private.api_key_hashes h where h.organization_id = ${quiet} limit 1`;
    return row?.["decision"] === "accepted";
  };
  console.log("\nIn the database, medians in milliseconds");
  printHead("a first page beside", "alone", "beside", "ratio");
  for (let round = 0; round < rounds; round++) {
    await makeKeys(stack.sql, id, 1);
    for (const [job, run] of Object.entries(jobs)) {
      const alone = median(await timesOf(askQuietly, (asked) => asked === ALONE));
      let isOver = false;
      const done = run().finally(() => isOver = true);
      const beside = median(await timesOf(askQuietly, (asked) => isOver && asked > 10));
      await done;
      printRow(job, alone.toFixed(2), beside.toFixed(2), (beside / alone).toFixed(2));
    }
  }
  await other.end();
}

async function backfill(sql: postgres.Sql, organizationId: string): Promise<void> {
  for (let from = 0; from < BACKFILL; from += 10_000) {
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${organizationId}, timestamptz '2025-01-01' + n * interval '1 year' / ${BACKFILL}::int,
        'agent_added', 'ada@example.com', 'Assistant'
      from generate_series(${from}::int, ${from + 9_999}::int) as n`;
  }
}
