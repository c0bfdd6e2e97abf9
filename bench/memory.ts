import { parseArgs } from "node:util";
import { makeKeys, residentMemory, startFunctionUnderLoad } from "./function_under_load.ts";
import { measureLargestPages } from "./largest_pages.ts";
import { sendRequests } from "./load.ts";
import { printHead, printRow } from "./report.ts";

const { values: given } = parseArgs({
  options: { requests: { type: "string", default: "50000" } },
});
const ROUND = 10_000;
const ROUNDS = Math.max(2, Math.ceil(Number(given.requests) / ROUND));
/**
 * Little room for young objects: otherwise what is seen is mostly garbage that nobody has collected
 * yet, some 50 MiB more or less. What leaks is kept all the same.
 */
const FLAGS = ["--v8-flags=--max-semi-space-size=1"];
/**
 * After the first round the process has what it needs, and then may grow by a tenth. A leak of half a
 * kilobyte a request would be 20 MiB in 40,000 requests, a fifth.
 */
const MAX_GROWTH = 1.1;
const DAY = "start=2026-03-01&end=2026-03-01";

const isBounded = await measureLargestPages();
const isFlat = await measureGrowth();
if (!isBounded || !isFlat) Deno.exitCode = 1;

/** Sends many small requests; whether the function's process has grown by them. */
async function measureGrowth(): Promise<boolean> {
  console.log("\nStarting a stack …");
  await using load = await startFunctionUnderLoad(FLAGS);
  const { sql, edgeFunction } = load;
  const tokens = await makeKeys(sql, crypto.randomUUID(), 200);
  await (await fetch(load.url)).body?.cancel();
  const memory = [await residentMemory(edgeFunction.pid)];
  const statuses = new Map<number, number>();
  printHead("requests", "MiB");
  printRow(1, memory[0]?.toFixed(1) ?? "");
  for (let round = 1; round <= ROUNDS; round++) {
    for (let part = 0; part < 4; part++) {
      await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
      await send(load.url, tokens, ROUND / 4, statuses);
    }
    memory.push(await residentMemory(edgeFunction.pid));
    printRow(ROUND * round, memory.at(-1)?.toFixed(1) ?? "");
  }
  const growth = (memory.at(-1) ?? NaN) / (memory[1] ?? NaN);
  const isFlat = growth <= MAX_GROWTH;
  const answered = [200, 400, 401, 405].reduce((sum, is) => sum + (statuses.get(is) ?? 0), 0);
  const isAnswered = answered === ROUNDS * ROUND;
  console.log(
    `\n${isFlat ? "flat" : "NOT FLAT"}: ${growth.toFixed(2)} of what it was after ` +
      `${ROUND} requests, at most ${MAX_GROWTH} allowed\n` +
      `${isAnswered ? "answers" : "FAILED, answers"}: ${JSON.stringify([...statuses])}`,
  );
  return isFlat && isAnswered;
}

/** A quarter each: no token, so no call of the database; another method; a bad query; a page. */
async function send(
  url: string,
  tokens: string[],
  amount: number,
  statuses: Map<number, number>,
): Promise<void> {
  const requests = tokens.flatMap((token) => {
    const headers = { Authorization: `Bearer ${token}` };
    const { pathname } = new URL(url);
    return [
      { path: `${pathname}?${DAY}`, headers: { Authorization: "Bearer pck_typo" } },
      { path: `${pathname}?${DAY}`, headers, method: "DELETE" as const },
      { path: `${pathname}?start=2026-02-30&limit=%zz&${"x".repeat(500)}=1`, headers },
      { path: `${pathname}?${DAY}`, headers },
    ];
  });
  const sent = await sendRequests({ url, connections: 8, amount, requests });
  for (const [status, count] of sent.statuses) {
    statuses.set(status, (statuses.get(status) ?? 0) + count);
  }
}
