import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import {
  addKeys,
  age,
  AUDIT_LOG_URL,
  exhaust,
  newLog,
  type Page,
  type Problem,
  sql,
  TWO_DAYS,
  UNKNOWN_TOKEN,
} from "../helpers.ts";
import { assertDocumented } from "../contract.ts";
import { hostileRequest } from "./hostile_requests.ts";
import { malformedRequests, unfinishedRequests } from "./malformed_http.ts";
import { type RawResponse, sendAndLeave, sendRaw, type Server } from "./raw_http.ts";
import { type HttpRequest, judge, type KnownKeys, type Verdict } from "./second_reading.ts";

// More, or others: FUZZ_REQUESTS=100000 FUZZ_SEED=7 deno task test tests/attacks/hostile_input_test.ts
const REQUESTS = Number(Deno.env.get("FUZZ_REQUESTS") ?? 10_000);
const SEED = Number(Deno.env.get("FUZZ_SEED") ?? 1);
/** One in so many goes through the gateway, the others straight to a function's own process. */
const GATEWAY_SHARE = 10;
/** So many requests, then room again for each key's sixty a minute. */
const BATCH = 500;
const SOCKETS = 8;

/** A server under attack, and the path of the service there. */
interface Target extends Server {
  home: string;
}

const gatewayUrl = new URL(AUDIT_LOG_URL);
const gateway: Target = {
  hostname: gatewayUrl.hostname,
  port: Number(gatewayUrl.port),
  home: gatewayUrl.pathname,
};

/** All that the function has written. */
let log = "";
const edgeFunction = await startEdgeFunction({
  apiUrl: gatewayUrl.origin,
  secretKey: Deno.env.get("SUPABASE_SECRET_KEY") ?? "",
  log: (text) => log += text,
});
const direct: Target = {
  hostname: "127.0.0.1",
  port: edgeFunction.port,
  home: "/public-audit-log",
};
afterAll(() => edgeFunction[Symbol.asyncDispose]());

/** What the platform calls the second organization: any text is lawful. */
const EXTERNAL_ID = `"},{\\u0000"\n[<b>]' ${crypto.randomUUID()}`;

/** Two organizations with entries and some keys; one key is revoked and one has used its limit up. */
async function makeKeys() {
  const active = new Map<string, string>();
  const ids: string[] = [];
  for (const created_at of ["2026-03-01", "2026-03-02"]) {
    const actions = ["agent_added", "message_created", "feedback_given"] as const;
    const { id } = await newLog(
      ...actions.flatMap((action) => Array(3).fill({ action, created_at })),
    );
    const isSecond = active.size > 0;
    if (isSecond) {
      await sql`update audit_log.organizations set external_id = ${EXTERNAL_ID} where id = ${id}`;
    }
    for (const { apiKeyId, token } of await addKeys(sql, id, 6)) {
      active.set(token, isSecond ? EXTERNAL_ID : id);
      ids.push(apiKeyId);
    }
  }
  const [revoked, exhausted] = [await newLog(), await newLog()];
  await sql`update audit_log_private.api_keys set revoked_at = now() where id = ${revoked.apiKeyId}`;
  const known: KnownKeys = { active, exhausted: exhausted.token };
  return {
    known,
    tokens: [...active.keys(), revoked.token, exhausted.token, UNKNOWN_TOKEN],
    /** No right request of an active key may meet its limit, every one of the exhausted key must. */
    async resetLimits() {
      for (const id of ids) await age(sql, id, "61 seconds");
      await exhaust(sql, exhausted.apiKeyId);
    },
  };
}

function headOf({ method, target, headers }: HttpRequest): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`;
}

/** Asserts that an answer is the one that the verdict names, whole and of its own shape. */
async function assertAnswer(
  { status, headers, body }: RawResponse,
  verdict: Verdict,
  method: string,
): Promise<void> {
  assertEquals(status, verdict.status, body.slice(0, 500));
  assertEquals(headers.has("X-Injected"), false);
  // No caller makes the service answer at length about a bad request.
  assert(status === 200 || body.length < 20_000);
  // To HEAD there is no body.
  if (method === "HEAD") return;
  const answer: Page & Problem & { message?: string } = JSON.parse(body);
  // A path outside of the function's: the gateway answers by itself.
  if (status === 404 && answer.message) return;
  await assertDocumented(new Response(body, { status, headers }));
  if (verdict.status !== 200) return assertEquals(answer.code, CODES[verdict.status]);
  const { start, end, action, person, limit, offset } = verdict.query;
  // The last two only with after.
  const { total, items, next, has_more, ...echo } = answer;
  assertEquals(typeof has_more, next ? "boolean" : "undefined");
  assertEquals(echo, { organization_id: verdict.organizationId, start, end, limit, offset });
  assert(total <= 9);
  assertEquals(items.length, Math.max(0, Math.min(limit, total - offset)));
  for (const item of items) {
    const day = item.created_at.slice(0, 10);
    assert(day >= start && day <= end && (action ?? item.action) === item.action);
    assert((person ?? item.user_email) === item.user_email);
  }
}

const CODES = {
  400: "invalid_parameters",
  401: "unauthorized",
  404: "not_found",
  405: "method_not_allowed",
  429: "rate_limited",
};

/** Asserts that nothing that has happened was a fault to the function. */
function assertNoFault(): void {
  const faults = log.split("\n").filter((line) =>
    line !== "" && (!line.startsWith("{") || line.includes('"error"'))
  );
  assertEquals(faults, []);
}

describe("hostile input", () => {
  it(`${REQUESTS} requests of seed ${SEED}: each answer is what a second reading of the contract says`, async () => {
    const { known, tokens, resetLimits } = await makeKeys();
    const statuses = new Map<number, number>();
    async function attack(n: number): Promise<void> {
      const target = n % GATEWAY_SHARE === 0 ? gateway : direct;
      const request = hostileRequest(SEED, n, { home: target.home, tokens });
      const verdict = judge(request, target.home, known);
      try {
        const responses = await sendRaw(target, headOf(request));
        assertEquals(responses.length, 1, "answers");
        for (const each of responses) await assertAnswer(each, verdict, request.method);
      } catch (error) {
        throw new Error(
          `FUZZ_SEED=${SEED} FUZZ_REQUESTS=${REQUESTS}, request ${n} to ${target.home}: ` +
            `${error instanceof Error ? error.message : error}\n` +
            JSON.stringify(headOf(request)).slice(0, 2000),
        );
      }
      statuses.set(verdict.status, (statuses.get(verdict.status) ?? 0) + 1);
    }
    for (let from = 0; from < REQUESTS; from += BATCH) {
      await resetLimits();
      let next = from;
      await Promise.all(Array.from({ length: SOCKETS }, async () => {
        while (next < Math.min(from + BATCH, REQUESTS)) await attack(next++);
      }));
    }
    console.log(`answers: ${JSON.stringify(Object.fromEntries(statuses))}`);
    // Each way through the service has been gone often, or the rest would mean little.
    for (const status of [200, 400, 401, 404, 405, 429]) {
      assert((statuses.get(status) ?? 0) >= REQUESTS / 100, `few answers with ${status}`);
    }
    assertNoFault();
  });
});

describe("malformed HTTP", () => {
  for (const target of [direct, gateway]) {
    const way = target === direct ? "the function" : "the gateway";
    it(`${way}: is refused, or is the one request that it says; nothing smuggled in it is answered`, async () => {
      const { id, token } = await newLog();
      for (const [name, text, answers] of malformedRequests(target.home, TWO_DAYS, token)) {
        const responses = await sendRaw(target, text).catch((error) => {
          throw new Error(`${name}: ${error.message}`);
        });
        assertMatch(responses.map(({ status }) => status).join(" "), answers, name);
        for (const { status, body } of responses) {
          // Refused by the HTTP server itself: without a body.
          if (status !== 200) assertEquals(body.includes(id), false, name);
          else assertEquals(JSON.parse(body).organization_id, id, name);
        }
      }
      assertNoFault();
    });

    it(`${way}: 70 requests in one go are answered in order, the last ten with 429`, async () => {
      const { token } = await newLog();
      const head = `GET ${target.home}?${TWO_DAYS} HTTP/1.1\r\nHost: a\r\n`;
      const request = `${head}Authorization: Bearer ${token}\r\n\r\n`;
      const last = request.replace("Host: a", "Host: a\r\nConnection: close");
      const responses = await sendRaw(target, request.repeat(69) + last);
      assertEquals(
        responses.map(({ status }) => status),
        [...Array(60).fill(200), ...Array(10).fill(429)],
      );
      assertNoFault();
    });

    it(`${way}: a caller who goes away in the middle leaves nothing behind`, async () => {
      const { id, token } = await newLog();
      for (let round = 0; round < 5; round++) {
        const unfinished = unfinishedRequests(target.home, TWO_DAYS, token);
        await Promise.all(unfinished.map((text) => sendAndLeave(target, text)));
      }
      const head = `GET ${target.home}?${TWO_DAYS} HTTP/1.1\r\nHost: a\r\n`;
      const last = `${head}Authorization: Bearer ${token}\r\nConnection: close\r\n\r\n`;
      const [response] = await sendRaw(target, last);
      assertEquals(response?.status, 200);
      assertEquals(JSON.parse(response?.body ?? "").organization_id, id);
      assertNoFault();
    });
  }
});
