import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";
import { setTimeout as pause } from "node:timers/promises";
import { type EdgeFunction, startEdgeFunction } from "../local/edge_function.ts";
import { SlowReader } from "../tests/attacks/slow_reader.ts";
import { makeKeys, residentMemory, startFunctionUnderLoad } from "./function_under_load.ts";
import { DAY, insertEntries, LONGEST, peak, resetPeak } from "./largest_pages.ts";
import { byTurns, median, printHead, printRow, spread } from "./report.ts";

// What one key's lawful minute does to others: 60 largest pages at once, read and not read.

const { values: given } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    /** The entry file of another version of the function, to measure it by turns with this one. */
    before: { type: "string" },
  },
});
const AT_ONCE = 60;
const ALONE = 300;
const STALLED_SECONDS = 75;

console.log("Starting a stack …");
await using load = await startFunctionUnderLoad();
const { sql, stack } = load;
const [noisy, quiet] = [crypto.randomUUID(), crypto.randomUUID()];
const [noisyToken = ""] = await makeKeys(sql, noisy, 1);
const quietTokens = await makeKeys(sql, quiet, 100);
await insertEntries(sql, noisy, LONGEST.escaped);
await insertEntries(sql, quiet, { email: "ada@example.com", name: "Assistant", text: "m-1" });

await using others = new AsyncDisposableStack();
const functions = new Map<string, EdgeFunction>();
if (given.before) {
  const main = pathToFileURL(given.before);
  functions.set("before", others.use(await startEdgeFunction({ ...stack, main, log: () => {} })));
}
functions.set("now", load.edgeFunction);

printHead(
  "60 at once",
  "answered 200",
  "alone, ms: median",
  "99th",
  "beside, ms: median",
  "99th",
  "ratio",
  "of 99th",
  "peak, MiB",
);
const seen = await byTurns(Number(given.rounds), [...functions], async ([, { port, pid }]) => {
  await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
  let isOver = false;
  const alone = await askQuietly(port, (asked) => asked === ALONE);
  await resetPeak(pid);
  const crowd = Promise.all(Array.from({ length: AT_ONCE }, async () => {
    const response = await ask(port, noisyToken, 1000);
    return response.status === 200 && (await response.bytes()).length > 5e6;
  })).finally(() => isOver = true);
  const beside = await askQuietly(port, () => isOver);
  const answered = (await crowd).filter(Boolean).length;
  return { alone, beside, answered, peak: await peak([pid]) };
});
for (const [[name], rounds] of seen) {
  const [alone, aloneLast, beside, besideLast] = (["alone", "beside"] as const).flatMap((key) =>
    [0.5, 0.99].map((share) => rounds.map((round) => quantile(round[key], share)))
  );
  printRow(
    name,
    Math.min(...rounds.map(({ answered }) => answered)),
    ...[alone, aloneLast, beside, besideLast].map((each) => median(each).toFixed(1)),
    spread(beside?.map((each, n) => each / (alone?.[n] ?? NaN)), 2),
    spread(besideLast?.map((each, n) => each / (aloneLast?.[n] ?? NaN)), 2),
    Math.max(...rounds.map(({ peak }) => peak)).toFixed(0),
  );
}

printHead("60 readers that stop or crawl", "before, MiB", "peak", "after 75 s", "when they leave");
for (const [name, { port, pid }] of functions) {
  await sql`update audit_log_private.rate_limits set accepted_at = '{}'`;
  const before = await residentMemory(pid);
  await resetPeak(pid);
  const readers = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) => stall(port, n)),
  );
  await pause(STALLED_SECONDS * 1000);
  const figures = [before, await peak([pid]), await residentMemory(pid)];
  for (const reader of readers) reader.close();
  await pause(5_000);
  printRow(name, ...[...figures, await residentMemory(pid)].map((each) => each.toFixed(0)));
}
for (const fault of new Set(load.faults.map((line) => JSON.parse(line).error))) console.log(fault);

/** Asks for a page of the day. */
function ask(port: number, token: string, limit: number): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/public-audit-log?start=${DAY}&end=${DAY}&limit=${limit}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
}

/** Asks for the quiet organization's first page, one after the other; how long each took. */
async function askQuietly(port: number, isOver: (asked: number) => boolean): Promise<number[]> {
  const times: number[] = [];
  while (!isOver(times.length)) {
    const start = performance.now();
    const response = await ask(port, quietTokens[times.length % quietTokens.length] ?? "", 100);
    await response.bytes();
    // A failed request counts as one that took the whole time-out.
    times.push(response.status === 200 ? performance.now() - start : 5_000);
  }
  return times;
}

/** Starts a reader that stops after the headers, or after a byte of the body, or reads a byte a second. */
async function stall(port: number, n: number): Promise<SlowReader> {
  const server = { hostname: "127.0.0.1", port };
  const path = `/public-audit-log?start=${DAY}&end=${DAY}&limit=1000`;
  const reader = await SlowReader.ask(server, path, noisyToken);
  (async () => {
    await reader.readHeaders();
    if (n % 3 > 0) await reader.readByte();
    while (n % 3 === 2) await pause(1000).then(() => reader.readByte());
  })().catch(() => {});
  return reader;
}

function quantile(values: number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? NaN;
}
