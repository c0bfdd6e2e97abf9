// Needs a stack.

import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { age, call, createApiKey, exhaust, get, getPage, getProblem } from "../helpers/mod.ts";
import { getSeals, goOn, listApiKeys, newOrganization, revoke } from "../helpers/mod.ts";
import { rolledBack, runUpkeep, send, signUp, sql, statusOf, statusOnly } from "../helpers/mod.ts";
import { TWO_DAYS, valueOf, whileWaiting, withKey, writeEntries } from "../helpers/mod.ts";

// The service counts requests, and shows the counts to administrators and as metrics.

const admin = await signUp();

type Usage =
  & Record<"requests" | "invalid_requests" | "entries", number>
  & Record<"day" | "api_key_id" | "first_at" | "last_at" | "last_address", string>;

async function usageOf(organization_id: string): Promise<Usage[]> {
  const range = { organization_id, start_date: "2020-01-01", end_date: "9999-12-31" };
  return await call(admin, "api_key_usage", range);
}

function counts({ requests, invalid_requests, entries }: Usage): number[] {
  return [requests, invalid_requests, entries];
}

/** Moves what was counted of a key today into the past by so many days. */
async function setDay(apiKeyId: string, daysAgo: number): Promise<void> {
  await sql`
    update audit_log_private.rate_limits set day = (now() at time zone 'UTC')::date - ${daysAgo}::int
    where api_key_id = ${apiKeyId}`;
}

/** Sends a request of a key that seems exhausted until its turn comes. */
async function askExhausted(apiKeyId: string, token: string, query: string): Promise<Response> {
  await exhaust(sql, apiKeyId);
  const request = () => get(token, query);
  return await whileWaiting(sql, apiKeyId, request, (holder) => age(holder, apiKeyId, "1 minute"));
}

describe("list_api_keys()", () => {
  it("says when a request of a key was last counted, and how many requests it had in the last minute", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const used = async () => {
      const [key] = await listApiKeys(admin, id);
      return [key?.last_used_at, key?.requests_last_minute] as const;
    };
    assertEquals(await used(), [null, 0]);
    for (const by of ["61 seconds", "58 seconds", "0"]) {
      await getPage(token);
      await age(sql, apiKeyId, by);
    }
    const [last, requests] = await used();
    assertEquals(requests, 2);
    assert(Math.abs(Date.now() - Date.parse(last ?? "")) < 5_000, `${last}`);
    await age(sql, apiKeyId, "60 seconds");
    assertEquals((await used())[1], 0);
  });

  it("says whether a key last read pages or the feed, and when it was last caught up, also after a full page", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const state = async () => {
      const [key] = await listApiKeys(admin, id);
      return [key?.read_mode, key?.caught_up_at === key?.last_used_at ? "now" : key?.caught_up_at];
    };
    assertEquals(await state(), [null, "now"]);
    await getProblem(400, token, `${TWO_DAYS}&after=AAAA`);
    await getSeals(token);
    assertEquals(await state(), [null, null]);
    await getPage(token);
    assertEquals(await state(), ["pages", null]);
    const query = `${TWO_DAYS}&after=beginning&limit=1`;
    const first = await getPage(token, query);
    assertEquals(await state(), ["feed", null]);
    await getPage(token, goOn(query, first));
    assertEquals(await state(), ["feed", "now"]);
    const [caughtUp] = await listApiKeys(admin, id);
    await getPage(token);
    assertEquals(await state(), ["pages", caughtUp?.caught_up_at]);
    await statusOnly(askExhausted(apiKeyId, token, `${TWO_DAYS}&after=beginning`));
    assertEquals(await state(), ["feed", "now"]);
  });
});

describe("api_key_usage()", () => {
  it("has the counted requests, the invalid ones among them and the delivered entries, by key and day, and the caller's address, whatever the caller's own headers say", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id, "other");
    await writeEntries(id, Array(7).fill({}));
    await getPage(token, `${TWO_DAYS}&limit=5`);
    await getPage(token, `${TWO_DAYS}&limit=5&offset=5`);
    await getPage(token, `${TWO_DAYS}&after=beginning`);
    await getProblem(400, token, "start=x");
    await getProblem(400, token, `${TWO_DAYS}&after=AAAA`);
    for (const [query, status] of [[TWO_DAYS, 200], [`${TWO_DAYS}&after=AAAA`, 400]] as const) {
      assertEquals(await statusOnly(askExhausted(apiKeyId, token, query)), status);
    }
    for (const forged of ["203.0.113.7", "1".repeat(10_000), "x\ty"]) {
      const headers = { "X-Forwarded-For": forged, "CF-Connecting-IP": forged };
      assertEquals(await statusOnly(send(`?${TWO_DAYS}`, withKey(other.token, headers))), 200);
    }
    const rows = await usageOf(id);
    const today = new Date().toISOString().slice(0, 10);
    const expected = [[today, other.id, 3, 0, 21], [today, apiKeyId, 7, 3, 21]];
    assertEquals(rows.map((row) => [row.day, row.api_key_id, ...counts(row)]), expected);
    for (const { first_at, last_at } of rows) assert(first_at <= last_at);
    assertEquals(rows.map((row) => row.last_address), ["127.0.0.1", "127.0.0.1"]);
  });

  it("is kept for 400 days, then deleted by the upkeep", async () => {
    const { id, token } = await newOrganization(admin);
    const unused = await createApiKey(admin, id);
    for (const each of [token, unused.token]) await getPage(each);
    await sql`
      insert into audit_log_private.log_reads
      select u.organization_id, false, u.api_key_id, u.day - n, null, null, 1, 0, 0, u.first_at, u.last_at, null
      from audit_log_private.rate_limits u, generate_series(399, 1702) as n
      where u.organization_id = ${id} and u.api_key_id <> ${unused.id}`;
    await setDay(unused.id, 401);
    await runUpkeep(sql);
    assertEquals((await usageOf(id)).map(({ requests }) => requests), [1, 1, 1]);
    await getPage(unused.token);
    assertEquals((await usageOf(id)).length, 4);
  });

  it("begins a new row with a new UTC day, and keeps the one before", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    for (const days of [2, 1]) {
      await getPage(token);
      await getProblem(400, token, "start=x");
      await setDay(apiKeyId, days);
    }
    await getPage(token, `${TWO_DAYS}&limit=1`);
    const rows = await usageOf(id);
    assertEquals(rows.map(counts), [[2, 1, 2], [2, 1, 2], [1, 0, 1]]);
    assertEquals(new Set(rows.map(({ day }) => day)).size, 3);
    // The clock is set back over midnight, to a day that has a row already.
    await setDay(apiKeyId, 1);
    await getPage(token);
    assertEquals((await usageOf(id)).map(counts), [[2, 1, 2], [3, 1, 3], [1, 0, 2]]);
    // In one of these two time zones it is another day.
    for (const zone of ["Pacific/Kiritimati", "Etc/GMT+12"]) {
      const isToday = await rolledBack(sql, async (run) => {
        await run`select set_config('timezone', ${zone}, true)`;
        await run`select audit_log_private.count_request(${id}, ${apiKeyId})`;
        return await valueOf(run`
          select day = (clock_timestamp() at time zone 'UTC')::date
          from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`);
      });
      assertEquals(isToday, true, zone);
    }
  });
});

/** Reads the metrics of an organization or a key, by their names and labels but for ids. */
async function metricsOf(id: string): Promise<Record<string, number>> {
  const rows = await sql`
    select concat_ws(' ', substr(name, 11), labels ->> 'status'), round(value)::int
    from audit_log_private.metrics() where ${id} in (labels ->> 'organization_id', labels ->> 'api_key_id')`;
  return Object.fromEntries(rows.map((row) => Object.values(row)));
}

it("metrics() counts a key's requests of today by status, and its lag", async () => {
  const { id, apiKeyId, token } = await newOrganization(admin);
  const requests = { "requests 200": 1, "requests 400": 0, "requests 429": 0 };
  await getPage(token);
  assertEquals(await metricsOf(id), requests);
  await getPage(token, `${TWO_DAYS}&after=beginning`);
  await statusOf(token, "start=x");
  await exhaust(sql, apiKeyId);
  await statusOf(token);
  await statusOf(token, "start=x");
  await sql`
    update audit_log_private.rate_limits set caught_up_at = clock_timestamp() - interval '1 day'
    where api_key_id = ${apiKeyId}`;
  const { follower_lag_seconds: lag = 0, ...rest } = await metricsOf(apiKeyId);
  assertEquals(rest, { "requests 200": 2, "requests 400": 1, "requests 429": 2 });
  assert(lag >= 86_400 && lag < 86_460, `${lag}`);
  await sql`
    update audit_log_private.rate_limits set day = day - 1, read_mode = 'pages' where api_key_id = ${apiKeyId}`;
  assertEquals(await metricsOf(id), { ...requests, "requests 200": 0 });
  await revoke(sql, apiKeyId);
  assertEquals(await metricsOf(apiKeyId), {});
});
