// Needs a local stack. Slow.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { addKeys, addOrganization, age, exhaust, newLog, type Page } from "../helpers/mod.ts";
import { type Problem, randomFrom, revoke, sql, startFunction } from "../helpers/mod.ts";
import { statusOnly, TWO_DAYS, UNKNOWN_TOKEN, withKey, writeEntries } from "../helpers/mod.ts";
import { assertDocumented, exampleOf } from "../helpers/contract.ts";
import { hostileRequest } from "./hostile_requests.ts";
import { SlowReader } from "./slow_reader.ts";

// More, or others: FUZZ_REQUESTS=100000 FUZZ_SEED=7 deno task test tests/attacks/hostile_input_test.ts
const REQUESTS = Number(Deno.env.get("FUZZ_REQUESTS") ?? 6_000);
const SEED = Number(Deno.env.get("FUZZ_SEED") ?? 1);
/** After each batch of requests, the keys' quotas are reset. */
const BATCH = 500;
const SOCKETS = 8;

let log = "";
const edgeFunction = await startFunction({ log: (text) => log += text });
afterAll(() => edgeFunction[Symbol.asyncDispose]());
const home = edgeFunction.url;

/** What the platform calls the second organization: any text is allowed. */
const PLATFORM_ID = `"},{\\u0000"\n[<b>]' ${crypto.randomUUID()}`;

/** Makes two organizations with entries and keys, a revoked key, and one that has used up its quota. */
async function makeKeys() {
  const [first, second] = [await newLog(), await addOrganization(sql, PLATFORM_ID)];
  const [revoked, exhausted] = [await newLog(), await newLog()];
  for (const [{ id }, created_at] of [[first, "2026-03-01"], [second, "2026-03-02"]] as const) {
    const actions = ["agent_added", "message_created", "feedback_given"];
    const three = actions.map((action) => ({ action, created_at }));
    await writeEntries(id, [...three, ...three, ...three]);
  }
  await revoke(sql, revoked.apiKeyId);
  const keys = [...await addKeys(sql, first.id, 6), ...await addKeys(sql, second.id, 6)];
  const organizations = new Map(
    keys.map(({ token }, n) => [token, n < 6 ? first.id : PLATFORM_ID]),
  );
  return {
    organizations,
    exhausted: exhausted.token,
    tokens: [...organizations.keys(), revoked.token, exhausted.token, UNKNOWN_TOKEN],
    /** From here on, only the exhausted key is refused with 429. */
    async resetLimits() {
      for (const { apiKeyId } of keys) await age(sql, apiKeyId, "61 seconds");
      await exhaust(sql, exhausted.apiKeyId);
    },
  };
}

/** Asserts that an answer is as documented, and what the token may get. */
async function assertAnswer(response: Response, organizationId: string | undefined): Promise<void> {
  const { status, headers } = response;
  const body = await response.clone().text();
  assertEquals(headers.has("X-Injected"), false);
  // No caller makes the service answer at length about a bad request.
  assert(status === 200 || body.length < 20_000);
  // An answer to HEAD has no body.
  if (body === "") return;
  const answer: Page & Problem = JSON.parse(body);
  await assertDocumented(response);
  if (status !== 200) {
    const example: Partial<Problem> = exampleOf(status);
    return assertEquals(answer.code, example.code);
  }
  assertEquals(answer.organization_id, organizationId);
  const { total, limit, offset, items } = answer;
  assert(total <= 9);
  assertEquals(items.length, Math.max(0, Math.min(limit, total - offset)));
}

function assertNoFault(): void {
  const faults = log.split("\n").filter((line) =>
    line !== "" && (!line.startsWith("{") || line.includes('"error"'))
  );
  assertEquals(faults, []);
}

it(`hostile input gets documented answers, and entries of its own organization only: ${REQUESTS} requests of seed ${SEED}`, async () => {
  const { organizations, exhausted, tokens, resetLimits } = await makeKeys();
  const statuses = new Map<number, number>();
  async function attack(n: number): Promise<void> {
    const random = randomFrom(SEED * 1_000_003 + n);
    const token = tokens[n % tokens.length] ?? "";
    const request = hostileRequest(random, home, token);
    try {
      const response = await fetch(request);
      const { status } = response;
      const allowed = organizations.has(token) ? [200, 400] : token === exhausted ? [429] : [];
      assert([401, 404, 405, ...allowed].includes(status), `${status}`);
      await assertAnswer(response, organizations.get(token));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    } catch (error) {
      const sent = `${request.method} ${request.url.slice(0, 2000)}`;
      throw new Error(`FUZZ_SEED=${SEED}, request ${n}: ${error}\n${sent}`);
    }
  }
  for (let from = 0; from < REQUESTS; from += BATCH) {
    await resetLimits();
    let next = from;
    await Promise.all(Array.from({ length: SOCKETS }, async () => {
      while (next < Math.min(from + BATCH, REQUESTS)) await attack(next++);
    }));
  }
  console.log(`answers: ${JSON.stringify(Object.fromEntries(statuses))}`);
  // A status that hardly occurs would prove little.
  for (const status of [200, 400, 401, 404, 405, 429]) {
    assert((statuses.get(status) ?? 0) >= REQUESTS / 100, `few answers with ${status}`);
  }
  assertNoFault();
});

it("the Edge Function refuses a malformed Host header, and takes no harm from callers who go away", async () => {
  const { token } = await newLog();
  const ask = (host: string) => SlowReader.ask(`${home}?${TWO_DAYS}`, token, host);
  for (let n = 0; n < 40; n++) (await ask("a")).close();
  for (const host of ["a/b?c#d", "a b", "[::", "a:99999", "%zz"]) {
    const reader = await ask(host);
    await reader.readHeaders();
    assertMatch(reader.text, /^HTTP\/1.1 40[04]/, host);
    reader.close();
  }
  assertEquals(await statusOnly(fetch(`${home}?${TWO_DAYS}`, withKey(token))), 200);
  assertNoFault();
});
