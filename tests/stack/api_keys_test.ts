import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { isWellFormed, tokenHash } from "../../supabase/functions/public-audit-log/token.ts";
import {
  addMember,
  createApiKey,
  errorOf,
  get,
  getPage,
  getProblem,
  listApiKeys,
  newOrganization,
  type Organization,
  revokeApiKey,
  signUp,
  sql,
  statusOnly,
  whileWaiting,
} from "../helpers.ts";

const admin = await signUp();

/** The key that an organization was made with. */
function keyOf({ id, apiKeyId }: Pick<Organization, "id" | "apiKeyId">) {
  return { organization_id: id, id: apiKeyId };
}

async function keysOf({ id }: Organization): Promise<number> {
  const [row] = await sql`
    select count(*)::int as n from audit_log_private.api_keys where organization_id = ${id}`;
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
      select encode(token_hash, 'hex') as hash from audit_log_private.api_key_hashes where api_key_id = ${apiKeyId}`;
    assertEquals(row?.["hash"], await tokenHash(token));
    const [key] = await sql`select * from audit_log_private.api_keys where id = ${apiKeyId}`;
    const [limit] =
      await sql`select * from audit_log_private.rate_limits where api_key_id = ${apiKeyId}`;
    assert(!JSON.stringify([key, limit]).includes(token.slice(7, -4)));
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
    const keys = await listApiKeys(admin, id);
    assertEquals(keys.filter(({ name }) => name === "asked twice").map((key) => key.id), [
      call.api_key_id,
    ]);
  });

  it("refuses names that are missing, blank or longer than 100 characters", async () => {
    const organization = await newOrganization(admin);
    const began = performance.now();
    // The last is a megabyte: nobody else waits for it.
    for (
      const name of ["", " \t\n", "\u00a0\u3000", "x".repeat(101), null, "❤\ufe0f".repeat(200_000)]
    ) {
      const { error, status } = await admin.client.rpc("create_api_key", {
        organization_id: organization.id,
        name: name as string,
      });
      assertEquals([error?.code, status], ["22023", 400], name?.slice(0, 10));
      assertMatch(error?.message ?? "", /1 to 100 characters/);
    }
    assert(performance.now() - began < 5_000, `${performance.now() - began} ms`);
    assertEquals(await keysOf(organization), 1);
    assertEquals((await createApiKey(admin, organization.id, "é".repeat(100))).name.length, 100);
  });

  it("refuses what cannot be seen in a name, and says which character it is", async () => {
    const organization = await newOrganization(admin);
    for (
      const [name, character] of [
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
      const { error } = await admin.client
        .rpc("create_api_key", { organization_id: organization.id, name });
      assertEquals(error?.code, "22023", character);
      assertStringIncludes(error?.message ?? "", `cannot be seen, ${character}: remove it`);
    }
    assertEquals(await keysOf(organization), 1);
  });

  it("keeps of a name what an emoji or a script needs, one space between words, composed letters", async () => {
    const { id } = await newOrganization(admin);
    const joined = ["👩\u200d💻 laptop", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "👩🏽\u200d🚒"];
    const names = [
      ...[...joined, "می\u200cخواهم", "क्\u200dष"].map((name) => [name, name]),
      [" \u3000\u00a0SIEM \u2003 EU \n", "SIEM EU"],
      ["cafe\u0301", "caf\u00e9"],
    ];
    for (const [given, kept] of names) {
      assertEquals((await createApiKey(admin, id, given)).name, kept);
    }
  });

  it("draws every base62 character equally", async () => {
    // 400 tokens, 12,800 characters, 61 degrees of freedom: beyond 140 once in ten million runs.
    const [row] = await sql`
      select sum((n - 12800 / 62.0) ^ 2 / (12800 / 62.0))::float8 as chi_squared, count(*)::int as characters
      from (
        select count(*) as n
        from (select audit_log_private.new_token() as token from generate_series(1, 400)) as tokens,
          regexp_split_to_table(substr(token, 5, 32), '') as c
        group by c
      ) as counts`;
    assertEquals(row?.["characters"], 62);
    assert(row?.["chi_squared"] < 140, `chi squared ${row?.["chi_squared"]}`);
  });

  it("draws every character of a token by itself", async () => {
    const pairs = await sql`
      with tokens as materialized (select audit_log_private.new_token() as token from generate_series(1, 100))
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
    const revoked = await revokeApiKey(admin, keyOf(organization));
    assertEquals([revoked.id, revoked.revoked_by_email], [organization.apiKeyId, admin.email]);
    await getProblem(401, organization.token);
    await getPage(other.token);
  });

  it("again or many times at once records the first revocation alone", async () => {
    const organization = await newOrganization(admin);
    const colleague = await signUp();
    await addMember(organization.id, colleague, "admin");
    const key = keyOf(organization);
    const [first, ...others] = await Promise.all(
      Array.from({ length: 10 }, () => revokeApiKey(admin, key)),
    );
    for (const other of [...others, await revokeApiKey(colleague, key)]) assertEquals(other, first);
  });

  it("is not held up by requests that wait for the key's counter, and these count no more", async () => {
    const organization = await newOrganization(admin);
    const { apiKeyId, token } = organization;
    const answer = whileWaiting(sql, apiKeyId, () => get(token), async () => {
      await revokeApiKey(admin, keyOf(organization));
      await getProblem(401, token);
    });
    // Its turn comes after the revocation's commit.
    assertEquals(await statusOnly(answer), 401);
    assertEquals((await listApiKeys(admin, organization.id))[0]?.last_used_at, null);
  });
});

describe("the database", () => {
  it("refuses what no function would write: blank or long names, hashes of another length", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    for (
      const statement of [
        sql`insert into audit_log_private.api_keys (organization_id, name, hint) values (${id}, '', 'x')`,
        sql`update audit_log_private.api_keys set name = repeat('x', 101) where id = ${apiKeyId}`,
        sql`update audit_log_private.api_key_hashes set token_hash = 'x' where api_key_id = ${apiKeyId}`,
        sql`insert into audit_log.organizations (name) values (' ')`,
      ]
    ) assertEquals((await errorOf(statement)).code, "23514");
  });

  it("lets an organization without entries go, with all that is its own; who made a key outlives the account", async () => {
    const person = await signUp();
    const { id, apiKeyId } = await newOrganization(person);
    await sql`delete from auth.users where id = ${person.id}`;
    const [orphan] = await sql`
      select created_by, created_by_email, now() - created_at < '1 minute' as recent
      from audit_log_private.api_keys where id = ${apiKeyId}`;
    assertEquals({ ...orphan }, {
      created_by: person.id,
      created_by_email: person.email,
      recent: true,
    });
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
