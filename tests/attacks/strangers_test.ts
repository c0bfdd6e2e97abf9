import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import { API_URL, AUDIT_LOG_URL, newLog, revoke, sql, startFunction } from "../helpers.ts";
import { statusOnly, TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers.ts";
import { serveOnLoopback } from "../loopback.ts";
import { assertSameTimes } from "./timing.ts";

const [known, fresh] = [await newLog(), await newLog()];
const knownHash = await tokenHash(known.token);
const strangers = { now: 0, most: 0, all: 0 };

/** The Data API. It counts the calls with other hashes than that of the known key. */
const dataApi = serveOnLoopback(async ({ method, headers, url, body }) => {
  const call = await new Response(body).text();
  const stranger = Number(JSON.parse(call).token_hash !== knownHash);
  strangers.all += stranger;
  strangers.most = Math.max(strangers.most, strangers.now += stranger);
  return await fetch(API_URL + new URL(url).pathname, { method, headers, body: call })
    .finally(() => strangers.now -= stranger);
});
let log = "";
const edgeFunction = await startFunction({ apiUrl: dataApi.url, log: (line) => log += line });
afterAll(async () => {
  await edgeFunction[Symbol.asyncDispose]();
  await dataApi[Symbol.asyncDispose]();
});

const address = `${edgeFunction.url}?${TWO_DAYS}`;

async function ask(token: string): Promise<number> {
  return await statusOnly(fetch(address, withKey(token)));
}

describe("the Edge Function", () => {
  it("asks the Data API about two tokens at a time that no key has, of 32 connections. Meanwhile it answers keys, also a new one", async () => {
    assertEquals(await ask(known.token), 200);
    const tokens = await sql<{ token: string }[]>`
      select audit_log_private.new_token() as token from generate_series(1, 320)`;
    const statuses = new Set<number>();
    let left = tokens.length;
    const guess = async () => {
      for (let next = tokens.pop(); next; next = tokens.pop()) {
        statuses.add(await ask(next.token));
        left--;
      }
    };
    const guessers = Array.from({ length: 32 }, guess);
    assertEquals(await ask(fresh.token), 200);
    assertEquals(left > 0, true);
    for (let n = 0; n < 20; n++) assertEquals(await ask(known.token), 200);
    await Promise.all(guessers);
    const { now, most } = strangers;
    assertEquals([statuses, now, most], [new Set([401]), 0, 2]);
  });

  it("answers new keys of other networks at once, while the tokens of clients wait that have left unnoticed", async () => {
    const tokens = await sql<{ token: string }[]>`
      select audit_log_private.new_token() as token from generate_series(1, 1000)`;
    const [before, newcomer] = [strangers.all, await newLog()];
    const client = new AbortController();
    // One machine can have all addresses of a /64 network. If each had its own place, all would be asked about.
    const guesses = tokens.map(({ token }, n) => {
      const request = withKey(token, { "CF-Connecting-IP": `2001:db8::${n}` });
      return statusOnly(fetch(address, { ...request, signal: client.signal })).catch(() => 0);
    });
    // By now, the function has many of them.
    assertEquals(await ask(newcomer.token), 200);
    assert(strangers.all - before < 100, `${strangers.all - before}`);
    client.abort();
    await Promise.all(guesses);
    assertEquals(await ask((await newLog()).token), 200);
    assert(strangers.all - before < 500, `${strangers.all - before}`);
    const lines = log.trim().split("\n");
    assertEquals(lines.filter((line) => !line.startsWith("{") || line.includes('"error"')), []);
  });
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
