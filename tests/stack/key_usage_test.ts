import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  addKeys,
  age,
  codeOf,
  createApiKey,
  exhaust,
  get,
  getPage,
  getProblem,
  insertEntries,
  listApiKeys,
  newOrganization,
  nextOf,
  pageQuery,
  rolledBack,
  type Run,
  runUpkeep,
  send,
  signUp,
  sql,
  statusOf,
  statusOnly,
  TWO_DAYS,
  whileWaiting,
  withKey,
  writeEntries,
} from "../helpers.ts";

// What is counted of requests, and shown: to administrators, and as metrics.

const admin = await signUp();

interface Usage {
  day: string;
  api_key_id: string | null;
  user_email: string | null;
  requests: number;
  invalid_requests: number;
  entries: number;
  first_at: string;
  last_at: string;
  last_address: string | null;
}

async function usageOf(organization_id: string): Promise<Usage[]> {
  const range = { organization_id, start_date: "2020-01-01", end_date: "9999-12-31" };
  const { data } = await admin.client.rpc("api_key_usage", range).throwOnError();
  return data as unknown as Usage[];
}

function counts({ requests, invalid_requests, entries }: Usage): number[] {
  return [requests, invalid_requests, entries];
}

/** As if what a key was used for today had been used so many days ago. */
async function setDay(apiKeyId: string, daysAgo: number): Promise<void> {
  await sql`
    update audit_log_private.rate_limits set day = (now() at time zone 'UTC')::date - ${daysAgo}::int
    where api_key_id = ${apiKeyId}`;
}

/** The answer to a request of a key that looks exhausted until its turn comes. */
async function askExhausted(apiKeyId: string, token: string, query: string): Promise<Response> {
  await exhaust(sql, apiKeyId);
  const request = () => get(token, query);
  return await whileWaiting(sql, apiKeyId, request, (holder) => age(holder, apiKeyId, "1 minute"));
}

describe("list_api_keys()", () => {
  it("says when a key was last accepted and how many requests its last minute used", async () => {
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

  it("says how a key last read entries, and when the feed last had no more for it", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const state = async () => {
      const [key] = await listApiKeys(admin, id);
      return [key?.reads, key?.caught_up_at === key?.last_used_at ? "now" : key?.caught_up_at];
    };
    // Neither is known of a new key.
    assertEquals(await state(), [null, "now"]);
    await getProblem(400, token, `${TWO_DAYS}&after=AAAA`);
    await statusOnly(send(`/seals?${TWO_DAYS}`, withKey(token)));
    assertEquals(await state(), [null, null]);
    await getPage(token);
    assertEquals(await state(), ["pages", null]);
    const first = await getPage(token, `${TWO_DAYS}&after=beginning&limit=1`);
    assertEquals(await state(), ["feed", null]);
    await getPage(token, nextOf(first));
    assertEquals(await state(), ["feed", "now"]);
    const [caughtUp] = await listApiKeys(admin, id);
    await getPage(token);
    assertEquals(await state(), ["pages", caughtUp?.caught_up_at]);
    await statusOnly(askExhausted(apiKeyId, token, `${TWO_DAYS}&after=beginning`));
    assertEquals(await state(), ["feed", "now"]);
  });

  it("reads 10 blocks a key for 400 keys, and api_key_usage() 2 for each day of their use", async () => {
    const { id } = await newOrganization(admin);
    await addKeys(sql, id, 399);
    await sql`
      insert into audit_log_private.log_reads
      select k.organization_id, false, k.id, date '2026-11-01' + n, null, null, 1, 0, 0, now(), now(), null
      from audit_log_private.api_keys k, generate_series(0, 29) as n where k.organization_id = ${id}`;
    const claims = JSON.stringify({ sub: admin.id });
    for (
      const [call, most] of [
        [`list_api_keys('${id}')`, 10 * 400],
        [`api_key_usage('${id}', '2026-11-01', '2026-11-30')`, 2 * 400 * 30],
      ] as const
    ) {
      const [row] = await sql.begin(async (transaction) => {
        await transaction`select set_config('request.jwt.claims', ${claims}, true)`;
        return await transaction.unsafe(
          `explain (analyze, buffers, format json) select audit_log_private.${call}`,
        );
      });
      const { Plan } = row?.["QUERY PLAN"][0];
      const blocks = Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"];
      assert(blocks < most, `${call}: ${blocks} blocks`);
    }
  });
});

describe("api_key_usage()", () => {
  it("counts accepted requests, the invalid ones among them, and entries delivered, by key and day", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id, "other");
    await writeEntries(id, Array(7).fill({}));
    await getPage(token, `${TWO_DAYS}&limit=5`);
    await getPage(token, `${TWO_DAYS}&limit=5&offset=5`);
    await getPage(token, `${TWO_DAYS}&after=beginning`);
    await getProblem(400, token, "start=x");
    await getProblem(400, token, `${TWO_DAYS}&after=AAAA`);
    await getPage(other.token);
    const rows = await usageOf(id);
    const today = new Date().toISOString().slice(0, 10);
    assertEquals(
      rows.map((row) => [row.day, row.api_key_id, ...counts(row)]),
      [[today, other.id, 1, 0, 7], [today, apiKeyId, 5, 2, 14]],
    );
    for (const { first_at, last_at, last_address } of rows) {
      assert(first_at <= last_at);
      assertEquals(last_address, "127.0.0.1");
    }
  });

  it("is exact for many requests of several keys at once, and counts none that is refused", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(3).fill({}));
    const keys = await addKeys(sql, id, 4);
    await Promise.all(keys.map(async ({ token }, n) => {
      await Promise.all([
        ...Array.from({ length: 10 + n }, () => getPage(token, `${TWO_DAYS}&limit=${n + 1}`)),
        ...Array.from({ length: n }, () => getProblem(400, token, `${TWO_DAYS}&limit=0`)),
      ]);
      // The last one asks more often than it may.
      if (n === 3) await Promise.all(Array.from({ length: 60 }, () => statusOf(token, "start=x")));
    }));
    const rows = new Map((await usageOf(id)).map((row) => [row.api_key_id, counts(row)]));
    assertEquals(
      keys.map(({ apiKeyId }) => rows.get(apiKeyId)),
      [[10, 0, 10], [12, 1, 22], [14, 2, 36], [60, 47, 39]],
    );
  });

  it("counts what a key delivers that looked exhausted before its turn", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    for (const [query, status] of [[TWO_DAYS, 200], [`${TWO_DAYS}&after=AAAA`, 400]] as const) {
      assertEquals(await statusOnly(askExhausted(apiKeyId, token, query)), status);
    }
    assertEquals((await usageOf(id)).map(counts), [[2, 1, 2]]);
  });

  it("takes no address from the caller's own headers", async () => {
    const { id, token } = await newOrganization(admin);
    for (const forged of ["203.0.113.7", "1".repeat(10_000), "x\ty"]) {
      const headers = {
        Authorization: `Bearer ${token}`,
        "X-Forwarded-For": forged,
        "CF-Connecting-IP": forged,
      };
      assertEquals(await statusOnly(send(`?${TWO_DAYS}`, { headers })), 200);
    }
    assertEquals((await usageOf(id)).map((row) => row.last_address), ["127.0.0.1"]);
  });

  it("counts what administrators read in the console, by person", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const read = { organization_id: id, query: pageQuery("2026-03-01", "2026-03-02") };
    for (let i = 0; i < 3; i++) await admin.client.rpc("read_audit_log", read).throwOnError();
    assertEquals(
      (await usageOf(id)).map((row) => [row.user_email, row.api_key_id, ...counts(row)]),
      [[admin.email, null, 3, 0, 6]],
    );
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
    // The clock is set back over midnight: the day is there already.
    await setDay(apiKeyId, 1);
    await getPage(token);
    assertEquals((await usageOf(id)).map(counts), [[2, 1, 2], [3, 1, 3], [1, 0, 2]]);
    // In one of the two time zones it is another day.
    for (const zone of ["Pacific/Kiritimati", "Etc/GMT+12"]) {
      await rolledBack(sql, async (transaction) => {
        await transaction`select set_config('timezone', ${zone}, true)`;
        await transaction`select audit_log_private.count_request(${id}, ${apiKeyId})`;
        const [row] = await transaction`
          select day = (clock_timestamp() at time zone 'UTC')::date as "isToday"
          from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
        assertEquals(row?.["isToday"], true, zone);
      });
    }
  });
});

/** The metrics of an organization or a key, by name and by labels but for ids. */
async function metricsOf(id: string): Promise<Record<string, number>> {
  const rows = await sql`
    select concat_ws(' ', name, labels ->> 'status', labels ->> 'day') as name, round(value)::int as value
    from audit_log_private.metrics() where ${id} in (labels ->> 'organization_id', labels ->> 'api_key_id')`;
  return Object.fromEntries(
    rows.map(({ name, value }) => [name.slice("audit_log_".length), value]),
  );
}

/** The metrics of the whole service. */
async function overall(run: Run): Promise<Record<string, number>> {
  const rows = await run`select name, value from audit_log_private.metrics() where labels = '{}'`;
  return Object.fromEntries(
    rows.map(({ name, value }) => [name.slice("audit_log_".length), value]),
  );
}

describe("metrics()", () => {
  it("count a key's requests of today by status, its lag, and the entries of the last seven days", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const [row] = await sql`
      select array(select (clock_timestamp() at time zone 'UTC')::date - d from unnest('{0,6,7}'::int[]) as d)::text[] as days`;
    const days: string[] = row?.["days"];
    for (const day of days) await insertEntries(sql, id, day, 3);
    const requests = { "requests 200": 1, "requests 400": 0, "requests 429": 0 };
    const entries = { [`entries ${days[0]}`]: 3, [`entries ${days[1]}`]: 3 };
    await getPage(token);
    assertEquals(await metricsOf(id), { ...requests, ...entries });
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
      update audit_log_private.rate_limits set day = day - 1, reads = 'pages' where api_key_id = ${apiKeyId}`;
    await sql`update audit_log.organizations set external_id = 'ours ' || id where id = ${id}`;
    assertEquals(await metricsOf(`ours ${id}`), { ...requests, "requests 200": 0, ...entries });
    await sql`update audit_log_private.api_keys set revoked_at = now() where id = ${apiKeyId}`;
    assertEquals(await metricsOf(apiKeyId), {});
  });

  it("say what health() says: the upkeep's age, unsealed, altered and miscounted days, holds", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2026-03-01", 1);
    await runUpkeep(sql);
    await rolledBack(sql, async (run) => {
      const { altered_days = 0, miscounted_days = 0, holds = 0, ...before } = await overall(run);
      assertEquals(before["unsealed_days"], 0);
      await run`update audit_log_private.upkeep_state set last_run_at = null`;
      await run`update audit_log_private.sealed_days set altered_at = now(), miscounted = 1 where organization_id = ${id}`;
      await run`select audit_log_private.hold(${id}, 'Matter 7')`;
      await run`
        insert into audit_log_private.days_to_seal
        values (${id}, (clock_timestamp() at time zone 'UTC')::date - 5)`;
      assertEquals(await overall(run), {
        upkeep_age_seconds: Infinity,
        unsealed_days: 5,
        altered_days: altered_days + 1,
        miscounted_days: miscounted_days + 1,
        holds: holds + 1,
      });
      await insertEntries(run, id, "2026-03-01", 1);
      const { unsealed_days: days = 0 } = await overall(run);
      assert(days > 200, `${days}`);
    });
  });

  it("read no entry, and of the counts only those of the last seven days", async () => {
    const { id } = await newOrganization(admin);
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${id}, timestamptz '2020-01-01Z' + day * interval '1 day', 'agent_added', 'ada@example.com', 'x'
      from generate_series(1, 2000) as day`;
    await runUpkeep(sql);
    await rolledBack(sql, async (run) => {
      const read = async () => {
        const rows = await run`
          select relname, seq_tup_read::int + coalesce(idx_tup_fetch, 0)::int as rows
          from pg_stat_xact_user_tables where relname in ('audit_entries', 'entry_counts')`;
        return Object.fromEntries(rows.map(({ relname, rows }) => [relname, rows]));
      };
      const before = await read();
      await overall(run);
      const after = await read();
      assertEquals(after["audit_entries"], before["audit_entries"]);
      const counts = after["entry_counts"] - before["entry_counts"];
      assert(counts < 1000, `${counts} counts`);
    });
  });

  it("can be read by the role of examples/adopting/monitor.sql, and no entry; the file can be run again", async () => {
    const file = new URL("../../examples/adopting/monitor.sql", import.meta.url);
    const recipe = await Deno.readTextFile(file);
    await rolledBack(sql, async (run) => {
      await run.unsafe(recipe);
      await run.unsafe(recipe);
      // As on the platform, the owner is no superuser, and has to be a member first.
      await run`grant audit_log_monitor to postgres`;
      await run`set local role audit_log_monitor`;
      assertEquals(Object.keys(await overall(run)).length, 5);
      for (
        const statement of [
          "select from audit_log.audit_entries",
          "select from audit_log_private.rate_limits",
          "select audit_log_private.health()",
          "select audit_log.record_entries('[]')",
        ]
      ) {
        await run`savepoint before`;
        assertEquals(await codeOf(run.unsafe(statement)), "42501", statement);
        await run`rollback to before`;
      }
    });
  });
});
