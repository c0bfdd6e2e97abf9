import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  get,
  newOrganization,
  rolledBack,
  signUp,
  sql,
  statusOf,
  statusOnly,
  whileWaiting,
} from "../helpers.ts";

// The window to the microsecond, and parallel requests: attacks/rate_limit_exactness_test.ts.

const admin = await signUp();

/** Sends requests one after the other; their statuses. */
async function statuses(token: string, requests: number, query?: string): Promise<number[]> {
  const seen: number[] = [];
  for (let i = 0; i < requests; i++) seen.push(await statusOf(token, query));
  return seen;
}

/** As if requests had been accepted that many seconds ago, oldest first. */
async function acceptedAgo(apiKeyId: string, seconds: number[]): Promise<void> {
  await sql`
    update audit_log_private.rate_limits
    set accepted_at = array(
      select clock_timestamp() - make_interval(secs => s) from unnest(${seconds}::float8[]) as s
    )
    where api_key_id = ${apiKeyId}`;
}

async function countedTimes(apiKeyId: string): Promise<number> {
  const [row] = await sql`
    select cardinality(accepted_at) as n from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
  return row?.["n"];
}

describe("rate limit", () => {
  it("accepts 60 requests in a minute, counting down in RateLimit, and refuses the 61st", async () => {
    const { token } = await newOrganization(admin);
    for (let left = 59; left >= 0; left--) {
      const { headers, body } = await get(token);
      await body?.cancel();
      assertMatch(headers.get("RateLimit") ?? "", new RegExp(`^"default";r=${left};t=\\d+$`));
    }
    assertEquals(await statusOf(token), 429);
  });

  it("counts invalid requests like any other", async () => {
    const { token } = await newOrganization(admin);
    assertEquals(await statuses(token, 60, "start=x"), Array(60).fill(400));
    assertEquals(await statusOf(token), 429);
  });

  it("does not count refused requests: they delay nothing", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await statuses(token, 70);
    assertEquals(await countedTimes(apiKeyId), 60);
    await age(sql, apiKeyId, "60 seconds");
    assertEquals(await statusOf(token), 200);
    assertEquals(await countedTimes(apiKeyId), 1);
  });

  it("of a quota that was lowered tells when enough requests have left the window", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, [50, 40, 30, 20, 10]);
    const answer = await rolledBack(sql, async (run) => {
      await run`
        create or replace function audit_log_private.quota() returns integer
        language plpgsql stable set search_path = pg_catalog, pg_temp as 'begin return 2; end'`;
      return await run`select * from audit_log_private.count_request(${id}, ${apiKeyId})`;
    });
    assertEquals([...answer], [{ accepted: false, remaining: 0, reset: 40 }]);
  });

  it("keeps the time at which a request had its turn, not at which it began", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    let before: unknown;
    const answer = whileWaiting(sql, apiKeyId, () => get(token), async (holder) => {
      before = (await holder`select clock_timestamp()::text as time`)[0]?.["time"];
    });
    assertEquals(await statusOnly(answer), 200);
    const [row] = await sql`
      select accepted_at[1] >= ${`${before}`}::text::timestamptz as after
      from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["after"], true);
  });

  it("RateLimit, and Retry-After on a 429, tell when the oldest request leaves the window, rounded up", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    for (
      const [age, others, status, left] of [
        [20, 1, 200, 57],
        [0, 59, 429, 0],
        [19.5, 59, 429, 0],
        [58.5, 59, 429, 0],
      ] as const
    ) {
      const began = performance.now();
      await acceptedAgo(apiKeyId, [age, ...Array(others).fill(0)]);
      const { status: seen, headers, body } = await get(token);
      await body?.cancel();
      const took = (performance.now() - began) / 1000;
      const seconds = Number(headers.get("RateLimit")?.match(/t=(\d+)$/)?.[1]);
      assertEquals([seen, headers.get("RateLimit")], [status, `"default";r=${left};t=${seconds}`]);
      assertEquals(headers.get("Retry-After"), status === 429 ? `${seconds}` : null);
      const bounds = [Math.ceil(60 - age - took), Math.ceil(60 - age)] as const;
      assert(seconds >= bounds[0] && seconds <= bounds[1], `${seconds}: not in ${bounds}`);
    }
  });

  it("gives up on a counter that stays locked, so that other keys keep their connections", async () => {
    const [locked, other] = [await newOrganization(admin), await newOrganization(admin)];
    await sql.begin(async (transaction) => {
      await transaction`
        select from audit_log_private.rate_limits where api_key_id = ${locked.apiKeyId} for update`;
      const waiting = Array.from({ length: 12 }, () => statusOf(locked.token));
      assertEquals(await statusOf(other.token), 200);
      assertEquals(await Promise.all(waiting), Array(12).fill(500));
    });
    assertEquals(await statusOf(locked.token), 200);
  });

  it("holds when the clock is set back: the window is never reopened", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    // The last request was accepted 5 seconds in the future.
    await acceptedAgo(apiKeyId, [...Array(59).fill(10), -5]);
    assertEquals(await statusOf(token), 429);
    await acceptedAgo(apiKeyId, Array(60).fill(-50));
    const response = await get(token);
    await response.body?.cancel();
    assertEquals(Math.ceil(Number(response.headers.get("Retry-After")) / 10), 11);
    await acceptedAgo(apiKeyId, [-5]);
    assertEquals(await statusOf(token), 200);
    const [row] = await sql`
      select accepted_at[2] >= accepted_at[1] as ordered
      from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["ordered"], true);
  });

  it("locks no key out when the clock ran an hour ahead and is right again", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, Array(60).fill(-3600));
    assertEquals(await statuses(token, 61), [...Array(60).fill(200), 429]);
    assertEquals(await countedTimes(apiKeyId), 60);
  });
});
