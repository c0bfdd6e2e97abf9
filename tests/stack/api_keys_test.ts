import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { isWellFormed, tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import {
  addKeys,
  addMember,
  codeOf,
  createApiKey,
  get,
  getPage,
  getProblem,
  listApiKeys,
  type NewApiKey,
  newLog,
  newOrganization,
  pidOf,
  revokeApiKey,
  signUp,
  somebodyWaitsFor,
  sql,
  statusOnly,
  whileWaiting,
} from "../helpers.ts";

const DAY = 24 * 60 * 60 * 1000;
const admin = await signUp();

/** A moment so many days from now. */
function inDays(days: number): string {
  return new Date(Date.now() + days * DAY).toISOString();
}

async function create(organization_id: string, expires_at: string): Promise<NewApiKey> {
  const { data } = await tryToCreate(organization_id, { expires_at }).throwOnError();
  return data as unknown as NewApiKey;
}

function tryToCreate(organization_id: string, more: object) {
  return admin.client.rpc("create_api_key", { organization_id, name: "test", ...more });
}

async function rotate(organization_id: string, api_key_id: string, more: object = {}) {
  const { data } = await tryToRotate(organization_id, api_key_id, more).throwOnError();
  return data as unknown as NewApiKey;
}

function tryToRotate(organization_id: string, api_key_id: string, more: object = {}) {
  return admin.client.rpc("rotate_api_key", { organization_id, api_key_id, ...more });
}

/** As if a key had been made, and would expire, so much earlier. */
async function ageKey(id: string, by: string): Promise<void> {
  await sql`
    update audit_log_private.api_keys
    set created_at = created_at - ${by}::interval, expires_at = expires_at - ${by}::interval
    where id = ${id}`;
}

async function stateOf(organizationId: string, id: string) {
  return (await listApiKeys(admin, organizationId)).find((key) => key.id === id);
}

describe("create_api_key()", () => {
  it("answers with a token that works at once, and keeps its SHA-256 alone", async () => {
    const { id } = await newOrganization(admin);
    const key = await createApiKey(admin, id, "SIEM");
    assertEquals(key.name, "SIEM");
    assertMatch(key.token, /^pck_[0-9A-Za-z]{38}$/);
    assertEquals(await isWellFormed(key.token), true);
    assertEquals(key.hint, `${key.token.slice(0, 7)}…${key.token.slice(-4)}`);
    assertEquals((await getPage(key.token)).organization_id, id);
    const [hash] = await sql`
      select encode(token_hash, 'hex') as hash from audit_log_private.api_key_hashes where api_key_id = ${key.id}`;
    assertEquals(hash?.["hash"], await tokenHash(key.token));
  });

  it("fails when it is asked again with the same id, so that one may ask after a lost answer", async () => {
    const { id } = await newOrganization(admin);
    const api_key_id = crypto.randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => tryToCreate(id, { name: "twice", api_key_id })),
    );
    const codes = answers.map(({ error }) => error?.code ?? "made").sort();
    assertEquals(codes, [...Array(4).fill("23505"), "made"]);
    const twice = (await listApiKeys(admin, id)).filter(({ name }) => name === "twice");
    assertEquals(twice.map((key) => key.id), [api_key_id]);
  });

  it("refuses a name that is missing, blank or too long, and a character that cannot be seen in it", async () => {
    const { id } = await newOrganization(admin);
    const began = performance.now();
    for (
      const [name, message] of [
        ["", "1 to 100 characters"],
        [" \t\n", "1 to 100 characters"],
        ["\u00a0\u3000", "1 to 100 characters"],
        ["x".repeat(101), "1 to 100 characters"],
        [null, "1 to 100 characters"],
        // A megabyte: nobody else waits for it.
        ["❤\ufe0f".repeat(200_000), "1 to 100 characters"],
        ["SI\u200bEM", "U+200B"],
        ["SIEM\u200d", "U+200D"],
        ["SI\u00adEM", "U+00AD"],
        ["\u202eMEIS", "U+202E"],
        ["SI\tEM", "U+0009"],
        ["SI\u0085EM", "U+0085"],
        ["\ufeffSIEM", "U+FEFF"],
        ["SI\u3164EM", "U+3164"],
        ["SIEM\u{e0041}", "U+E0041"],
        ["Prod →\ufe0f SIEM", "U+FE0F"],
        ["→\u200d→", "U+200D"],
        // A joiner after a letter that does not join, and one between words.
        ["\u062f\u200c\u062f", "U+200C"],
        ["\u0915\u200d\u0937", "U+200D"],
        ["👩\u200d", "U+200D"],
      ] as const
    ) {
      const { error, status } = await tryToCreate(id, { name });
      assertEquals([error?.code, status], ["22023", 400], message);
      const expected = message.startsWith("U+") ? `cannot be seen, ${message}: remove it` : message;
      assertStringIncludes(error?.message ?? "", expected);
    }
    assert(performance.now() - began < 5_000, `${performance.now() - began} ms`);
    assertEquals((await listApiKeys(admin, id)).length, 1);
  });

  it("keeps of a name what an emoji or a script needs, one space between words, composed letters", async () => {
    const { id } = await newOrganization(admin);
    const joined = ["👩\u200d💻 laptop", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "👩🏽\u200d🚒"];
    const asTheyAre = [...joined, "می\u200cخواهم", "क्\u200dष", "é".repeat(100)];
    for (
      const [given = "", kept] of [
        ...asTheyAre.map((name) => [name, name]),
        [" \u3000\u00a0SIEM \u2003 EU \n", "SIEM EU"],
        ["cafe\u0301", "caf\u00e9"],
      ]
    ) assertEquals((await createApiKey(admin, id, given)).name, kept);
  });

  it("draws every base62 character equally often, and by itself", async () => {
    // 400 tokens, 12,800 characters, 61 degrees of freedom: beyond 140 once in ten million runs.
    const [row] = await sql`
      with tokens as materialized (select audit_log_private.new_token() as token from generate_series(1, 400)),
      counts as (
        select count(*) as n from tokens, regexp_split_to_table(substr(token, 5, 32), '') as c group by c
      )
      select sum((n - 12800 / 62.0) ^ 2 / (12800 / 62.0))::float8 as chi_squared, count(*)::int as characters,
        array(
          select array[i, j] from generate_series(5, 36) as i, generate_series(5, 36) as j
          where i < j and not exists (select from tokens where substr(token, i, 1) <> substr(token, j, 1))
        ) as tied
      from counts`;
    assertEquals([row?.["characters"], row?.["tied"]], [62, []]);
    assert(row?.["chi_squared"] < 140, `chi squared ${row?.["chi_squared"]}`);
    // From the cryptographic source, which has no seed.
    const [a, b] = await sql`
      select setseed(0.5), audit_log_private.new_token() as token union all
      select setseed(0.5), audit_log_private.new_token()`;
    assertNotEquals(a?.["token"], b?.["token"]);
  });
});

describe("expires_at", () => {
  it("is refused when it is past, infinite, or more than five years ahead", async () => {
    const { id } = await newOrganization(admin);
    for (const expires_at of [inDays(0), inDays(-1), inDays(5 * 366), "infinity", "-infinity"]) {
      const { error } = await tryToCreate(id, { expires_at });
      assertEquals(error?.code, "22023", expires_at);
      assertMatch(error?.message ?? "", /^expires_at /);
    }
    assertEquals((await listApiKeys(admin, id)).length, 1);
    await create(id, inDays(5 * 365));
  });

  it("ends a key while its request waits for its turn: the request is refused", async () => {
    const { apiKeyId, token } = await newLog();
    const expire = () =>
      sql`update audit_log_private.api_keys set expires_at = clock_timestamp() where id = ${apiKeyId}`;
    const answer = whileWaiting(sql, apiKeyId, () => get(token), expire);
    assertEquals(await statusOnly(answer), 401);
  });

  it("of five years stands in a dump that can be restored in any time zone", async () => {
    const { id } = await newLog();
    await sql.begin(async (transaction) => {
      // Where that is an hour more than five years: summer time begins before the 30th in one of the two.
      await transaction`set local time zone 'Europe/Berlin'`;
      await transaction`
        insert into audit_log_private.api_keys (organization_id, name, hint, created_at, expires_at)
        values (${id}, 'restored', '…', '2024-03-30T12:00Z', '2029-03-30T12:00Z')`;
    });
  });
});

describe("list_api_keys()", () => {
  it("gives active keys first, then the latest first, and says who made and revoked them", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const second = await createApiKey(admin, id, "second");
    const third = await createApiKey(admin, id, "third");
    await revokeApiKey(admin, third);
    const keys = await listApiKeys(admin, id);
    const [made, revoked] = [[admin.email, null], [admin.email, admin.email]];
    assertEquals(
      keys.map((key) => [key.id, [key.created_by_email, key.revoked_by_email]]),
      [[second.id, made], [apiKeyId, made], [third.id, revoked]],
    );
  });

  it("says whether a key is active, expires within 14 days, has expired or was revoked", async () => {
    const { id } = await newOrganization(admin);
    const key = await create(id, inDays(30));
    const state = async () => (await stateOf(id, key.id))?.state;
    assertEquals(await state(), "active");
    await ageKey(key.id, "17 days");
    assertEquals(await state(), "expiring");
    await ageKey(key.id, "13 days");
    assertEquals(await state(), "expired");
    await revokeApiKey(admin, key);
    assertEquals(await state(), "revoked");
  });

  it("gives all of 1,200 keys: the Data API's limit of rows cuts nothing", async () => {
    const { id } = await newOrganization(admin);
    await addKeys(sql, id, 1199);
    assertEquals((await listApiKeys(admin, id)).length, 1200);
  });
});

describe("revoke_api_key()", () => {
  it("makes every later request with the key 401, and leaves other keys alone", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id);
    await getPage(token);
    const revoked = await revokeApiKey(admin, { organization_id: id, id: apiKeyId });
    assertEquals([revoked.id, revoked.revoked_by_email], [apiKeyId, admin.email]);
    await getProblem(401, token);
    await getPage(other.token);
  });

  it("records the first revocation alone, when it is repeated or called many times at once", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const colleague = await signUp();
    await addMember(id, colleague, "admin");
    const key = { organization_id: id, id: apiKeyId };
    const [first, ...others] = await Promise.all(
      Array.from({ length: 10 }, () => revokeApiKey(admin, key)),
    );
    for (const other of [...others, await revokeApiKey(colleague, key)]) assertEquals(other, first);
  });

  it("does not wait for a request of the key, which is then refused", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const key = { organization_id: id, id: apiKeyId };
    const answer = whileWaiting(sql, apiKeyId, () => get(token), () => revokeApiKey(admin, key));
    assertEquals(await statusOnly(answer), 401);
    await getProblem(401, token);
    assertEquals((await stateOf(id, apiKeyId))?.last_used_at, null);
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

  it("never lets the old key live longer than it would have; overlap 0 ends it at once", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const old = await create(id, inDays(1 / 24));
    await rotate(id, old.id);
    const { expires_at } = await stateOf(id, old.id) ?? {};
    assertEquals(Date.parse(expires_at ?? ""), Date.parse(old.expires_at ?? ""));
    const successor = await rotate(id, apiKeyId, { overlap: "0" });
    await getProblem(401, token);
    assertEquals(successor.expires_at, null);
    await getPage(successor.token);
  });

  it("gives a key one successor at most, also when it is asked several times at once", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const answers = await Promise.all(Array.from({ length: 4 }, () => tryToRotate(id, apiKeyId)));
    const codes = answers.map(({ error }) => error?.code ?? "made").sort();
    assertEquals(codes, [...Array(3).fill("AL001"), "made"]);
    const [successor, ...others] = (await listApiKeys(admin, id))
      .filter((key) => key.id !== apiKeyId);
    assertEquals(others, []);
    // After a lost answer: the successor's own successor, at once.
    await getPage((await rotate(id, successor?.id ?? "", { overlap: "0" })).token);
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

  it("refuses a key that has ended, an id that another key has, and an overlap below 0 or above 90 days", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const [expired, revoked] = [await create(id, inDays(1)), await createApiKey(admin, id)];
    await ageKey(expired.id, "1 day");
    await revokeApiKey(admin, revoked);
    const overlaps = ["-1 second", "-1 month 29 days", "91 days", "100 years"];
    // Before Postgres 17, no interval is infinite.
    const [server] = await sql`select current_setting('server_version_num')::int as version`;
    if (server?.["version"] >= 170_000) overlaps.push("infinity");
    for (
      const [key, more, code, message] of [
        [revoked.id, {}, "AL002", /./],
        [expired.id, {}, "AL002", /./],
        [apiKeyId, { successor_id: apiKeyId }, "23505", /./],
        [apiKeyId, { successor_id: revoked.id }, "23505", /./],
        ...overlaps.map((overlap) => [apiKeyId, { overlap }, "22023", /^overlap /] as const),
      ] as const
    ) {
      const { error } = await tryToRotate(id, key, more);
      assertEquals(error?.code, code, JSON.stringify(more));
      assertMatch(error?.message ?? "", message);
    }
    assertEquals((await stateOf(id, apiKeyId))?.expires_at, null);
    await getPage(token);
    const successor_id = crypto.randomUUID();
    assertEquals((await rotate(id, apiKeyId, { successor_id })).id, successor_id);
  });
});

describe("the database", () => {
  it("refuses what no function would write: blank or long names, hashes of another length", async () => {
    const { id, apiKeyId } = await newLog();
    for (
      const statement of [
        sql`insert into audit_log_private.api_keys (organization_id, name, hint) values (${id}, '', 'x')`,
        sql`update audit_log_private.api_keys set name = repeat('x', 101) where id = ${apiKeyId}`,
        sql`update audit_log_private.api_key_hashes set token_hash = 'x' where api_key_id = ${apiKeyId}`,
        sql`insert into audit_log.organizations (name) values (' ')`,
      ]
    ) assertEquals(await codeOf(statement), "23514");
  });

  it("keeps who made a key when the account is deleted, and deletes the key with its organization", async () => {
    const person = await signUp();
    const { id, apiKeyId } = await newOrganization(person);
    await sql`delete from auth.users where id = ${person.id}`;
    const [orphan] = await sql`
      select created_by, created_by_email from audit_log_private.api_keys where id = ${apiKeyId}`;
    assertEquals({ ...orphan }, { created_by: person.id, created_by_email: person.email });
    await sql`delete from audit_log.organizations where id = ${id}`;
    const [left] = await sql`
      select
        (select count(*) from audit_log.organization_members where organization_id = ${id})
        + (select count(*) from audit_log_private.api_keys where organization_id = ${id})
        + (select count(*) from audit_log_private.api_key_hashes where api_key_id = ${apiKeyId})
        + (select count(*) from audit_log_private.rate_limits where api_key_id = ${apiKeyId}) as rows`;
    assertEquals(left?.["rows"], "0");
  });
});
