// Needs a local stack. Slow.

import { assert, assertEquals } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { API_URL, AUDIT_LOG_URL, newLog, revoke, sql, startFunction } from "../helpers/mod.ts";
import { statusOnly, TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers/mod.ts";
import { serveOnLoopback } from "../helpers/loopback.ts";
import { assertSameTimes } from "./timing.ts";

const { token } = await newLog();
const calls = { now: 0, most: 0, all: 0 };

/** The Data API. It counts the calls. */
const dataApi = serveOnLoopback(async ({ method, headers, url, body }) => {
  calls.all++;
  calls.most = Math.max(calls.most, ++calls.now);
  const call = await new Response(body).text();
  return await fetch(API_URL + new URL(url).pathname, { method, headers, body: call })
    .finally(() => calls.now--);
});
let log = "";
const edgeFunction = await startFunction({ apiUrl: dataApi.url, log: (line) => log += line });
afterAll(async () => {
  await edgeFunction[Symbol.asyncDispose]();
  await dataApi[Symbol.asyncDispose]();
});

const address = `${edgeFunction.url}?${TWO_DAYS}`;

async function ask(token: string, signal: AbortSignal | null = null): Promise<number> {
  return await statusOnly(fetch(`${address}&limit=1`, { ...withKey(token), signal }));
}

async function madeUp(count: number): Promise<string[]> {
  const tokens = await sql<{ token: string }[]>`
    select audit_log_private.new_token() as token from generate_series(1, ${count}::int)`;
  return tokens.map(({ token }) => token);
}

it("the Edge Function looks up at most eleven made-up tokens at a time, each once. Meanwhile it answers keys", async () => {
  const tokens = await madeUp(640);
  const statuses = new Set<number>();
  let left = tokens.length;
  const guess = async () => {
    for (let next = tokens.pop(); next; next = tokens.pop()) {
      statuses.add(await ask(next));
      left--;
    }
  };
  const guessers = Array.from({ length: 32 }, guess);
  for (let n = 0; n < 10; n++) assertEquals(await ask(token), 200);
  assert(left > 0);
  await Promise.all(guessers);
  assertEquals([statuses, calls.now, calls.all], [new Set([401]), 0, 640 + 10]);
  assert(calls.most <= 11, `${calls.most}`);
});

it("the Edge Function answers a key after the tokens of 1000 clients that have left unnoticed", async () => {
  const client = new AbortController();
  const guesses = (await madeUp(1000)).map((made) => ask(made, client.signal).catch(() => 0));
  assertEquals(await ask(token), 200);
  client.abort();
  await Promise.all(guesses);
  assertEquals(await ask(token), 200);
  const lines = log.trim().split("\n");
  assertEquals(lines.filter((line) => !line.startsWith("{") || line.includes('"error"')), []);
});

it("a revoked key is refused in the same time as an expired and an unknown one", async () => {
  const [revoked, expired] = [await newLog(), await newLog()];
  await revoke(sql, revoked.apiKeyId);
  await sql`update audit_log_private.api_keys set expires_at = now() where id = ${expired.apiKeyId}`;
  const refused = async (token: string) => {
    const answer = fetch(`${AUDIT_LOG_URL}?${TWO_DAYS}`, withKey(token));
    assertEquals(await statusOnly(answer), 401);
  };
  for (const other of [revoked.token, UNKNOWN_TOKEN]) {
    await assertSameTimes("401", () => refused(expired.token), () => refused(other));
  }
});
