import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import {
  API_URL,
  get,
  newLog,
  pick,
  type Random,
  randomFrom,
  rolledBack,
  SECRET_KEY,
  sql,
  statusOf,
  statusOnly,
  TWO_DAYS,
  whileWaiting,
  withKey,
} from "../helpers.ts";

// A key's row keeps the times of its accepted requests. Below, a request meets a row as any pattern of arrival
// may have left it, and after it the row has every accepted request of the last 60 seconds again. So what
// holds for one request holds for each request of any pattern.

const SECOND = 1_000_000;
const SPAN = 60 * SECOND;
const QUOTA = 60;
const REQUESTS = 3_000;

/** What became of a request. Times are in microseconds from when the row was as it met it. */
interface Decision {
  /** The row's times before, oldest first. */
  times: number[];
  accepted: boolean;
  remaining: number;
  reset: number;
  /** It came between these two. */
  earliest: number;
  latest: number;
  /** The row's times after. */
  kept: number[];
}

const { id, apiKeyId } = await newLog();
const session = await sql.reserve();
afterAll(() => session.release());

await session.unsafe(`
  create function pg_temp.microseconds(elapsed interval) returns bigint language sql
  return (extract(epoch from elapsed) * 1000000)::bigint;

  create function pg_temp.ask(organization uuid, key uuid, times bigint[]) returns json
  language plpgsql as $$
  declare
    origin constant timestamptz := clock_timestamp();
    earliest bigint;
    latest bigint;
    answer record;
  begin
    update audit_log_private.rate_limits
    set accepted_at = array(select origin + t * interval '1 microsecond' from unnest(times) as t)
    where api_key_id = key;
    earliest := pg_temp.microseconds(clock_timestamp() - origin);
    answer := audit_log_private.count_request(organization, key);
    latest := pg_temp.microseconds(clock_timestamp() - origin);
    return (
      select json_build_object(
        'accepted', answer.accepted, 'remaining', answer.remaining, 'reset', answer.reset,
        'earliest', earliest, 'latest', latest, 'times', times,
        'kept', array(select pg_temp.microseconds(t - origin) from unnest(r.accepted_at) as t)
      )
      from audit_log_private.rate_limits r where r.api_key_id = key
    );
  end
  $$`);

/** Times that a row may have: many in the last minute, many about as old as that, some older. */
function randomTimes(random: Random): number[] {
  const recent = () => random(SPAN);
  const edge = () => SPAN + pick(random, [1, SECOND / 1000, SECOND]) * (random(5) - 2);
  const ages = pick(random, [[recent], [recent, recent, edge], [
    recent,
    edge,
    () => random(2 * SPAN),
  ]]);
  const count = pick(random, [random(QUOTA), QUOTA - 1, QUOTA, QUOTA]);
  return Array.from({ length: count }, () => -pick(random, ages)()).sort((a, b) => a - b);
}

const random = randomFrom(60);
const decisions: Decision[] = [];
for (let n = 0; n < REQUESTS; n++) {
  const [row] = await session`
    select pg_temp.ask(${id}, ${apiKeyId}, ${randomTimes(random)}) as decision`;
  decisions.push(row?.["decision"]);
}
const accepted = decisions.filter((decision) => decision.accepted);
const refused = decisions.filter((decision) => !decision.accepted);

/** Those of the last 60 seconds before a moment. */
function within(times: number[], moment: number): number[] {
  return times.filter((time) => time > moment - SPAN);
}

/** Seconds, rounded up, from a moment until the oldest of the last 60 seconds leaves them. */
function resetAt(times: number[], moment: number): number {
  const [oldest = NaN] = within(times, moment);
  return Math.ceil((oldest + SPAN - moment) / SECOND);
}

describe("rate limit, whatever was accepted before", () => {
  it("accepts a request only if fewer than 60 were accepted in the 60 seconds before it, and keeps them and its time", () => {
    assert(
      accepted.some(({ kept }) => kept.length === QUOTA),
      "none was the last that is accepted",
    );
    for (const { times, earliest, latest, kept } of accepted) {
      const arrival = kept.at(-1) ?? NaN;
      assert(earliest <= arrival && arrival <= latest, `${earliest}, ${arrival}, ${latest}`);
      assertEquals(kept, [...within(times, arrival), arrival]);
      assert(kept.length <= QUOTA);
    }
  });

  it("refuses a request only if 60 were accepted in the 60 seconds before it, and counts it nowhere", () => {
    assert(refused.length > REQUESTS / 10, `only ${refused.length} were refused`);
    for (const { times, earliest, kept } of refused) {
      assertEquals(within(times, earliest).length, QUOTA);
      assertEquals(kept, times);
    }
  });

  it("is exact to the microsecond", async () => {
    const edge = async (microseconds: number) => {
      // In the future, where the last time kept is when the next request counts as come.
      await sql`
        update audit_log_private.rate_limits
        set accepted_at = array[t - interval '60 seconds' + ${microseconds} * interval '1 microsecond']
          || array_fill(t, array[59])
        from (select now() + interval '30 seconds' as t) as future
        where api_key_id = ${apiKeyId}`;
      const [row] =
        await sql`select accepted from audit_log_private.count_request(${id}, ${apiKeyId})`;
      return row?.["accepted"];
    };
    assertEquals([await edge(-1), await edge(0), await edge(1)], [true, true, false]);
  });

  it("tells with Retry-After when the oldest request leaves the 60 seconds: never too early, at most a second late", () => {
    for (const { times, earliest, latest, reset } of refused) {
      // It may have left them by the latest.
      const [oldest = NaN] = within(times, earliest);
      const [most, least] = [
        resetAt([oldest], earliest),
        Math.ceil((oldest + SPAN - latest) / SECOND),
      ];
      assert(least <= reset && reset <= most && reset >= 1, `${least}, ${reset}, ${most}`);
    }
  });

  it("tells with RateLimit exactly how many requests are left, and when the oldest leaves", () => {
    for (const { kept, remaining, reset } of accepted) {
      const expected = [QUOTA - kept.length, resetAt(kept, kept.at(-1) ?? NaN)];
      assertEquals([remaining, reset], expected);
    }
  });
});

/** As if requests had been accepted that many seconds ago, oldest first. */
async function acceptedAgo(apiKeyId: string, seconds: number[]): Promise<void> {
  await sql`
    update audit_log_private.rate_limits
    set accepted_at = array(
      select clock_timestamp() - make_interval(secs => s) from unnest(${seconds}::float8[]) as s
    )
    where api_key_id = ${apiKeyId}`;
}

describe("rate limit, over HTTP", () => {
  it("accepts 60 requests in a minute, invalid ones too, counts down in RateLimit and refuses the 61st", async () => {
    const { token } = await newLog();
    for (let left = 59; left >= 0; left--) {
      const { status, headers, body } = await get(token, left % 2 ? TWO_DAYS : "start=x");
      await body?.cancel();
      assertEquals(status, left % 2 ? 200 : 400);
      assertMatch(headers.get("RateLimit") ?? "", new RegExp(`^"default";r=${left};t=\\d+$`));
    }
    const { status, headers, body } = await get(token);
    await body?.cancel();
    const [, reset] = headers.get("RateLimit")?.match(/^"default";r=0;t=(\d+)$/) ?? [];
    assertEquals([status, headers.get("Retry-After")], [429, reset]);
  });

  it("counts a request when it has its turn, not when it began", async () => {
    const { apiKeyId, token } = await newLog();
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

  it("gives up on a counter that stays locked, so that other keys keep their connections", async () => {
    const [locked, other] = [await newLog(), await newLog()];
    await sql.begin(async (transaction) => {
      await transaction`
        select from audit_log_private.rate_limits where api_key_id = ${locked.apiKeyId} for update`;
      const waiting = Array.from({ length: 4 }, () => statusOf(locked.token));
      assertEquals(await statusOf(other.token), 200);
      assertEquals(await Promise.all(waiting), Array(4).fill(500));
    });
    assertEquals(await statusOf(locked.token), 200);
  });

  it("never reopens the window when the clock is set back, and locks out no key whose clock ran an hour ahead", async () => {
    const { apiKeyId, token } = await newLog();
    // The last request was accepted 5 seconds in the future.
    await acceptedAgo(apiKeyId, [...Array(59).fill(10), -5]);
    assertEquals(await statusOf(token), 429);
    await acceptedAgo(apiKeyId, Array(60).fill(-50));
    const { headers, body } = await get(token);
    await body?.cancel();
    assertEquals(Math.ceil(Number(headers.get("Retry-After")) / 10), 11);
    await acceptedAgo(apiKeyId, [-5]);
    assertEquals(await statusOf(token), 200);
    const [row] = await sql`
      select accepted_at[2] >= accepted_at[1] as ordered
      from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["ordered"], true);
    await acceptedAgo(apiKeyId, Array(60).fill(-3600));
    const answer = await get(token);
    await answer.body?.cancel();
    assertMatch(answer.headers.get("RateLimit") ?? "", /^"default";r=59;/);
  });

  it("tells after the quota was lowered when enough requests have left the window", async () => {
    const { id, apiKeyId } = await newLog();
    await acceptedAgo(apiKeyId, [50, 40, 30, 20, 10]);
    const answer = await rolledBack(sql, async (run) => {
      await run`
        create or replace function audit_log_private.quota() returns integer
        language plpgsql stable set search_path = pg_catalog, pg_temp as 'begin return 2; end'`;
      return await run`select * from audit_log_private.count_request(${id}, ${apiKeyId})`;
    });
    assertEquals([...answer], [{ accepted: false, remaining: 0, reset: 40 }]);
  });

  it("accepts exactly 60 of 200 parallel requests of one key, through two processes of the function", async () => {
    const { token } = await newLog();
    const options = { apiUrl: API_URL, secretKey: SECRET_KEY, log: () => {} };
    await using first = await startEdgeFunction(options);
    await using second = await startEdgeFunction(options);
    const statuses = await Promise.all(Array.from({ length: 200 }, (_, i) => {
      const { port } = i % 2 ? first : second;
      const url = `http://127.0.0.1:${port}/public-audit-log?${TWO_DAYS}`;
      return statusOnly(fetch(url, withKey(token)));
    }));
    assertEquals(statuses.sort(), [...Array(60).fill(200), ...Array(140).fill(429)]);
  });
});
