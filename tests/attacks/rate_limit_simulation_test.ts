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

// The limit under arrival times that are made to break one. Nobody waits: before each request, the
// times that the database keeps are aged until it is the moment for the request to come. What is
// checked is when requests came in truth, which is some microseconds after that.

const SECOND = 1_000_000;
const SPAN = 60 * SECOND;
const QUOTA = 60;

/** When requests come, in microseconds from the beginning. */
type Pattern = number[];

/** What became of a request. Times are in microseconds from the beginning. */
interface Decision {
  accepted: boolean;
  /** It came between these two; when it was accepted they are the same. */
  earliest: number;
  latest: number;
}

interface CountedDecision extends Decision {
  remaining: number;
  reset: number;
  /** Of a refused one: when another was accepted that came more than a second before `reset`. */
  accepted_early: number | null;
  /** Of a refused one: whether another was accepted that came after `reset` seconds. */
  accepted_in_time: boolean | null;
}

const sql = connect();
const admin = await signUp();
const session = await sql.reserve();
afterAll(async () => {
  session.release();
  await sql.end();
});

// Each request is a transaction of its own, as it would be.
await session.unsafe(`
  set synchronous_commit = off;

  -- Makes it that many microseconds from the beginning, by ageing a key's times; returns how far
  -- ahead of the clock that is.
  create function pg_temp.travel(key uuid, began timestamptz, ahead bigint, moment bigint)
  returns bigint language plpgsql as $$
  declare
    missing constant bigint := moment - ahead - pg_temp.microseconds(clock_timestamp() - began);
  begin
    if missing <= 0 then
      return ahead;
    end if;
    update private.rate_limits
    set accepted_at = array(select t - missing * interval '1 microsecond' from unnest(accepted_at) as t)
    where api_key_id = key;
    return ahead + missing;
  end
  $$;

  create function pg_temp.microseconds(elapsed interval) returns bigint language sql
  return (extract(epoch from elapsed) * 1000000)::bigint;

  create procedure pg_temp.play(organization uuid, key uuid, pattern bigint[], inout decisions json) language plpgsql as $$
  declare
    began constant timestamptz := clock_timestamp();
    ahead bigint := 0;
    moment bigint;
    earliest bigint;
    latest bigint;
    request record;
    times timestamptz[];
    before_probes bigint;
    probe record;
    accepted_early bigint;
    accepted_in_time boolean;
    played json[] := '{}';
  begin
    update private.rate_limits set accepted_at = '{}' where api_key_id = key;
    foreach moment in array pattern loop
      ahead := pg_temp.travel(key, began, ahead, moment);
      commit;
      earliest := ahead + pg_temp.microseconds(clock_timestamp() - began);
      request := private.count_request(organization, key);
      latest := ahead + pg_temp.microseconds(clock_timestamp() - began);
      commit;
      select accepted_at into times from private.rate_limits where api_key_id = key;
      accepted_early := null;
      accepted_in_time := null;
      if request.accepted then
        earliest := ahead + pg_temp.microseconds(times[cardinality(times)] - began);
        latest := earliest;
      else
        before_probes := ahead;
        -- A thousandth of a second for the request to come in.
        ahead := pg_temp.travel(key, began, ahead, earliest + (request.reset - 1) * 1000000 - 1000);
        probe := private.count_request(organization, key);
        if probe.accepted then
          accepted_early := ahead + pg_temp.microseconds(
            (select accepted_at[cardinality(accepted_at)] from private.rate_limits where api_key_id = key) - began
          );
        end if;
        rollback;
        ahead := pg_temp.travel(key, began, before_probes, latest + request.reset * 1000000);
        probe := private.count_request(organization, key);
        accepted_in_time := probe.accepted;
        rollback;
        ahead := before_probes;
      end if;
      played := played || json_build_object(
        'accepted', request.accepted, 'earliest', earliest, 'latest', latest,
        'remaining', request.remaining, 'reset', request.reset,
        'accepted_early', accepted_early, 'accepted_in_time', accepted_in_time
      );
    end loop;
    decisions := to_json(played);
  end
  $$`);

/** Lets requests come to the real limit. */
async function play(pattern: Pattern): Promise<CountedDecision[]> {
  const [row] = await session`call pg_temp.play(${id}, ${apiKeyId}, ${pattern}, null)`;
  return row?.["decisions"];
}

/** As many requests at one moment. */
function burst(size: number, moment: number): Pattern {
  return Array(size).fill(moment);
}

/** Requests that far apart. */
function steady(count: number, apart: number): Pattern {
  return Array.from({ length: count }, (_, i) => i * apart);
}

/** The distances that a limiter may get wrong by a little. */
const EDGES = [-SECOND, -1000, -100, -10, -1, 0, 1, 10, 100, 1000, SECOND];

function edgePatterns(): Pattern[] {
  return EDGES.flatMap((edge) => [
    [...burst(61, 0), ...burst(61, SPAN + edge)],
    [...burst(60, SPAN - 1000), ...burst(60, SPAN + 1000 + edge), ...burst(2, 2 * SPAN + edge)],
    [...burst(30, 0), ...burst(30, SPAN / 2 + edge), ...burst(60, SPAN + edge)],
    [...burst(59, 0), SPAN - 1 + edge, SPAN + edge, SPAN + 1 + edge, ...burst(61, 2 * SPAN + edge)],
    steady(130, SECOND + edge / 60),
    steady(4, SPAN + edge).flatMap((moment) => burst(31, moment)),
    // A burst just before the end of a minute, and then as much as a weighted window lets through.
    [
      ...burst(60, SPAN - 1000),
      ...steady(60, SECOND).map((moment) => SPAN + SECOND + moment + edge),
    ],
  ]).map((pattern) =>
    pattern.map((moment) => Math.max(0, Math.round(moment))).sort((a, b) => a - b)
  );
}

/** Requests that come by chance: so many a second on average (Poisson). */
function poissonPattern(random: Random): Pattern {
  const mean = SECOND / pick(random, [0.5, 0.9, 1, 1.1, 2, 5, 20]);
  return distances(80 + random(60), () => -Math.log((1 + random(1e9)) / 1e9) * mean);
}

/** Bursts of any size, an awkward distance apart. */
function burstPattern(random: Random): Pattern {
  const moments = distances(2 + random(8), () => {
    const distance = pick(random, [1, 1000, SECOND, SPAN / 3, SPAN / 2, SPAN - SECOND, SPAN, SPAN]);
    return Math.max(0, distance + pick(random, EDGES));
  });
  return moments.flatMap((moment) => burst(1 + random(pick(random, [3, 61])), moment)).slice(
    0,
    160,
  );
}

function distances(count: number, distance: (i: number) => number): Pattern {
  let moment = 0;
  return Array.from({ length: count }, (_, i) => Math.round(moment += distance(i)));
}

function randomPatterns(count: number): Pattern[] {
  const random = randomFrom(60);
  const kinds = [poissonPattern, burstPattern];
  return Array.from({ length: count }, () => pick(random, kinds)(random));
}

/** How many were accepted in the 60 seconds that end with a moment. */
function acceptedUpTo(accepted: number[], moment: number): number {
  let count = 0;
  for (let i = accepted.length - 1; i >= 0 && (accepted[i] ?? 0) > moment - SPAN; i--) {
    if ((accepted[i] ?? 0) <= moment) count++;
  }
  return count;
}

/** The two promises of a limit, as measured: 60 and 0 keep them. */
interface Verdict {
  mostAccepted: number;
  lawfulRefused: number;
}

function judge(plays: Decision[][]): Verdict {
  const verdict = { mostAccepted: 0, lawfulRefused: 0 };
  for (const decisions of plays) {
    const accepted: number[] = [];
    for (const decision of decisions) {
      if (decision.accepted) accepted.push(decision.latest);
      const count = acceptedUpTo(accepted, decision.earliest);
      if (decision.accepted) verdict.mostAccepted = Math.max(verdict.mostAccepted, count);
      else if (count < QUOTA) verdict.lawfulRefused++;
    }
  }
  return verdict;
}

/** What a weighted window decides: it counts by minutes, the one before as far as the last 60 s overlap it. */
function weightedWindow(pattern: Pattern): Decision[] {
  let [minute, count, before] = [0, 0, 0];
  return pattern.map((now) => {
    const passed = Math.floor(now / SPAN) - minute;
    if (passed > 0) [minute, count, before] = [minute + passed, 0, passed === 1 ? count : 0];
    const overlap = 1 - (now % SPAN) / SPAN;
    const accepted = before * overlap + count + 1 <= QUOTA;
    if (accepted) count++;
    return { accepted, earliest: now, latest: now };
  });
}

const patterns = [...edgePatterns(), ...randomPatterns(1000)];
const { id, apiKeyId } = await newOrganization(admin);
const plays: CountedDecision[][] = [];
for (const pattern of patterns) plays.push(await play(pattern));
const refusals = plays.flat().filter(({ accepted }) => !accepted);

describe("rate limit, over many patterns of arrival", () => {
  it("accepts at most 60 requests in any span of 60 seconds", () => {
    assertEquals(judge(plays).mostAccepted, QUOTA);
  });

  it("refuses no request when fewer than 60 were accepted in the 60 seconds before it", () => {
    assert(refusals.length > 1000, "the patterns refuse too little to show it");
    assertEquals(judge(plays).lawfulRefused, 0);
  });

  it("is exact to the microsecond", async () => {
    const edge = async (microseconds: number) => {
      // In the future, where the last time kept is when the next request counts as come.
      await sql`
        update private.rate_limits
        set accepted_at = array[t - interval '60 seconds' + ${microseconds} * interval '1 microsecond']
          || array_fill(t, array[59])
        from (select now() + interval '30 seconds' as t) as future
        where api_key_id = ${apiKeyId}`;
      const [row] = await sql`select accepted from private.count_request(${id}, ${apiKeyId})`;
      return row?.["accepted"];
    };
    assertEquals([await edge(-1), await edge(0), await edge(1)], [true, true, false]);
  });

  it("Retry-After is never too early: a request so many seconds after a refusal is accepted", () => {
    assertEquals(refusals.filter((refusal) => !refusal.accepted_in_time), []);
  });

  it("Retry-After is at most a second late: more than a second before, all are refused", () => {
    const late = refusals.filter(({ earliest, reset, accepted_early }) =>
      accepted_early !== null && accepted_early < earliest + (reset - 1) * SECOND
    );
    assertEquals(late, []);
    assertEquals(refusals.filter(({ reset }) => reset < 1 || reset > 60), []);
  });

  it("RateLimit is exact on accepted requests: how many are left, when the oldest leaves", () => {
    for (const decisions of plays) {
      const accepted = decisions.filter((decision) => decision.accepted);
      const times = accepted.map(({ latest }) => latest);
      for (const [i, { latest, remaining, reset }] of accepted.entries()) {
        const count = acceptedUpTo(times.slice(0, i + 1), latest);
        const oldest = times[i + 1 - count] ?? NaN;
        const expected = [QUOTA - count, Math.ceil((oldest + SPAN - latest) / SECOND)];
        assertEquals([remaining, reset], expected);
      }
    }
  });

  it("the patterns are hard: a weighted window breaks both promises", () => {
    const { mostAccepted, lawfulRefused } = judge(patterns.map(weightedWindow));
    assert(mostAccepted > QUOTA && lawfulRefused > 0, `${mostAccepted}, ${lawfulRefused}`);
  });
});

describe("two processes of the function on one database", () => {
  it("accept exactly 60 of 200 parallel requests of one key", async () => {
    const { token } = await newOrganization(admin);
    const options = {
      apiUrl: API_URL,
      secretKey: SECRET_KEY,
      log: () => {},
    };
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
