// Needs a stack.

import { assert, assertEquals } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { addKeys, get, headOf, newLog, pick, pidOf, quotaOf, type Random } from "../helpers/mod.ts";
import { randomFrom, rolledBack, sql, startFunction, statusOf } from "../helpers/mod.ts";
import { statusOnly, TWO_DAYS, valueOf, whileWaiting, withKey } from "../helpers/mod.ts";

// Proves the rate limit by induction. The row of a key has the times of its counted requests. Each test request starts
// from a random row that earlier requests may have left, and must leave such a row. So what holds for one request
// holds for any number.

const SECOND = 1_000_000;
const SPAN = 60 * SECOND;
const QUOTA = await quotaOf(sql);
const REQUESTS = 3_000;

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
    set counted_at = array(select origin + t * interval '1 microsecond' from unnest(times) as t)
    where api_key_id = key;
    earliest := pg_temp.microseconds(clock_timestamp() - origin);
    answer := audit_log_private.count_request(organization, key);
    latest := pg_temp.microseconds(clock_timestamp() - origin);
    return (
      select json_build_object(
        'counted', answer.outcome = 'counted', 'remaining', answer.remaining, 'reset', answer.reset,
        'earliest', earliest, 'latest', latest,
        'kept', array(select pg_temp.microseconds(t - origin) from unnest(r.counted_at) as t)
      )
      from audit_log_private.rate_limits r where r.api_key_id = key
    );
  end
  $$`);

/** Makes the times of a row: many of the last minute, many about a minute old, some older. */
function randomTimes(random: Random): number[] {
  const recent = () => random(SPAN);
  const edge = () => SPAN + pick(random, [1, SECOND / 1000, SECOND]) * (random(5) - 2);
  const any = () => random(2 * SPAN);
  const ages = pick(random, [[recent], [recent, recent, edge], [recent, edge, any]]);
  const count = pick(random, [random(QUOTA), QUOTA - 1, QUOTA, QUOTA]);
  return Array.from({ length: count }, () => -pick(random, ages)()).sort((a, b) => a - b);
}

/** Keeps the times of the last 60 seconds before a moment. */
function within(times: number[], moment: number): number[] {
  return times.filter((time) => time > moment - SPAN);
}

/** Counts the seconds, rounded up, from a moment until the oldest of the last 60 seconds leaves them. */
function resetAt(times: number[], moment: number): number {
  const [oldest = NaN] = within(times, moment);
  return Math.ceil((oldest + SPAN - moment) / SECOND);
}

type Asked =
  & Record<"remaining" | "reset" | "earliest" | "latest", number>
  & { counted: boolean; kept: number[] };

it("the rate limit after any requests counts a request if and only if fewer than its quota were counted in 60 seconds, refuses all others, and says how many are left and when to retry", async () => {
  const random = randomFrom(60);
  let [last, refused] = [0, 0];
  for (let n = 0; n < REQUESTS; n++) {
    // In microseconds since the row was written. The request was counted between earliest and latest.
    const times = randomTimes(random);
    const { counted, remaining, reset, earliest, latest, kept } = await valueOf<Asked>(
      session`select pg_temp.ask(${id}, ${apiKeyId}, ${times})`,
    );
    if (counted) {
      const arrival = kept.at(-1) ?? NaN;
      assert(earliest <= arrival && arrival <= latest, `${earliest}, ${arrival}, ${latest}`);
      assertEquals(kept, [...within(times, arrival), arrival]);
      assertEquals([remaining, reset], [QUOTA - kept.length, resetAt(kept, arrival)]);
      assert(remaining >= 0);
      if (remaining === 0) last++;
    } else {
      assertEquals(within(times, earliest).length, QUOTA);
      assertEquals(kept, times);
      // When the oldest request is 60 seconds old: never early, at most a second late.
      const least = Math.ceil(((times[0] ?? NaN) + SPAN - latest) / SECOND);
      const most = resetAt(times, earliest);
      assert(least <= reset && reset <= most && reset >= 1, `${least}, ${reset}, ${most}`);
      refused++;
    }
  }
  assert(last > 0 && refused > REQUESTS / 10, `${last} were the last, ${refused} were refused`);
});

/** Sets the times of a key's counted requests, in seconds before now, oldest first. */
async function countedAgo(apiKeyId: string, seconds: number[]): Promise<void> {
  await sql`
    update audit_log_private.rate_limits
    set counted_at = array(
      select clock_timestamp() - make_interval(secs => s) from unnest(${seconds}::float8[]) as s
    )
    where api_key_id = ${apiKeyId}`;
}

it("each key has 60 requests a minute, as the contract says. Another quota that an operator sets holds from then on, and answers say it", async () => {
  assertEquals(QUOTA, 60);
  const { id, apiKeyId } = await newLog();
  await rolledBack(sql, async (run) => {
    await run.unsafe(
      "create or replace function audit_log_private.quota() returns integer language sql as 'select 2'",
    );
    for (const due of [["invalid_query", 2, 1], ["invalid_query", 2, 0], ["rate_limited", 2, 0]]) {
      const answer: string = await valueOf(run`
        select audit_log_private.answer_request(${id}, ${apiKeyId}, 'actions', null, null)`);
      const { decision, quota, remaining } = JSON.parse(answer);
      assertEquals([decision, quota, remaining], due);
    }
  });
});

it("the rate limit of the API counts a request after it has waited for the row of its key, not when it began", async () => {
  const { apiKeyId, token } = await newLog();
  let before = "";
  const answer = whileWaiting(sql, apiKeyId, () => get(token), async (holder) => {
    before = await valueOf(holder`select clock_timestamp()::text`);
  });
  assertEquals(await statusOnly(answer), 200);
  const isAfter = sql`
    select counted_at[1] >= ${before}::text::timestamptz
    from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
  assertEquals(await valueOf(isAfter), true);
});

it("the rate limit of the API gives up on a counter that stays locked, so that other keys are answered", async () => {
  const [locked, other] = [await newLog(), await newLog()];
  await sql.begin(async (transaction) => {
    await transaction`
      select from audit_log_private.rate_limits where api_key_id = ${locked.apiKeyId} for update`;
    const waiting = [statusOf(locked.token), statusOf(locked.token)];
    assertEquals(await statusOf(other.token), 200);
    assertEquals(await Promise.all(waiting), [500, 500]);
    // Otherwise each would keep a connection of the Data API.
    const pid = await pidOf(transaction);
    const waiters = sql`select from pg_stat_activity where ${pid} = any (pg_blocking_pids(pid))`;
    assertEquals((await waiters).length, 0);
  });
  assertEquals(await statusOf(locked.token), 200);
});

it("the rate limit of the API still refuses an exhausted key after the clock is set back by seconds. Times an hour ahead do not lock a key out", async () => {
  const { apiKeyId, token } = await newLog();
  // The last request was counted 5 seconds in the future.
  await countedAgo(apiKeyId, [...Array(QUOTA - 1).fill(10), -5]);
  assertEquals(await statusOf(token), 429);
  await countedAgo(apiKeyId, Array(QUOTA).fill(-50));
  const refused = await headOf(get(token));
  assertEquals(Math.ceil(Number(refused.headers.get("Retry-After")) / 10), 11);
  await countedAgo(apiKeyId, [-5]);
  assertEquals(await statusOf(token), 200);
  const isOrdered = sql`
    select counted_at[2] >= counted_at[1] from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
  assertEquals(await valueOf(isOrdered), true);
  await countedAgo(apiKeyId, Array(QUOTA).fill(-3600));
  const counted = await headOf(get(token));
  assertEquals(counted.headers.get("RateLimit")?.split(";")[1], `r=${QUOTA - 1}`);
});

it("the rate limit of the API accepts exactly the quota of parallel requests of one key, through two processes of the function, and usage has these with their entries. Another key has all of its own", async () => {
  const { id, apiKeyId, token } = await newLog({}, {});
  await using first = await startFunction();
  await using second = await startFunction();
  const statuses = await Promise.all(Array.from({ length: 3 * QUOTA }, (_, i) => {
    const { url } = i % 2 ? first : second;
    return statusOnly(fetch(`${url}?${TWO_DAYS}`, withKey(token)));
  }));
  assertEquals(statuses.sort(), [...Array(QUOTA).fill(200), ...Array(2 * QUOTA).fill(429)]);
  const [used] = await sql`
    select requests, entries::int from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
  assertEquals({ ...used }, { requests: QUOTA, entries: 2 * QUOTA });
  const [other] = await addKeys(sql, id, 1);
  const { headers } = await headOf(get(other?.token ?? ""));
  assertEquals(headers.get("RateLimit")?.split(";")[1], `r=${QUOTA - 1}`);
});
