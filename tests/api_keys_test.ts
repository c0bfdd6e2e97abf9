import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { revokeUnderLoad } from "./attacks/revocation.ts";
import { isWellFormed, tokenHash } from "../supabase/functions/public-audit-log/token.ts";
import {
  client,
  connect,
  createApiKey,
  get,
  getPage,
  getProblem,
  newOrganization,
  type Organization,
  signUp,
} from "./helpers.ts";

const NOBODYS_ID = "00000000-0000-4000-8000-000000000000";

const sql = connect();
const admin = await signUp();
const stranger = await signUp();
afterAll(() => sql.end());

async function keysOf({ id }: Organization): Promise<number> {
  const [row] = await sql`
    select count(*)::int as n from private.api_keys where organization_id = ${id}`;
  return row?.["n"];
}

describe("create_api_key()", () => {
  it("answers with a token that works at once, for the organization it was made for", async () => {
    const organization = await newOrganization(admin);
    const key = await createApiKey(admin, organization.id, "SIEM");
    assertEquals(key.name, "SIEM");
    assertMatch(key.token, /^pck_[0-9A-Za-z]{38}$/);
    assertEquals(await isWellFormed(key.token), true);
    assertEquals(key.hint, `${key.token.slice(0, 7)}…${key.token.slice(-4)}`);
    assertEquals((await getPage(key.token)).organization_id, organization.id);
  });

  it("keeps the SHA-256 of the token, and the token nowhere", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    const [row] = await sql`
      select encode(token_hash, 'hex') as hash from private.api_key_hashes where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["hash"], await tokenHash(token));
    const [key] = await sql`select * from private.api_keys where id = ${apiKeyId}`;
    const [limit] = await sql`select * from private.rate_limits where api_key_id = ${apiKeyId}`;
    assert(!JSON.stringify([key, limit]).includes(token.slice(7, -4)));
  });

  it("records who made the key and when", async () => {
    const { apiKeyId } = await newOrganization(admin);
    const [row] = await sql`
      select created_by, created_by_email, revoked_at, now() - created_at < '1 minute' as recent
      from private.api_keys where id = ${apiKeyId}`;
    assertEquals({ ...row }, {
      created_by: admin.id,
      created_by_email: admin.email,
      revoked_at: null,
      recent: true,
    });
  });

  it("asked again with the same id fails, and makes nothing: whoever lost the answer may ask", async () => {
    const { id } = await newOrganization(admin);
    const call = {
      organization_id: id,
      name: "asked twice",
      api_key_id: crypto.randomUUID(),
    };
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => admin.client.rpc("create_api_key", call)),
    );
    assertEquals(answers.map(({ error }) => error?.code ?? "made").sort(), [
      ...Array(4).fill("23505"),
      "made",
    ]);
    const keys = await admin.client.from("api_keys").select("id").eq("name", "asked twice")
      .throwOnError();
    assertEquals(keys.data, [{ id: call.api_key_id }]);
  });

  it("is refused to members, strangers and nobody, and makes nothing", async () => {
    const organization = await newOrganization(admin);
    const platform = client("service_role");
    const member = await signUp();
    await platform.from("organization_members")
      .insert({ organization_id: organization.id, user_id: member.id, role: "member" })
      .throwOnError();
    for (const caller of [member.client, stranger.client, client("anon"), platform]) {
      const { error } = await caller
        .rpc("create_api_key", { organization_id: organization.id, name: "x" });
      assertEquals(error?.code, "42501");
    }
    assertEquals(await keysOf(organization), 1);
  });

  it("is refused for an organization that does not exist, in the same words", async () => {
    const organization = await newOrganization(admin);
    const [missing, foreign] = await Promise.all(
      [NOBODYS_ID, organization.id].map((organization_id) =>
        stranger.client.rpc("create_api_key", { organization_id, name: "x" })
      ),
    );
    assertEquals(missing?.error?.code, "42501");
    assertEquals(missing?.error?.message, foreign?.error?.message);
  });

  it("refuses names that are missing, blank or longer than 100 characters, and makes nothing", async () => {
    const organization = await newOrganization(admin);
    for (const name of ["", " \t\n", "\u00a0\u200b\u3000", "x".repeat(101), null]) {
      const { error, status } = await admin.client.rpc("create_api_key", {
        organization_id: organization.id,
        name: name as string,
      });
      assertEquals([error?.code, status], ["22023", 400], JSON.stringify(name));
    }
    assertEquals(await keysOf(organization), 1);
    assertEquals((await createApiKey(admin, organization.id, "é".repeat(100))).name.length, 100);
    assertEquals((await createApiKey(admin, organization.id, "  SIEM ")).name, "SIEM");
  });

  it("makes a different token for each of many parallel calls", async () => {
    const organization = await newOrganization(admin);
    const keys = await Promise.all(
      Array.from({ length: 20 }, () => createApiKey(admin, organization.id)),
    );
    assertEquals(new Set(keys.map((key) => key.token)).size, 20);
    assertEquals(new Set(keys.map((key) => key.id)).size, 20);
    assertEquals(await keysOf(organization), 21);
  });

  it("draws every base62 character equally", async () => {
    // 400 tokens, 12,800 characters, 61 degrees of freedom: beyond 140 once in ten million runs.
    const [row] = await sql`
      select sum((n - 12800 / 62.0) ^ 2 / (12800 / 62.0))::float8 as chi_squared, count(*)::int as characters
      from (
        select count(*) as n
        from (select private.new_token() as token from generate_series(1, 400)) as tokens,
          regexp_split_to_table(substr(token, 5, 32), '') as c
        group by c
      ) as counts`;
    assertEquals(row?.["characters"], 62);
    assert(row?.["chi_squared"] < 140, `chi squared ${row?.["chi_squared"]}`);
  });

  it("draws every character of a token by itself", async () => {
    const pairs = await sql`
      with tokens as materialized (select private.new_token() as token from generate_series(1, 100))
      select i, j
      from generate_series(5, 36) as i, generate_series(5, 36) as j
      where i < j and not exists (select from tokens where substr(token, i, 1) <> substr(token, j, 1))`;
    assertEquals(Array.from(pairs), []);
  });
});

describe("revoke_api_key()", () => {
  it("makes every later request with the key 401, and leaves other keys alone", async () => {
    const organization = await newOrganization(admin);
    const other = await createApiKey(admin, organization.id);
    await getPage(organization.token);
    const { data } = await admin.client
      .rpc("revoke_api_key", { api_key_id: organization.apiKeyId }).throwOnError();
    assertEquals((data as { id: string }).id, organization.apiKeyId);
    await getProblem(401, organization.token);
    await getPage(other.token);
  });

  it("again changes nothing: the first time stays", async () => {
    const { apiKeyId } = await newOrganization(admin);
    const [first, second] = [
      await admin.client.rpc("revoke_api_key", { api_key_id: apiKeyId }).throwOnError(),
      await admin.client.rpc("revoke_api_key", { api_key_id: apiKeyId }).throwOnError(),
    ];
    assertNotEquals((first.data as { revoked_at: string }).revoked_at, undefined);
    assertEquals(second.data, first.data);
    const [row] = await sql`select revoked_by from private.api_keys where id = ${apiKeyId}`;
    assertEquals(row?.["revoked_by"], admin.id);
  });

  it("is refused to strangers and nobody, and for a key that does not exist, in the same words", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await newOrganization(stranger);
    const messages = new Set<string | undefined>();
    for (const api_key_id of [apiKeyId, NOBODYS_ID]) {
      const { error } = await stranger.client.rpc("revoke_api_key", { api_key_id });
      assertEquals(error?.code, "42501");
      messages.add(error?.message);
    }
    assertEquals(messages.size, 1);
    for (const caller of [client("anon"), client("service_role")]) {
      const { error } = await caller.rpc("revoke_api_key", { api_key_id: apiKeyId });
      assertEquals(error?.code, "42501");
    }
    await getPage(token);
  });

  it("by a former administrator is refused", async () => {
    const former = await signUp();
    const { id, apiKeyId } = await newOrganization(former);
    await client("service_role").from("organization_members")
      .delete().eq("organization_id", id).throwOnError();
    const { error } = await former.client.rpc("revoke_api_key", { api_key_id: apiKeyId });
    assertEquals(error?.code, "42501");
  });

  it("many times in parallel records one revocation", async () => {
    const { apiKeyId } = await newOrganization(admin);
    const answers = await Promise.all(
      Array.from(
        { length: 10 },
        () => admin.client.rpc("revoke_api_key", { api_key_id: apiKeyId }).throwOnError(),
      ),
    );
    assertEquals(new Set(answers.map(({ data }) => JSON.stringify(data))).size, 1);
  });

  it("holds under load: no request that begins after it has answered is accepted", async () => {
    const { id } = await newOrganization(admin);
    for (let answers = 1; answers <= 20; answers++) {
      const key = await createApiKey(admin, id);
      assertEquals(await revokeUnderLoad(admin, key, answers), [401, 401, 401]);
    }
  });

  it("is not held up by requests that wait for the key's counter", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    let waiting: Promise<Response> | undefined;
    await sql.begin(async (transaction) => {
      await transaction`
        select from private.rate_limits where api_key_id = ${apiKeyId} for update`;
      waiting = get(token);
      await admin.client.rpc("revoke_api_key", { api_key_id: apiKeyId }).throwOnError();
      await getProblem(401, token);
    });
    // Its turn comes after the revocation's commit.
    assertEquals((await waiting)?.status, 401);
    await (await waiting)?.body?.cancel();
  });
});

describe("the database", () => {
  it("refuses what no function would write: blank or long names, hashes of another length", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    for (
      const statement of [
        sql`insert into private.api_keys (organization_id, name, hint) values (${id}, ' ', 'x')`,
        sql`insert into private.api_keys (organization_id, name, hint) values (${id}, ${
          "x".repeat(101)
        }, 'x')`,
        sql`update private.api_key_hashes set token_hash = 'x' where api_key_id = ${apiKeyId}`,
        sql`insert into public.organizations (name) values (' ')`,
      ]
    ) {
      const error = await assertRejects(() => statement, postgres.PostgresError);
      assertEquals(error.code, "23514");
    }
  });

  it("lets an organization without entries go, with its members and keys, and a person too", async () => {
    const person = await signUp();
    const { id, apiKeyId } = await newOrganization(person);
    await sql`delete from auth.users where id = ${person.id}`;
    const [orphan] = await sql`select created_by from private.api_keys where id = ${apiKeyId}`;
    assertEquals(orphan?.["created_by"], null);
    await sql`delete from public.organizations where id = ${id}`;
    const [left] = await sql`
      select
        (select count(*) from public.organization_members where organization_id = ${id})
        + (select count(*) from private.api_keys where organization_id = ${id})
        + (select count(*) from private.api_key_hashes where api_key_id = ${apiKeyId})
        + (select count(*) from private.rate_limits where api_key_id = ${apiKeyId}) as rows`;
    assertEquals(left?.["rows"], "0");
  });
});

describe("a key", () => {
  it("can be listed by the organization's administrators, and only by them", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const mine = await admin.client.from("api_keys").select("*").eq("organization_id", id)
      .throwOnError();
    assertEquals(mine.data.map((key) => key.id), [apiKeyId]);
    const theirs = await stranger.client.from("api_keys").select("*").eq("organization_id", id)
      .throwOnError();
    assertEquals(theirs.data, []);
  });

  it("cannot be made, changed or deleted past the two functions, not even by an administrator", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const keys = () => admin.client.from("api_keys");
    const codes = [];
    for (
      const { error } of [
        // A key without a hash, hence without a token, cannot be.
        await keys().insert({ organization_id: id, name: "x", hint: "x" }),
        await keys().insert({ id: NOBODYS_ID, organization_id: id, name: "x", hint: "x" }),
        await keys().insert({ organization_id: id, name: "x", hint: "x", created_by: stranger.id }),
        await keys().update({ name: "x" }).eq("id", apiKeyId),
        await keys().update({ organization_id: id }).eq("id", apiKeyId),
        await keys().update({ revoked_at: "2020-01-01T00:00:00Z", revoked_by: admin.id })
          .eq("id", apiKeyId),
        await keys().update({ revoked_at: "now", revoked_by: stranger.id }).eq("id", apiKeyId),
        await keys().delete().eq("id", apiKeyId),
      ]
    ) codes.push(error?.code);
    assertEquals(codes, ["23503", "23503", ...Array(6).fill("42501")]);
    const { data } = await keys().select("name, revoked_at").eq("organization_id", id)
      .throwOnError();
    assertEquals(data, [{ name: "test", revoked_at: null }]);
  });

  it("that is revoked stays so: nobody can take it back, or date or sign it anew", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    const { data } = await admin.client.rpc("revoke_api_key", { api_key_id: apiKeyId })
      .throwOnError();
    for (const change of [{ revoked_at: null, revoked_by: null }, { revoked_at: "now" }]) {
      await admin.client.from("api_keys").update(change).eq("id", apiKeyId);
    }
    const keys = await admin.client.from("api_keys").select("revoked_at").eq("id", apiKeyId)
      .throwOnError();
    assertEquals(
      Date.parse(keys.data[0]?.revoked_at ?? ""),
      Date.parse((data as { revoked_at: string }).revoked_at),
    );
    await getProblem(401, token);
  });

  it("cannot be revoked by a stranger past the function either", async () => {
    const { apiKeyId, token } = await newOrganization(admin);
    await stranger.client.from("api_keys").update({ revoked_at: "now", revoked_by: stranger.id })
      .eq("id", apiKeyId);
    await getPage(token);
    // Without a condition, only the policy for updates is asked.
    const changed = await sql.begin(async (transaction) => {
      await transaction`
        select set_config('request.jwt.claims', ${JSON.stringify({ sub: NOBODYS_ID })}, true)`;
      await transaction`set local role authenticated`;
      return await transaction`update private.api_keys set revoked_at = now(), revoked_by = ${NOBODYS_ID}`;
    });
    assertEquals(changed.count, 0);
  });
});
