// Needs a stack.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";
import { isWellFormed } from "../../supabase/functions/public-audit-log/token.ts";
import { addKeys, addMember, addOrganization, call, callAs, client } from "../helpers/mod.ts";
import { codeOf, createApiKey, get, getPage, getProblem, listApiKeys } from "../helpers/mod.ts";
import { type NewApiKey, newOrganization, pidOf, revokeApiKey } from "../helpers/mod.ts";
import { rolledBack, serverFor, signUp, somebodyWaitsFor, sql } from "../helpers/mod.ts";
import { statusOnly, valueOf, whileWaiting } from "../helpers/mod.ts";

const DAY = 24 * 60 * 60 * 1000;
const admin = await signUp();
const platform = client("service_role");

function inDays(days: number): string {
  return new Date(Date.now() + days * DAY).toISOString();
}

function daysUntil(time: string | null = null): number {
  return (Date.parse(time ?? "") - Date.now()) / DAY;
}

async function create(organization_id: string, expires_at: string): Promise<NewApiKey> {
  return await call(admin, "create_api_key", { organization_id, name: "test", expires_at });
}

function tryToCreate(organization_id: string, more: object) {
  return admin.client.rpc("create_api_key", { organization_id, name: "test", ...more });
}

async function rotate(organization_id: string, api_key_id: string, more = {}, by = admin) {
  return await call<NewApiKey>(by, "rotate_api_key", { organization_id, api_key_id, ...more });
}

function tryToRotate(organization_id: string, api_key_id: string, more: object = {}) {
  return admin.client.rpc("rotate_api_key", { organization_id, api_key_id, ...more });
}

/** Waits for calls. Returns the codes of their errors, and "made" for each that had none. */
async function codesOf(calls: PromiseLike<{ error: { code: string } | null }>[]) {
  return (await Promise.all(calls)).map(({ error }) => error?.code ?? "made").sort();
}

/** Makes a key so much older, and its end so much earlier. */
async function ageKey(id: string, by: string): Promise<void> {
  await sql`
    update audit_log_private.api_keys
    set created_at = created_at - ${by}::interval, expires_at = expires_at - ${by}::interval
    where id = ${id}`;
}

async function stateOf(organizationId: string, id: string, by = admin) {
  return (await listApiKeys(by, organizationId)).find((key) => key.id === id);
}

describe("create_api_key()", () => {
  it("answers with a token that works at once, keeps only its SHA-256, and makes no second key if it is called again with the same id", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const key = await createApiKey(admin, id, "SIEM");
    assertEquals(key.name, "SIEM");
    assertEquals(await isWellFormed(key.token), true);
    assertEquals(key.hint, `${key.token.slice(0, 7)}…${key.token.slice(-4)}`);
    assertEquals((await getPage(key.token)).organization_id, id);
    const kept = sql`
      select encode(token_hash, 'hex') from audit_log_private.api_key_hashes where api_key_id = ${key.id}`;
    assertEquals(await valueOf(kept), await sha256(key.token));
    const api_key_id = crypto.randomUUID();
    const calls = Array.from({ length: 5 }, () => tryToCreate(id, { api_key_id }));
    assertEquals(await codesOf(calls), [...Array(4).fill("23505"), "made"]);
    const ids = (await listApiKeys(admin, id)).map((key) => key.id);
    assertEquals(ids, [api_key_id, key.id, apiKeyId]);
  });

  it("refuses a name that is missing, blank, too long or has a character that cannot be seen, and an end that is past, infinite or more than five years ahead", async () => {
    const { id } = await newOrganization(admin);
    const blank = ["", " \t\n", "\u00a0\u3000", null, "x".repeat(101)];
    const unseen = [..."\t\u0085\u00ad\u200b\u202e\u{e0041}\ufeff"].map((each) => `SI${each}EM`);
    const ends = [inDays(0), inDays(-1), inDays(5 * 366), "infinity", "-infinity"];
    const refusals = [
      ...blank.map((name) => [{ name }, /^22023 .*1 to 100 characters/] as const),
      ...unseen.map((name) => [{ name }, /^22023 .*cannot be seen/] as const),
      ...ends.map((expires_at) => [{ expires_at }, /^22023 .*expires_at must be/] as const),
    ];
    for (const [given, why] of refusals) {
      const { error } = await tryToCreate(id, given);
      assertMatch(`${error?.code} ${error?.message}`, why, JSON.stringify(given));
    }
    assertEquals((await listApiKeys(admin, id)).length, 1);
    await create(id, inDays(5 * 365));
  });

  it("draws each character of a token independently, and each of the 62 equally often", async () => {
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
    // The cryptographic source has no seed.
    const [a, b] = await sql`
      select setseed(0.5), audit_log_private.new_token() as token union all
      select setseed(0.5), audit_log_private.new_token()`;
    assert(a?.["token"] !== b?.["token"]);
  });
});

describe("list_api_keys()", () => {
  it("gives active keys first, and says who made and revoked each, also when the account is deleted", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const colleague = await signUp();
    await addMember(id, colleague, "admin");
    const second = await createApiKey(admin, id, "second");
    const third = await createApiKey(colleague, id, "third");
    await revokeApiKey(colleague, third);
    await revokeApiKey(admin, third);
    await sql`delete from auth.users where id = ${colleague.id}`;
    const listed = await listApiKeys(admin, id);
    assertEquals(listed.map((key) => [key.id, key.created_by_email, key.revoked_by_email]), [
      [second.id, admin.email, null],
      [apiKeyId, admin.email, null],
      [third.id, colleague.email, colleague.email],
    ]);
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
});

it("revoke_api_key() does not wait for a request of the key, which is then refused; other keys still work. It records only the first revocation, also when it is called many times at once", async () => {
  const { id, apiKeyId, token } = await newOrganization(admin);
  const other = await createApiKey(admin, id);
  const key = { organization_id: id, id: apiKeyId };
  const answer = whileWaiting(sql, apiKeyId, () => get(token), () => revokeApiKey(admin, key));
  assertEquals(await statusOnly(answer), 401);
  await getProblem(401, token);
  const { last_used_at, revoked_by_email } = await stateOf(id, apiKeyId) ?? {};
  assertEquals([last_used_at, revoked_by_email], [null, admin.email]);
  await getPage(other.token);
  const revoke = () => revokeApiKey(admin, other);
  const [first, ...others] = await Promise.all(Array.from({ length: 10 }, revoke));
  for (const again of [...others, await revoke()]) assertEquals(again, first);
});

describe("rotate_api_key()", () => {
  it("makes a successor with the same name and lifetime; the old key works for the overlap", async () => {
    const { id } = await newOrganization(admin);
    const old = await create(id, inDays(90));
    await ageKey(old.id, "80 days");
    const successor = await rotate(id, old.id, { overlap: "1 hour" });
    assertEquals(successor.name, old.name);
    assert(Math.abs(daysUntil(successor.expires_at) - 90) < 0.01, `${successor.expires_at}`);
    for (const { token } of [old, successor]) await getPage(token);
    const rotated = await stateOf(id, old.id);
    assertEquals(rotated?.successor_id, successor.id);
    assert(daysUntil(rotated?.expires_at) <= 3601 / 86_400);
    await ageKey(old.id, "1 hour");
    await getProblem(401, old.token);
    await getPage(successor.token);
  });

  it("never prolongs the old key, of any age, which an overlap of 0 ends at once", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    await ageKey(apiKeyId, "6 years");
    const old = await create(id, inDays(1 / 24));
    await rotate(id, old.id);
    const { expires_at } = await stateOf(id, old.id) ?? {};
    assertEquals(Date.parse(expires_at ?? ""), Date.parse(old.expires_at ?? ""));
    const successor = await rotate(id, apiKeyId, { overlap: "0" });
    await getProblem(401, token);
    assertEquals(successor.expires_at, null);
    await getPage(successor.token);
  });

  it("gives a key at most one successor, also when it is called several times at once", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const calls = Array.from({ length: 4 }, () => tryToRotate(id, apiKeyId));
    assertEquals(await codesOf(calls), [...Array(3).fill("AL001"), "made"]);
    const [successor, ...others] = await listApiKeys(admin, id);
    assertEquals(others.map((key) => key.id), [apiKeyId]);
    // After a lost answer, the successor is rotated at once.
    await getPage((await rotate(id, successor?.id ?? "", { overlap: "0" })).token);
  });

  it("refuses a key that has ended, an id that another key has, and an overlap below 0 or above 90 days", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const [expired, revoked] = [await create(id, inDays(1)), await createApiKey(admin, id)];
    await ageKey(expired.id, "1 day");
    await revokeApiKey(admin, revoked);
    const overlaps = ["-1 second", "-1 month 29 days", "91 days", "100 years"];
    // Before Postgres 17, no interval is infinite.
    if (Number(await valueOf(sql`show server_version_num`)) >= 170_000) overlaps.push("infinity");
    const refusals: [key: string, more: object, error: RegExp][] = [
      ...overlaps.map((overlap): typeof refusals[0] => [apiKeyId, { overlap }, /^22023 overlap /]),
      [revoked.id, {}, /^AL002/],
      [expired.id, {}, /^AL002/],
      [apiKeyId, { successor_id: apiKeyId }, /^23505/],
      [apiKeyId, { successor_id: revoked.id }, /^23505/],
    ];
    for (const [key, more, expected] of refusals) {
      const { error } = await tryToRotate(id, key, more);
      assertMatch(`${error?.code} ${error?.message}`, expected);
    }
    assertEquals((await stateOf(id, apiKeyId))?.expires_at, null);
    await getPage(token);
    const successor_id = crypto.randomUUID();
    assertEquals((await rotate(id, apiKeyId, { successor_id })).id, successor_id);
  });
});

it("whoever creates a key while another is being created waits for it, and counts it", async () => {
  const { id } = await newOrganization(admin);
  await addKeys(sql, id, 98);
  let refused: Promise<string> | undefined;
  await sql.begin(async (holder) => {
    await addKeys(holder, id, 1);
    await holder`select audit_log_private.check_live_keys(${id})`;
    refused = codeOf(callAs(sql, admin.id, `create_api_key('${id}', 'test')`));
    await somebodyWaitsFor(sql, await pidOf(holder));
  });
  assertEquals(await refused, "AL007");
});

it("an organization has at most 100 live keys, also when several are created or rotated at once", async () => {
  const { id, apiKeyId } = await newOrganization(admin);
  const others = await addKeys(sql, id, 99);
  const revokeOther = () =>
    revokeApiKey(admin, { organization_id: id, id: others.pop()!.apiKeyId });
  const rotateThree = (more: object) =>
    others.splice(0, 3).map((key) => tryToRotate(id, key.apiKeyId, more));
  await revokeOther();
  const atOnce = [
    ...rotateThree({ overlap: "0" }),
    ...rotateThree({}),
    ...Array.from({ length: 3 }, () => tryToCreate(id, {})),
  ];
  assertEquals(await codesOf(atOnce), [...Array(5).fill("AL007"), ...Array(4).fill("made")]);
  const byServer = serverFor(admin).rpc("create_api_key", { organization_id: id, name: "test" });
  const refused = [tryToCreate(id, {}), byServer, tryToRotate(id, apiKeyId)];
  assertEquals(await codesOf(refused), Array(3).fill("AL007"));
  // A key that must be replaced, because its token is known, can be.
  await rotate(id, apiKeyId, { overlap: "0" });
  await revokeOther();
  await ageKey((await create(id, inDays(1))).id, "1 day");
  await createApiKey(admin, id);
  assertEquals(await codesOf([tryToCreate(id, {})]), ["AL007"]);
});

describe("the platform's server, with the secret key", () => {
  const DENIED = "42501";

  /** Calls each function, for an organization by its id or its external id. Returns the two keys and the four outcomes. */
  async function manage(server: typeof platform, organization_id: string) {
    const made = await server.rpc("create_api_key", { organization_id, name: "by the server" });
    const key = made.data as unknown as NewApiKey;
    const of = { organization_id, api_key_id: key?.id ?? crypto.randomUUID() };
    const rotated = await server.rpc("rotate_api_key", { ...of, overlap: "1 hour" });
    const revoked = await server.rpc("revoke_api_key", of);
    const listed = await server.rpc("list_api_keys", { organization_id });
    const codes = [listed, made, rotated, revoked].map(({ error }) => error?.code ?? "done");
    return { made: key, successor: rotated.data as unknown as NewApiKey, codes };
  }

  /** Says who made and who revoked a key, and whether the owner has an account. */
  async function recordOf(id: string) {
    const [record] = await sql`
      select created_by, created_by_email, revoked_by, owner_has_account from audit_log_private.api_keys
      where id = ${id}`;
    return Object.values(record ?? {});
  }

  // tests/log/audit_entries_test.ts has an event of the secret key.
  it("manages keys in a person's name, by the platform's id of the organization: the record says who", async () => {
    const organization_id = `team_${crypto.randomUUID()}`;
    const { id } = await addOrganization(sql, organization_id);
    const grace = { id: "user_2b", email: "grace@example.com" };
    for (let n = 0; n < 2; n++) {
      const { made, successor, codes } = await manage(serverFor(grace), organization_id);
      assertEquals(codes, Array(4).fill("done"));
      assertEquals(made.organization_id, organization_id);
      await getProblem(401, made.token);
      assertEquals((await getPage(successor.token)).organization_id, organization_id);
      assertEquals(await recordOf(made.id), [grace.id, grace.email, grace.id, false]);
    }
    // The keys of a person who leaves are found, and the record says who ended them.
    const left = { organization_id, person: grace.id, revoke: true };
    const { data } = await serverFor(admin).rpc("person_left", left).throwOnError();
    assertEquals((data as { keys: number }).keys, 2);
    const revokers = await sql`
      select distinct revoked_by, revoked_by_email from audit_log_private.api_keys
      where organization_id = ${id} and owner_left_at is not null`;
    assertEquals([...revokers], [{ revoked_by: admin.id, revoked_by_email: admin.email }]);
  });

  it("names the owner whose account an id in capitals is of, but none without a person, or by an id that came twice or is too long: nobody has it, and would be found when they leave", async () => {
    const { id } = await newOrganization(admin);
    // As fetch joins a header that comes twice.
    const ids = [["a, b", null], ["a".repeat(101), null], [admin.id.toUpperCase(), admin.id]];
    for (const [given = "", owner] of ids) {
      const { made, codes } = await manage(serverFor({ ...admin, id: given ?? "" }), id);
      assertEquals(codes, Array(4).fill("done"));
      assertEquals(await recordOf(made.id), [owner, admin.email, owner, owner !== null]);
    }
    const { made } = await manage(platform, id);
    assertEquals(await recordOf(made.id), [null, null, null, false]);
  });

  it("is believed for itself only: a person's headers change nothing, and nor does what a stranger calls an organization", async () => {
    const platformId = `team_${crypto.randomUUID()}`;
    const { id } = await addOrganization(sql, platformId);
    await addMember(platformId, admin, "admin");
    const stranger = await signUp();
    const create = (person: typeof admin, organization_id: string) =>
      person.client.rpc("create_api_key", { organization_id, name: "test" })
        .setHeader("X-Audit-Person", "eve@example.com").setHeader("X-Audit-Person-Id", "eve");
    for (const name of [id, platformId]) {
      assertEquals((await create(stranger, name)).error?.code, DENIED);
      assertEquals((await create(admin, name)).error, null);
    }
    // A token that names nobody, such as one of another issuer.
    const nobody = codeOf(rolledBack(sql, async (run) => {
      await run`set local role authenticated`;
      await run`select audit_log.create_api_key(${id}, 'test')`;
    }));
    assertEquals(await nobody, DENIED);
    const owners = (await listApiKeys(admin, id)).map((key) => key.created_by_email);
    assertEquals(owners, [admin.email, admin.email, null]);
  });

  // tests/attacks/permissions_test.ts shows that it may not call the functions that read a log.
  it("manages no keys of an organization that is closed", async () => {
    const { id } = await newOrganization(admin);
    await sql`update audit_log.organizations set closed_at = now() where id = ${id}`;
    const { codes } = await manage(serverFor(admin), id);
    assertEquals(codes, Array(4).fill(DENIED));
  });
});
