import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import {
  client,
  connect,
  createApiKey,
  get,
  getPage,
  getProblem,
  listApiKeys,
  type NewApiKey,
  newOrganization,
  revokeApiKey,
  signUp,
  TWO_DAYS,
  writeEntries,
} from "./helpers.ts";

const DAY = 24 * 60 * 60 * 1000;

const sql = connect();
const admin = await signUp();
const stranger = await signUp();
afterAll(() => sql.end());

/** A moment so many days from now. */
function inDays(days: number): string {
  return new Date(Date.now() + days * DAY).toISOString();
}

async function create(organization_id: string, expires_at: string): Promise<NewApiKey> {
  const { data } = await admin.client
    .rpc("create_api_key", { organization_id, name: "test", expires_at }).throwOnError();
  return data as unknown as NewApiKey;
}

async function rotate(organization_id: string, api_key_id: string, more: object = {}) {
  const { data } = await admin.client
    .rpc("rotate_api_key", { organization_id, api_key_id, ...more }).throwOnError();
  return data as unknown as NewApiKey;
}

/** As if a key had been made, and would expire, so much earlier. */
async function ageKey(id: string, by: string): Promise<void> {
  await sql`
    update private.api_keys
    set created_at = created_at - ${by}::interval, expires_at = expires_at - ${by}::interval
    where id = ${id}`;
}

async function stateOf(organizationId: string, id: string) {
  return (await listApiKeys(admin, organizationId)).find((key) => key.id === id);
}

describe("expires_at", () => {
  it("ends a key: from then on every request is the 401 of any other key", async () => {
    const { id } = await newOrganization(admin);
    const key = await create(id, inDays(30));
    await getPage(key.token);
    await ageKey(key.id, "30 days");
    const answers = [];
    for (const token of [key.token, "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk"]) {
      const response = await get(token);
      const { request_id: _, ...body } = await response.json();
      const { "x-request-id": __, date: ___, ...headers } = Object.fromEntries(response.headers);
      answers.push({ status: response.status, body, headers });
    }
    assertEquals(answers[0]?.status, 401);
    assertEquals(answers[0], answers[1]);
  });

  it("is refused when it is past, infinite, or more than five years ahead, and makes nothing", async () => {
    const { id } = await newOrganization(admin);
    for (
      const expires_at of [
        inDays(-1),
        new Date().toISOString(),
        "infinity",
        "-infinity",
        inDays(5 * 366),
        "10000-01-01T00:00:00Z",
        "294276-12-31T00:00:00Z",
      ]
    ) {
      const { error } = await admin.client
        .rpc("create_api_key", { organization_id: id, name: "x", expires_at });
      assertEquals(error?.code, "22023", expires_at);
      assertMatch(error?.message ?? "", /^expires_at /);
    }
    assertEquals((await listApiKeys(admin, id)).length, 1);
    await create(id, inDays(5 * 365));
  });

  it("holds after a wait: a key that expires while a request waits for its turn is refused", async () => {
    const { id } = await newOrganization(admin);
    const key = await create(id, inDays(30));
    let waiting: Promise<Response> | undefined;
    await sql.begin(async (transaction) => {
      await transaction`select from private.rate_limits where api_key_id = ${key.id} for update`;
      waiting = get(key.token);
      for (let waiters = 0; waiters === 0;) {
        const [row] = await sql`
          select count(*)::int as n from pg_stat_activity
          where wait_event_type = 'Lock' and query like '%public_audit_log%'`;
        waiters = row?.["n"];
      }
      await ageKey(key.id, "30 days");
    });
    const response = await waiting;
    await response?.body?.cancel();
    assertEquals(response?.status, 401);
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

  it("of 400 keys is listed within 50 ms of SQL", async () => {
    const { id } = await newOrganization(admin);
    await sql`
      select count(private.insert_api_key(${id}, 'one of many')) from generate_series(1, 399)`;
    const plan = await sql.begin(async (transaction) => {
      await transaction`
        select set_config('request.jwt.claims', ${JSON.stringify({ sub: admin.id })}, true)`;
      return await transaction`explain (analyze, format json) select private.list_api_keys(${id})`;
    });
    const milliseconds = plan[0]?.["QUERY PLAN"][0]["Execution Time"];
    assert(milliseconds < 50, `${milliseconds} ms`);
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

  it("never lets the old key live longer than it would have", async () => {
    const { id } = await newOrganization(admin);
    const old = await create(id, inDays(1 / 24));
    await rotate(id, old.id);
    assert(Date.parse((await stateOf(id, old.id))?.expires_at ?? "") <= Date.now() + DAY / 24);
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
      Array.from(
        { length: 4 },
        () => admin.client.rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId }),
      ),
    );
    assertEquals(answers.map(({ error }) => error?.code ?? "made").sort(), [
      ...Array(3).fill("23505"),
      "made",
    ]);
    assertEquals((await listApiKeys(admin, id)).length, 2);
    const [successor] = (await listApiKeys(admin, id)).filter((key) => key.id !== apiKeyId);
    // After a lost answer: the successor's own successor, at once.
    await getPage((await rotate(id, successor?.id ?? "", { overlap: "0" })).token);
  });

  it("takes the successor's id from the caller, so that a lost answer can be asked for again", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const successor_id = crypto.randomUUID();
    assertEquals((await rotate(id, apiKeyId, { successor_id })).id, successor_id);
    const { error } = await admin.client
      .rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId, successor_id });
    assertEquals(error?.code, "23505");
  });

  it("is refused for a revoked or expired key, and for another's in the words of none", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const expired = await create(id, inDays(1));
    await ageKey(expired.id, "1 day");
    await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    for (const api_key_id of [apiKeyId, expired.id]) {
      const { error } = await admin.client.rpc("rotate_api_key", {
        organization_id: id,
        api_key_id,
      });
      assertEquals(error?.code, "22023");
    }
    const mine = await newOrganization(stranger);
    for (
      const call of [
        { organization_id: id, api_key_id: apiKeyId },
        { organization_id: mine.id, api_key_id: apiKeyId },
        { organization_id: mine.id, api_key_id: crypto.randomUUID() },
      ]
    ) {
      const { error } = await stranger.client.rpc("rotate_api_key", call);
      assertEquals(error?.code, "42501");
    }
  });

  it("refuses an overlap below 0 or above 90 days, by its name", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    for (const overlap of ["-1 second", "91 days", "100 years"]) {
      const { error } = await admin.client
        .rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId, overlap });
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
      rows.map(({ day, api_key_id, requests, invalid_requests, entries }) => [
        day,
        api_key_id,
        requests,
        invalid_requests,
        entries,
      ]),
      [[today, other.id, 1, 0, 7], [today, apiKeyId, 5, 2, 14]],
    );
    for (const { first_at, last_at, last_address } of rows) {
      assert(first_at <= last_at);
      assertEquals(last_address, "127.0.0.1");
    }
  });

  it("counts no refused request", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    for (let i = 0; i < 60; i++) await (await get(token)).body?.cancel();
    await getProblem(429, token);
    await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    await getProblem(401, token);
    assertEquals((await usageOf(id)).map(({ requests }) => requests), [60]);
  });

  it("is exact for many requests of many keys at once", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(3).fill({}));
    const keys = await Promise.all(Array.from({ length: 5 }, () => createApiKey(admin, id)));
    await Promise.all(
      keys.flatMap(({ token }, n) =>
        Array.from({ length: 10 + n }, () => getPage(token, `${TWO_DAYS}&limit=${n + 1}`))
      ),
    );
    const rows = new Map((await usageOf(id)).map((row) => [row.api_key_id, row]));
    assertEquals(
      keys.map((key) => [rows.get(key.id)?.requests, rows.get(key.id)?.entries]),
      keys.map((_, n) => [10 + n, (10 + n) * Math.min(n + 1, 3)]),
    );
  });

  it("takes no address from the caller's own headers", async () => {
    const { id, token } = await newOrganization(admin);
    for (const forged of ["203.0.113.7", "1".repeat(10_000), "x\ty"]) {
      const headers = {
        Authorization: `Bearer ${token}`,
        "X-Forwarded-For": forged,
        "CF-Connecting-IP": forged,
      };
      const url = `${Deno.env.get("SUPABASE_URL")}/functions/v1/public-audit-log?${TWO_DAYS}`;
      const response = await fetch(url, { headers });
      await response.body?.cancel();
      assertEquals(response.status, 200);
    }
    assertEquals((await usageOf(id)).map((row) => row.last_address), ["127.0.0.1"]);
  });

  it("counts what administrators read in the console, by person", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const range = { organization_id: id, start_date: "2026-03-01", end_date: "2026-03-02" };
    for (let i = 0; i < 3; i++) await admin.client.rpc("read_audit_log", range).throwOnError();
    assertEquals(
      (await usageOf(id)).map(({ user_email, api_key_id, requests, entries }) => [
        user_email,
        api_key_id,
        requests,
        entries,
      ]),
      [[admin.email, null, 3, 6]],
    );
  });

  it("is kept for 400 days, then deleted by the upkeep in pieces", async () => {
    const { id, token } = await newOrganization(admin);
    await getPage(token);
    await sql`
      insert into private.log_reads
      select r.organization_id, r.reader_id, r.day - n, null, 1, 0, 0, r.first_at, r.last_at, null
      from private.log_reads r, generate_series(399, 1702) as n where r.organization_id = ${id}`;
    const [first] = await sql`select private.run_upkeep() as more`;
    assertEquals(first?.["more"], true);
    while ((await sql`select private.run_upkeep() as more`)[0]?.["more"]);
    assertEquals((await usageOf(id)).length, 3);
  });

  it("is refused to strangers", async () => {
    const { id } = await newOrganization(admin);
    for (const caller of [stranger.client, client("anon")]) {
      const range = { organization_id: id, start_date: "2026-01-01", end_date: "2026-12-31" };
      assertEquals((await caller.rpc("api_key_usage", range)).error?.code, "42501");
    }
  });
});
