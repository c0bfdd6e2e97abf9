import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  age,
  connect,
  createApiKey,
  get,
  getPage,
  getProblem,
  newOrganization,
  signUp,
} from "../helpers.ts";

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

/** Sends requests one after the other; their statuses. */
async function statuses(token: string, requests: number, query?: string): Promise<number[]> {
  const seen: number[] = [];
  for (let i = 0; i < requests; i++) {
    const response = await get(token, query);
    await response.body?.cancel();
    seen.push(response.status);
  }
  return seen;
}

/** As if requests had been accepted that many seconds ago, oldest first. */
async function acceptedAgo(apiKeyId: string, seconds: number[]): Promise<void> {
  await sql`
    update private.rate_limits
    set accepted_at = array(
      select clock_timestamp() - make_interval(secs => s) from unnest(${seconds}::float8[]) as s
    )
    where api_key_id = ${apiKeyId}`;
}

async function countedTimes(apiKeyId: string): Promise<number> {
  const [row] = await sql`
    select cardinality(accepted_at) as n from private.rate_limits where api_key_id = ${apiKeyId}`;
  return row?.["n"];
}

describe("rate limit", () => {
  it("accepts the 60th request of a minute and refuses the 61st", async () => {
    const { token } = await newOrganization(admin);
    assertEquals(await statuses(token, 61), [...Array(60).fill(200), 429]);
  });

  it("counts down in RateLimit, to 0 on the 60th", async () => {
    const { token } = await newOrganization(admin);
    const remaining: string[] = [];
    for (let i = 0; i < 60; i++) {
      const response = await get(token);
      await response.body?.cancel();
      remaining.push(
        response.headers.get("RateLimit")?.match(/^"default";r=(\d+);t=\d+$/)?.[1] ?? "",
      );
    }
    assertEquals(remaining, Array.from({ length: 60 }, (_, i) => String(59 - i)));
  });

  it("accepts exactly 60 of 150 parallel requests", async () => {
    const { token } = await newOrganization(admin);
    const responses = await Promise.all(Array.from({ length: 150 }, () => get(token)));
    await Promise.all(responses.map((response) => response.body?.cancel()));
    const accepted = responses.filter(({ status }) => status === 200).length;
    const refused = responses.filter(({ status }) => status === 429).length;
    assertEquals([accepted, refused], [60, 90]);
  });

  it("counts invalid requests like any other", async () => {
    const { token } = await newOrganization(admin);
    assertEquals(await statuses(token, 60, "start=x"), Array(60).fill(400));
    assertEquals(await statuses(token, 1), [429]);
  });

  it("does not count refused requests: they delay nothing", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await statuses(token, 70);
    assertEquals(await countedTimes(apiKeyId), 60);
    await age(sql, apiKeyId, "60 seconds");
    assertEquals(await statuses(token, 1), [200]);
    assertEquals(await countedTimes(apiKeyId), 1);
  });

  it("slides: a request is possible again when the oldest is 60 seconds old, and no sooner", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    // One nearly a minute old, 59 recent. The second leaves room for the test's own slowness.
    await acceptedAgo(apiKeyId, [58, ...Array(59).fill(1)]);
    assertEquals(await statuses(token, 1), [429]);
    await acceptedAgo(apiKeyId, [60, ...Array(59).fill(1)]);
    assertEquals(await statuses(token, 2), [200, 429]);
  });

  it("RateLimit tells when the oldest request leaves the window, on accepted answers too", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, [20, 1]);
    const response = await get(token);
    await response.body?.cancel();
    const [, left, seconds] = response.headers.get("RateLimit")
      ?.match(/^"default";r=(\d+);t=(\d+)$/) ?? [];
    assertEquals(left, "57");
    assert(Number(seconds) <= 40 && Number(seconds) > 38, seconds);
  });

  it("keeps the time at which a request had its turn, not at which it began", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    let waiting: Promise<Response> | undefined;
    const [before] = await sql.begin(async (transaction) => {
      const [holder] = await transaction`
        select pg_backend_pid() as pid from private.rate_limits
        where api_key_id = ${apiKeyId} for update`;
      waiting = get(token);
      let blocked: postgres.Row[] = [];
      while (blocked.length === 0) {
        blocked = await sql`
          select from pg_stat_activity where ${holder?.["pid"]} = any(pg_blocking_pids(pid))`;
      }
      return await transaction`select clock_timestamp() as time`;
    });
    await (await waiting)?.body?.cancel();
    const [row] = await sql`
      select accepted_at[1] >= ${before?.["time"]} as after
      from private.rate_limits where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["after"], true);
  });

  it("does not start afresh at the turn of a minute, as a fixed window would", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, Array(60).fill(30));
    assertEquals(await statuses(token, 1), [429]);
  });

  it("Retry-After is when the oldest request leaves the window, rounded up", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    for (const [age, expected] of [[0, 60], [19.5, 41], [58.5, 2]] as const) {
      await acceptedAgo(apiKeyId, [age, ...Array(59).fill(0)]);
      const { status, headers, body } = await get(token);
      await body?.cancel();
      assertEquals(status, 429);
      const seconds = Number(headers.get("Retry-After"));
      // Never more than it must be; less by what the test itself took.
      assert(seconds <= expected && seconds > expected - 2, `${seconds} for ${expected}`);
      assertEquals(headers.get("RateLimit"), `"default";r=0;t=${seconds}`);
      assertEquals(headers.get("RateLimit-Policy"), '"default";q=60;w=60');
    }
  });

  it("Retry-After is never too early: after exactly so long, a request is accepted", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, [33.3, ...Array(59).fill(1)]);
    const response = await get(token);
    await response.body?.cancel();
    await age(sql, apiKeyId, `${response.headers.get("Retry-After")} seconds`);
    assertEquals(await statuses(token, 1), [200]);
  });

  it("answers 429 with a problem that says when to retry", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, Array(60).fill(0));
    const problem = await getProblem(429, token);
    assertEquals([problem.status, problem.code], [429, "rate_limited"]);
    assert(problem.detail.includes("Retry-After"), problem.detail);
  });

  it("is per key: another key of the same organization is not affected", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id, "other");
    await acceptedAgo(apiKeyId, Array(60).fill(0));
    assertEquals(await statuses(token, 1), [429]);
    assertEquals((await getPage(other.token)).organization_id, id);
  });

  it("keeps at most 60 times for each key, however many requests there were", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, Array(60).fill(61));
    await statuses(token, 3);
    assertEquals(await countedTimes(apiKeyId), 3);
  });

  it("gives up on a counter that stays locked, so that other keys keep their connections", async () => {
    const [locked, other] = [await newOrganization(admin), await newOrganization(admin)];
    await sql.begin(async (transaction) => {
      await transaction`
        select from private.rate_limits where api_key_id = ${locked.apiKeyId} for update`;
      const waiting = Array.from({ length: 12 }, () => get(locked.token));
      assertEquals(await statuses(other.token, 1), [200]);
      for (const response of await Promise.all(waiting)) {
        assertEquals(response.status, 500);
        await response.body?.cancel();
      }
    });
    assertEquals(await statuses(locked.token, 1), [200]);
  });

  it("holds when the clock is set back: the window is never reopened", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    // The last request was accepted 5 seconds in the future.
    await acceptedAgo(apiKeyId, [...Array(59).fill(10), -5]);
    assertEquals(await statuses(token, 1), [429]);
    await acceptedAgo(apiKeyId, Array(60).fill(-50));
    const response = await get(token);
    await response.body?.cancel();
    assertEquals(Math.ceil(Number(response.headers.get("Retry-After")) / 10), 11);
    await acceptedAgo(apiKeyId, [-5]);
    assertEquals(await statuses(token, 1), [200]);
    const [row] = await sql`
      select accepted_at[2] >= accepted_at[1] as ordered
      from private.rate_limits where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["ordered"], true);
  });

  it("locks no key out when the clock ran an hour ahead and is right again", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await acceptedAgo(apiKeyId, Array(60).fill(-3600));
    assertEquals(await statuses(token, 61), [...Array(60).fill(200), 429]);
    assertEquals(await countedTimes(apiKeyId), 60);
  });
});
