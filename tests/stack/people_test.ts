import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  errorOf,
  insertEntries,
  newOrganization,
  type Organization,
  type Person,
  rolledBack,
  type Run,
  signUp,
  sql,
} from "../helpers.ts";

// The seam (migration `people`): three functions that an adopter replaces. Whatever they do, nobody may get in by
// it, and nobody may learn whether an organization exists.

const admin = await signUp();
const UNKNOWN = "00000000-0000-4000-8000-00000000dead";

/** All that people can ask of an organization. */
const CALLS = (id: string) => [
  `audit_log.list_api_keys('${id}')`,
  `audit_log.create_api_key('${id}', 'made')`,
  `audit_log.rotate_api_key('${id}', '${UNKNOWN}')`,
  `audit_log.revoke_api_key('${id}', '${UNKNOWN}')`,
  `audit_log.api_key_usage('${id}', '2026-03-01', '2026-03-02')`,
  `audit_log.read_audit_log('${id}', ('2026-03-01', '2026-03-02', null, null, 1, 0, false, null))`,
  `audit_log.read_entry('${id}', '2026-03-01', '${UNKNOWN}')`,
  `audit_log.daily_entry_counts('${id}', '2026-03-01', '2026-03-02')`,
  `audit_log.list_seals('${id}', ('2026-03-01', '2026-03-02', null, null, 1, 0, false, null))`,
  `audit_log.latest_seal('${id}')`,
  `audit_log.list_actions('${id}')`,
];

/** Runs as a signed-in person, as the Data API does. */
async function as(run: Run, claims: object): Promise<void> {
  await run`select set_config('request.jwt.claims', ${JSON.stringify(claims)}, true)`;
  await run`set local role authenticated`;
}

/** The error code of a statement, which is undone. */
async function codeOf(run: Run, statement: string): Promise<string> {
  await run`savepoint before`;
  const code = await run.unsafe(`select ${statement}`).then(
    () => "accepted",
    (error: postgres.PostgresError) => error.code,
  );
  await run`rollback to before`;
  return code;
}

/** What a person's calls come to with a seam that was replaced: the codes that occur. */
async function codesWith(replacement: string, id: string, person: Person = admin) {
  return await rolledBack(sql, async (run) => {
    await run.unsafe(replacement);
    await as(run, { sub: person.id, email: person.email, role: "authenticated" });
    const codes = new Set<string>();
    for (const call of CALLS(id)) codes.add(await codeOf(run, call));
    return [...codes].sort();
  });
}

function administers(body: string): string {
  return `create or replace function audit_log_private.administers(organization_id uuid) returns boolean
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$ begin ${body} end $$`;
}

function caller(body: string): string {
  return `create or replace function audit_log_private.caller(out id text, out email text)
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$ begin ${body} end $$`;
}

describe("a seam that misbehaves lets nobody in, and tells nothing about organizations:", () => {
  const seams = {
    "administers() gives null": [administers("return null;"), "42501"],
    "administers() gives false": [administers("return false;"), "42501"],
    "administers() raises an error": [administers("raise exception 'down';"), "P0001"],
    "administers() names a table that is not there": [
      administers("return exists (select from memberships);"),
      "42P01",
    ],
    "caller() gives nobody": [caller("id := null;"), "42501"],
    "caller() raises an error": [caller("raise exception 'down';"), "P0001"],
  } as const;
  for (const [name, [replacement, code]] of Object.entries(seams)) {
    it(name, async () => {
      const { id } = await newOrganization(admin);
      assertEquals(await codesWith(replacement, id), [code]);
      assertEquals(await codesWith(replacement, UNKNOWN), [code]);
    });
  }

  it("administers() is always true: an organization that does not exist is refused all the same", async () => {
    assertEquals(await codesWith(administers("return true;"), UNKNOWN), ["42501"]);
  });

  it("my_organizations() gives another role, or an organization that is not there", async () => {
    const { id } = await newOrganization(admin);
    const listed = await rolledBack(sql, async (run) => {
      await run.unsafe(`
        create or replace function audit_log_private.my_organizations()
        returns table (id uuid, name text, role text) language sql stable set search_path = pg_catalog, pg_temp as $$
          values ('${id}'::uuid, 'Mine', 'owner'), ('${UNKNOWN}', 'Nowhere', 'admin')
        $$`);
      await as(run, { sub: admin.id });
      const [row] = await run`select audit_log.list_organizations() as list`;
      return row?.["list"];
    });
    const shown = { id, organization_id: id, name: "Mine", role: "owner", is_admin: false };
    assertEquals(listed, [shown]);
  });

  it("another signature is refused when it is created", async () => {
    const other = `create or replace function audit_log_private.my_organizations()
      returns table (id text, name text) language sql as $$ values ('', '') $$`;
    const error = await rolledBack(sql, (run) => errorOf(run.unsafe(other)));
    assertEquals(error.code, "42P13");
  });
});

describe("the seam as it comes", () => {
  /** The first of the calls, as a person with these claims, and whether the list says that it will work. */
  async function asked({ id }: Organization, claims: { sub: string; aal?: string }) {
    return await rolledBack(sql, async (run) => {
      await as(run, claims);
      const code = await codeOf(run, `audit_log.list_api_keys('${id}')`);
      const [row] = await run`select audit_log.list_organizations() as list`;
      const list = row?.["list"] as { id: string; is_admin: boolean }[];
      return [code, list.find((organization) => organization.id === id)?.is_admin];
    });
  }

  it("knows people by the text of their JWT's subject, so those of other identity providers too", async () => {
    const organization = await newOrganization(admin);
    const sub = "user_2NNEqL2nrIRdJ194ndJqAHwEfxC";
    assertEquals(await asked(organization, { sub }), ["42501", undefined]);
    await sql`
      insert into audit_log.organization_members (organization_id, user_id, role)
      values (${organization.id}, ${sub}, 'admin')`;
    assertEquals(await asked(organization, { sub }), ["accepted", true]);
    await rolledBack(sql, async (run) => {
      await as(run, { sub, email: "ada@example.com" });
      await run`select audit_log.create_api_key(${organization.id}, 'made by text')`;
      await run`reset role`;
      const [key] = await run`
        select created_by, created_by_email from audit_log_private.api_keys
        where organization_id = ${organization.id} and name = 'made by text'`;
      assertEquals({ ...key }, { created_by: sub, created_by_email: "ada@example.com" });
    });
  });

  it("demands the second factor of an account that has a verified one, and of no other", async () => {
    const person = await signUp();
    const organization = await newOrganization(person);
    const claims = { sub: person.id, aal: "aal1" };
    await sql`
      insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at)
      values (gen_random_uuid(), ${person.id}, 'totp', 'unverified', now(), now())`;
    assertEquals(await asked(organization, claims), ["accepted", true]);
    await sql`update auth.mfa_factors set status = 'verified' where user_id = ${person.id}`;
    assertEquals(await asked(organization, claims), ["42501", false]);
    assertEquals(await asked(organization, { sub: person.id }), ["42501", false]);
    assertEquals(await asked(organization, { ...claims, aal: "aal2" }), ["accepted", true]);
    assertEquals(await asked(await newOrganization(admin), { sub: admin.id, aal: "aal1" }), [
      "accepted",
      true,
    ]);
  });

  it("refuses an account that was deleted, softly too, or is banned, although its JWT is still valid", async () => {
    const person = await signUp();
    const organization = await newOrganization(person);
    const claims = { sub: person.id };
    const changed = async (change: string) =>
      await rolledBack(sql, async (run) => {
        await run.unsafe(`update auth.users set ${change} where id = '${person.id}'`);
        await as(run, claims);
        return await codeOf(run, `audit_log.list_api_keys('${organization.id}')`);
      });
    assertEquals(await changed("deleted_at = now()"), "42501");
    assertEquals(await changed("banned_until = now() + interval '1 hour'"), "42501");
    assertEquals(await changed("banned_until = now() - interval '1 hour'"), "accepted");
    await sql`delete from auth.users where id = ${person.id}`;
    assertEquals(await asked(organization, claims), ["42501", false]);
  });
});

describe("what people read", () => {
  it("is counted as theirs, also when a key was made whose id is the one their reads are kept under", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2026-03-01", 2);
    const usage = await rolledBack(sql, async (run) => {
      await as(run, { sub: admin.id, email: admin.email });
      await run`
        select audit_log.read_audit_log(${id}, ('2026-03-01', '2026-03-02', null, null, 100, 0, false, null))`;
      await run`reset role`;
      const [kept] = await run`
        select reader_id from audit_log_private.log_reads where organization_id = ${id}`;
      await run`set local role authenticated`;
      await run`select audit_log.create_api_key(${id}, 'impostor', ${kept?.["reader_id"]})`;
      const [row] = await run`
        select audit_log.api_key_usage(${id}, '0001-01-01', '9999-12-31') as usage`;
      return row?.["usage"] as { user_id: string; api_key_id: string | null; entries: number }[];
    });
    const [reads, ...others] = usage;
    assertEquals([reads?.user_id, reads?.api_key_id, reads?.entries], [admin.id, null, 2]);
    assertEquals(others, []);
  });
});
