import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import {
  API_URL,
  connect,
  newOrganization,
  pick,
  type Random,
  randomFrom,
  SECRET_KEY,
  signUp,
  statusOnly,
  TWO_DAYS,
  withKey,
} from "../helpers.ts";

// A key's row keeps the times of its accepted requests. Here a request meets a row as any pattern of arrival
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

const sql = connect();
const admin = await signUp();
const { id, apiKeyId } = await newOrganization(admin);
const session = await sql.reserve();
afterAll(async () => {
  session.release();
  await sql.end();
});

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

  it("Retry-After is when the oldest leaves the 60 seconds: never too early, at most a second late", () => {
    for (const { times, earliest, latest, reset } of refused) {
      const [most, least] = [resetAt(times, earliest), resetAt(times, latest)];
      assert(least <= reset && reset <= most && reset >= 1, `${least}, ${reset}, ${most}`);
    }
  });

  it("RateLimit is exact on accepted requests: how many are left, when the oldest leaves", () => {
    for (const { kept, remaining, reset } of accepted) {
      const expected = [QUOTA - kept.length, resetAt(kept, kept.at(-1) ?? NaN)];
      assertEquals([remaining, reset], expected);
    }
  });
});

describe("two processes of the function on one database", () => {
  it("accept exactly 60 of 200 parallel requests of one key", async () => {
    const { token } = await newOrganization(admin);
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
