import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  createApiKey,
  exhaust,
  get,
  getPage,
  getProblem,
  listApiKeys,
  type NewApiKey,
  newOrganization,
  pageQuery,
  pidOf,
  revokeApiKey,
  rolledBack,
  runUpkeep,
  send,
  signUp,
  somebodyWaitsFor,
  sql,
  statusOf,
  statusOnly,
  TWO_DAYS,
  whileWaiting,
  withKey,
  writeEntries,
} from "../helpers.ts";

const DAY = 24 * 60 * 60 * 1000;

const admin = await signUp();

/** A moment so many days from now. */
function inDays(days: number): string {
  return new Date(Date.now() + days * DAY).toISOString();
}

async function create(organization_id: string, expires_at: string): Promise<NewApiKey> {
  const { data } = await tryToCreate(organization_id, expires_at).throwOnError();
  return data as unknown as NewApiKey;
}

function tryToCreate(organization_id: string, expires_at: string) {
  return admin.client.rpc("create_api_key", { organization_id, name: "test", expires_at });
}

function tryToRotate(organization_id: string, api_key_id: string, more: object = {}) {
  return admin.client.rpc("rotate_api_key", { organization_id, api_key_id, ...more });
}

async function rotate(organization_id: string, api_key_id: string, more: object = {}) {
  const { data } = await tryToRotate(organization_id, api_key_id, more).throwOnError();
  return data as unknown as NewApiKey;
}

/** As if a key had been made, and would expire, so much earlier. */
async function ageKey(id: string, by: string): Promise<void> {
  await sql`
    update audit_log_private.api_keys
    set created_at = created_at - ${by}::interval, expires_at = expires_at - ${by}::interval
    where id = ${id}`;
}

/** As if what a key was used for today had been used so many days ago. */
async function setDay(apiKeyId: string, daysAgo: number): Promise<void> {
  await sql`
    update audit_log_private.rate_limits set day = (now() at time zone 'UTC')::date - ${daysAgo}::int
    where api_key_id = ${apiKeyId}`;
}

async function stateOf(organizationId: string, id: string) {
  return (await listApiKeys(admin, organizationId)).find((key) => key.id === id);
}

describe("expires_at", () => {
  it("is refused when it is past, infinite, or more than five years ahead, and makes nothing", async () => {
    const { id } = await newOrganization(admin);
    const now = new Date().toISOString();
    for (const time of [now, inDays(-1), inDays(5 * 366), "infinity", "-infinity"]) {
      const { error } = await tryToCreate(id, time);
      assertEquals(error?.code, "22023", time);
      assertMatch(error?.message ?? "", /^expires_at /);
    }
    assertEquals((await listApiKeys(admin, id)).length, 1);
    await create(id, inDays(5 * 365));
  });

  it("holds after a wait: a key that expires while a request waits for its turn is refused", async () => {
    const { id } = await newOrganization(admin);
    const key = await create(id, inDays(30));
    const answer = whileWaiting(
      sql,
      key.id,
      () => get(key.token),
      () =>
        sql`update audit_log_private.api_keys set expires_at = clock_timestamp() where id = ${key.id}`,
    );
    assertEquals(await statusOnly(answer), 401);
  });

  it("of five years stands in a dump that can be restored in any time zone", async () => {
    const { id } = await newOrganization(admin);
    await sql.begin(async (transaction) => {
      // Where that is an hour more than five years: summer time begins before the 30th in one of the two.
      await transaction`set local time zone 'Europe/Berlin'`;
      await transaction`
        insert into audit_log_private.api_keys (organization_id, name, hint, created_at, expires_at)
        values (${id}, 'restored', '…', '2024-03-30T12:00Z', '2029-03-30T12:00Z')`;
    });
  });
});

describe("the state of a key", () => {
  it("is active, expiring within 14 days, expired, or revoked", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    assertEquals((await stateOf(id, apiKeyId))?.state, "active");
    const key = await create(id, inDays(30));
    assertEquals((await stateOf(id, key.id))?.state, "active");
    await ageKey(key.id, "17 days");
    assertEquals((await stateOf(id, key.id))?.state, "expiring");
    await ageKey(key.id, "13 days");
    assertEquals((await stateOf(id, key.id))?.state, "expired");
    await revokeApiKey(admin, key);
    assertEquals((await stateOf(id, key.id))?.state, "revoked");
  });

  it("is found by key: to list 400 keys, 10 blocks each are read, and 2 for each day of their use", async () => {
    const { id } = await newOrganization(admin);
    await sql`
      select count(audit_log_private.insert_api_key(${id}, 'one of many')) from generate_series(1, 399)`;
    await sql`
      insert into audit_log_private.log_reads
      select k.organization_id, false, k.id, date '2026-11-01' + n, null, null, 1, 0, 0, now(), now(), null
      from audit_log_private.api_keys k, generate_series(0, 29) as n where k.organization_id = ${id}`;
    const claims = JSON.stringify({ sub: admin.id });
    const blocks = (call: string) =>
      sql.begin(async (transaction) => {
        await transaction`select set_config('request.jwt.claims', ${claims}, true)`;
        const [row] = await transaction.unsafe(
          `explain (analyze, buffers, format json) select audit_log_private.${call}`,
        );
        const { Plan } = row?.["QUERY PLAN"][0];
        return Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"];
      });
    const listed = await blocks(`list_api_keys('${id}')`);
    assert(listed < 10 * 400, `${listed} blocks`);
    const used = await blocks(`api_key_usage('${id}', '2026-11-01', '2026-11-30')`);
    assert(used < 2 * 400 * 30, `${used} blocks`);
  });
});

describe("rotate_api_key()", () => {
  it("makes a successor of the same name and lifetime; the old key works for the overlap", async () => {
    const { id } = await newOrganization(admin);
    const old = await create(id, inDays(90));
    await ageKey(old.id, "80 days");
    const successor = await rotate(id, old.id, { overlap: "1 hour" });
    assertEquals(successor.name, old.name);
    const lifetime = Date.parse(successor.expires_at ?? "") - Date.now();
    assert(Math.abs(lifetime / DAY - 90) < 0.01, `${lifetime / DAY} days`);
    for (const { token } of [old, successor]) await getPage(token);
    const rotated = await stateOf(id, old.id);
    assertEquals(rotated?.successor_id, successor.id);
    assert(Date.parse(rotated?.expires_at ?? "") <= Date.now() + 3_601_000);
    await ageKey(old.id, "1 hour");
    await getProblem(401, old.token);
    await getPage(successor.token);
  });

  it("gives a key of five years another five, however many leap days they have", async () => {
    const { id } = await newOrganization(admin);
    for (const years of [0, 1, 2, 3, 4]) {
      const key = await create(id, inDays(30));
      await sql`
        update audit_log_private.api_keys
        set created_at = now() - make_interval(years => ${years}),
          expires_at = now() - make_interval(years => ${years}) + interval '5 years'
        where id = ${key.id}`;
      const { expires_at } = await rotate(id, key.id);
      const lifetime = Date.parse(expires_at ?? "") - Date.now();
      assert(lifetime > 1825 * DAY && lifetime < 1827.1 * DAY, `${lifetime / DAY} days`);
    }
  });

  it("takes the successor's id from the caller, but none that another key has, nor the key itself", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id);
    for (const successor_id of [apiKeyId, other.id]) {
      const { error } = await tryToRotate(id, apiKeyId, { successor_id });
      assertEquals(error?.code, "23505");
    }
    assertEquals((await stateOf(id, apiKeyId))?.expires_at, null);
    await getPage(token);
    const successor_id = crypto.randomUUID();
    assertEquals((await rotate(id, apiKeyId, { successor_id })).id, successor_id);
  });

  it("makes nothing when the key is revoked while it waits", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const rotation = await sql.begin(async (transaction) => {
      await transaction`select from audit_log_private.api_keys where id = ${apiKeyId} for update`;
      const answer = tryToRotate(id, apiKeyId).then(({ error }) => error?.code);
      await somebodyWaitsFor(sql, await pidOf(transaction));
      await transaction`update audit_log_private.api_keys set revoked_at = now() where id = ${apiKeyId}`;
      return { answer };
    });
    assertEquals(await rotation.answer, "AL002");
    assertEquals((await listApiKeys(admin, id)).length, 1);
  });

  it("never lets the old key live longer than it would have", async () => {
    const { id } = await newOrganization(admin);
    const old = await create(id, inDays(1 / 24));
    await rotate(id, old.id);
    assertEquals(
      Date.parse((await stateOf(id, old.id))?.expires_at ?? ""),
      Date.parse(old.expires_at ?? ""),
    );
  });

  it("with overlap 0 ends the old key at once; a key that never expires has such a successor", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const successor = await rotate(id, apiKeyId, { overlap: "0" });
    await getProblem(401, token);
    assertEquals(successor.expires_at, null);
    await getPage(successor.token);
  });

  it("gives a key one successor at most, also when asked twice at once", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => tryToRotate(id, apiKeyId)),
    );
    assertEquals(answers.map(({ error }) => error?.code ?? "made").sort(), [
      ...Array(3).fill("AL001"),
      "made",
    ]);
    assertEquals((await listApiKeys(admin, id)).length, 2);
    const [successor] = (await listApiKeys(admin, id)).filter((key) => key.id !== apiKeyId);
    // After a lost answer: the successor's own successor, at once.
    await getPage((await rotate(id, successor?.id ?? "", { overlap: "0" })).token);
  });

  it("is refused for a revoked or expired key", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const expired = await create(id, inDays(1));
    await ageKey(expired.id, "1 day");
    await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    for (const api_key_id of [apiKeyId, expired.id]) {
      const { error } = await tryToRotate(id, api_key_id);
      assertEquals(error?.code, "AL002");
    }
  });

  it("refuses an overlap below 0 or above 90 days, by its name", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const overlaps = ["-1 second", "-1 month 29 days", "91 days", "100 years"];
    // Before Postgres 17, no interval is infinite.
    const [server] = await sql`select current_setting('server_version_num')::int as version`;
    if (server?.["version"] >= 170_000) overlaps.push("infinity");
    for (const overlap of overlaps) {
      const { error } = await tryToRotate(id, apiKeyId, { overlap });
      assertEquals(error?.code, "22023", overlap);
      assertMatch(error?.message ?? "", /^overlap /);
    }
    await getPage(token);
  });
});

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

  it("is exact for many requests of many keys at once, and counts none that is refused", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(3).fill({}));
    const keys = await Promise.all(Array.from({ length: 10 }, () => createApiKey(admin, id)));
    await Promise.all(keys.map(async ({ token }, n) => {
      await Promise.all([
        ...Array.from({ length: 10 + n }, () => getPage(token, `${TWO_DAYS}&limit=${n + 1}`)),
        ...Array.from({ length: n }, () => getProblem(400, token, `${TWO_DAYS}&limit=0`)),
      ]);
      // Some end up with more requests than they may make.
      if (n >= 8) await Promise.all(Array.from({ length: 60 }, () => statusOf(token, "start=x")));
    }));
    const rows = new Map((await usageOf(id)).map((row) => [row.api_key_id, row]));
    const used = keys.map(({ id }) => rows.get(id)).map((row) => row && counts(row));
    const expected = keys.map((_, n) => {
      const pages = 10 + n;
      const requests = n >= 8 ? 60 : pages + n;
      return [requests, requests - pages, pages * Math.min(n + 1, 3)];
    });
    assertEquals(used, expected);
  });

  it("is told beside how the key last read entries, and when the feed last had no more for it", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const stateOf = async () => {
      const [key] = await listApiKeys(admin, id);
      return [key?.reads, key?.caught_up_at === key?.last_used_at ? "now" : key?.caught_up_at];
    };
    // Neither is known of a new key.
    assertEquals(await stateOf(), [null, "now"]);
    await getProblem(400, token, `${TWO_DAYS}&after=AAAA`);
    await send(`/seals?${TWO_DAYS}`, withKey(token)).then((response) => response.body?.cancel());
    assertEquals(await stateOf(), [null, null]);
    await getPage(token);
    assertEquals(await stateOf(), ["pages", null]);
    const { next = "" } = await getPage(token, `${TWO_DAYS}&after=beginning&limit=1`);
    assertEquals(await stateOf(), ["feed", null]);
    await getPage(token, new URL(next).search.slice(1));
    assertEquals(await stateOf(), ["feed", "now"]);
    const [caughtUp] = await listApiKeys(admin, id);
    await getPage(token);
    assertEquals(await stateOf(), ["pages", caughtUp?.caught_up_at]);
    // The same of one that looked exhausted before its turn.
    await exhaust(sql, apiKeyId);
    await whileWaiting(
      sql,
      apiKeyId,
      () => get(token, `${TWO_DAYS}&after=beginning`),
      (holder) => age(holder, apiKeyId, "1 minute"),
    ).then((response) => response.body?.cancel());
    assertEquals(await stateOf(), ["feed", "now"]);
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
    const rows = await usageOf(id);
    assertEquals(
      rows.map((row) => [row.user_email, row.api_key_id, ...counts(row)]),
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

    // A clock set back over midnight: the day is there already.
    await setDay(apiKeyId, 1);
    await getPage(token);
    assertEquals((await usageOf(id)).map(counts), [[2, 1, 2], [3, 1, 3], [1, 0, 2]]);
  });

  it("is of the UTC day in a session of any time zone", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    // In one of the two it is another day.
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

  it("counts what a key delivers that looked exhausted before its turn", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const statuses: number[] = [];
    for (const query of [TWO_DAYS, `${TWO_DAYS}&after=AAAA`]) {
      await exhaust(sql, apiKeyId);
      const answer = whileWaiting(
        sql,
        apiKeyId,
        () => get(token, query),
        (holder) => age(holder, apiKeyId, "1 minute"),
      );
      statuses.push(await statusOnly(answer));
    }
    assertEquals(statuses, [200, 400]);
    assertEquals((await usageOf(id)).map(counts), [[2, 1, 2]]);
  });
});
