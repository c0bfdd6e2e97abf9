import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import {
  AUDIT_LOG_URL,
  connect,
  createApiKey,
  newOrganization,
  pick,
  type Random,
  randomFrom,
  revokeApiKey,
  signUp,
  TWO_DAYS,
  writeEntries,
} from "../helpers.ts";

const ENTRIES = 250;
const KEYS = 20;
const ROUNDS = 8;
/** 60 that are accepted, then some that are not: 10,080 in all. */
const REQUESTS = 63;
const LIMIT = 60;

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

/** A request, and what must come of it when it is accepted: 400, or so many entries. */
interface Request {
  query: string;
  entries: number | "invalid";
}

function randomRequest(random: Random): Request {
  const limit = 1 + random(100);
  const offset = random(ENTRIES + 50);
  return pick<Request>(random, [
    {
      query: `${TWO_DAYS}&limit=${limit}&offset=${offset}`,
      entries: Math.max(0, Math.min(limit, ENTRIES - offset)),
    },
    { query: `${TWO_DAYS}&limit=${limit}&after=beginning`, entries: limit },
    { query: `${TWO_DAYS}&order=desc`, entries: 100 },
    { query: `${TWO_DAYS}&limit=0`, entries: "invalid" },
    { query: `${TWO_DAYS}&after=AAAA`, entries: "invalid" },
  ]);
}

/** What becomes of a request with an exhausted key, and with one that was ended. */
const REFUSED = { exhausted: 429, ended: 401 };

interface Use {
  requests: number;
  invalid_requests: number;
  entries: number;
}

describe("api_key_usage()", () => {
  it("is exact, to the entry, for 10,000 requests of 20 keys, of which many are refused", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(ENTRIES).fill({}));
    const keys = await Promise.all(
      Array.from({ length: KEYS }, async (_, n) => ({
        ...await createApiKey(admin, id, `key ${n}`),
        random: randomFrom(n),
        hasEnded: false,
        use: { requests: 0, invalid_requests: 0, entries: 0 },
      })),
    );
    type Key = typeof keys[number];
    const statuses = new Map<number, number>();

    const send = async ({ token, random, hasEnded, use }: Key, isExhausted: boolean) => {
      const { query, entries } = randomRequest(random);
      const headers = { Authorization: `Bearer ${token}` };
      const response = await fetch(`${AUDIT_LOG_URL}?${query}`, { headers });
      const body = await response.json();
      const accepted = entries === "invalid" ? 400 : 200;
      const status = hasEnded ? REFUSED.ended : isExhausted ? REFUSED.exhausted : accepted;
      assertEquals(response.status, status, `${query}: ${JSON.stringify(body).slice(0, 300)}`);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (hasEnded || isExhausted) return;
      use.requests++;
      if (entries === "invalid") use.invalid_requests++;
      else {
        assertEquals(body.items.length, entries, query);
        use.entries += entries;
      }
    };

    for (let round = 0; round < ROUNDS; round++) {
      await sql`update private.rate_limits set accepted_at = '{}' where organization_id = ${id}`;
      await Promise.all(keys.map(async (key) => {
        for (let i = 0; i < REQUESTS; i++) await send(key, i >= LIMIT);
      }));
      // One is revoked after each round, and one expires.
      for (const [i, key] of keys.slice(2 * round, 2 * round + 2).entries()) {
        if (i === 0) await revokeApiKey(admin, key);
        else await sql`update private.api_keys set expires_at = now() where id = ${key.id}`;
        key.hasEnded = true;
      }
    }

    assertEquals([...statuses.keys()].sort(), [200, 400, 401, 429]);
    assertEquals([...statuses.values()].reduce((a, b) => a + b), KEYS * ROUNDS * REQUESTS);
    const used = await usageByKey(id);
    for (const key of keys) assertEquals(used.get(key.id), key.use, key.name);
    assertEquals(used.size, KEYS);
    assert(keys.every(({ use }) => use.entries > 0));
  });
});

/** What is reported of each key, all days together: the test may run over midnight. */
async function usageByKey(organization_id: string): Promise<Map<string, Use>> {
  const range = { organization_id, start_date: "2020-01-01", end_date: "9999-12-31" };
  const { data } = await admin.client.rpc("api_key_usage", range).throwOnError();
  const used = new Map<string, Use>();
  for (const row of data as unknown as (Use & { api_key_id: string })[]) {
    const sum = used.get(row.api_key_id) ?? { requests: 0, invalid_requests: 0, entries: 0 };
    sum.requests += row.requests;
    sum.invalid_requests += row.invalid_requests;
    sum.entries += row.entries;
    used.set(row.api_key_id, sum);
  }
  return used;
}
