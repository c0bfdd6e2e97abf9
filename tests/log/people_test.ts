// Needs a stack.

import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { servedFunctions, value } from "../attacks/data_api_attacks.ts";
import { actAs, addMember, call, client, insertEntries, newOrganization } from "../helpers/mod.ts";
import { pageQuery, type Person, rolledBack, type Run, signUp, sql } from "../helpers/mod.ts";
import { valueOf } from "../helpers/mod.ts";

// Tests 1_log/04_people.sql and 6_console/01_console.sql: who may ask, and what administrators read.

const admin = await signUp();
const UNKNOWN = "00000000-0000-4000-8000-00000000dead";
const FUNCTIONS = (await servedFunctions(sql))
  .filter(({ parameters }) => parameters.some(({ name }) => name === "organization_id"))
  .filter(({ isForPeople }) => isForPeople);

/** What auditors may call, too. So they may read_stream, if there is one. */
const READING = ("api_key_usage daily_entry_counts find_persons list_actions list_seals " +
  "list_streams read_audit_log read_entry").split(" ");

/** Lists a call of every function about an organization. A key without a name is refused later. */
function callsAbout(organizationId: string, names?: string[]): string[] {
  const guess = { organizationId, apiKeyId: UNKNOWN, entryId: UNKNOWN, email: " " };
  return FUNCTIONS.filter(({ name }) => !names || names.includes(name))
    .map(({ name, parameters }) => {
      const given = parameters.map((each) => `${each.name} => '${value(each, guess)}'`);
      return `audit_log.${name}(${given})`;
    });
}

/** Makes a call, undoes it, and returns "accepted" or the code and the message of its error. */
async function outcomeOf(run: Run, call: string): Promise<string> {
  await run`savepoint before`;
  const outcome = await run.unsafe(`select ${call}`).then(
    () => "accepted",
    ({ code, message }: postgres.PostgresError) => `${code} ${message}`,
  );
  await run`rollback to before`;
  return outcome;
}

/** Makes all calls of a person, perhaps with a function replaced, and returns the different outcomes. */
async function outcomes(id: string, person: Person, replacement = "", names?: string[]) {
  return await rolledBack(sql, async (run) => {
    await run.unsafe(replacement);
    await actAs(run, { sub: person.id, email: person.email });
    const seen = new Set<string>();
    for (const call of callsAbout(id, names)) seen.add(await outcomeOf(run, call));
    return [...seen];
  });
}

function replaced(signature: string, body: string): string {
  return `create or replace function audit_log_private.${signature}
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$ begin ${body} end $$`;
}

const SESSION = "is_valid_session() returns boolean";
const MINE = "my_organizations() returns table (id text, name text, role text)";
const CALLER = "caller(out id text, out email text)";

describe("every call about an organization", () => {
  // tests/attacks/tenants_test.ts shows that strangers cannot tell the two apart, either.
  it("is refused to members with the same code as for an organization that does not exist", async () => {
    const { id } = await newOrganization(admin);
    const member = await signUp();
    await addMember(id, member, "member");
    const refusals = [...await outcomes(id, member), ...await outcomes(UNKNOWN, member)];
    assertEquals(new Set(refusals.map((refusal) => refusal.slice(0, 5))), new Set(["42501"]));
    for (const [who, expected] of [[member.client, 403], [client("anon"), 401]] as const) {
      const { error, status } = await who.rpc("list_api_keys", { organization_id: id });
      assertEquals([error?.code, status], ["42501", expected]);
    }
  });

  const failures = [
    [SESSION, "return null;", "42501"],
    [SESSION, "raise exception 'down';", "P0001"],
    [MINE, "return;", "42501"],
    [MINE, "return query select null, null, null;", "42501"],
    [MINE, "raise exception 'down';", "P0001"],
    [CALLER, "id := null;", "42501"],
    [CALLER, "raise exception 'down';", "P0001"],
  ] as const;
  for (const [signature, body, code] of failures) {
    it(`is refused with the same error for an organization that does not exist, if ${signature.replace(/\(.*/, "()")} does: ${body}`, async () => {
      const { id } = await newOrganization(admin);
      const replacement = replaced(signature, body);
      const [refusal, ...others] = await outcomes(id, admin, replacement);
      assertEquals([refusal?.slice(0, 5), others], [code, []]);
      assertEquals(await outcomes(UNKNOWN, admin, replacement), [refusal]);
    });
  }

  it("is answered about an organization of which the log knows nothing yet, if my_organizations() has it", async () => {
    const always = replaced(MINE, `return query values ('${UNKNOWN}', 'New', 'admin');`);
    assertEquals(await outcomes(UNKNOWN, admin, always, READING), ["accepted"]);
  });
});

describe("list_organizations()", () => {
  it("gives the organizations that a person belongs to, by name, with the role", async () => {
    const person = await signUp();
    const list = () => call(person, "list_organizations", {});
    assertEquals(await list(), []);
    const { id: last } = await newOrganization(person, "Zzz");
    const { id: first } = await newOrganization(admin, "Aaa");
    await addMember(first, person, "member", undefined, "Aaa");
    const member = { name: "Aaa", role: "member", is_admin: false, may_read: false };
    const all = { name: "Zzz", role: "admin", is_admin: true, may_read: true };
    assertEquals(await list(), [
      { id: first, organization_id: first, ...member },
      { id: last, organization_id: last, ...all },
    ]);
  });

  it("takes any id and any name, knows no other roles, and asks once, however many there are", async () => {
    const { id } = await newOrganization(admin);
    await rolledBack(sql, async (run) => {
      await run`create sequence public.asked`;
      await run`grant usage on sequence public.asked to authenticated`;
      const asked = "perform nextval('public.asked')";
      const mine =
        `return query values ('${id}', null, 'owner'), ('acme', repeat('x', 201), 'admin'), (null, 'x', 'admin');`;
      await run.unsafe(replaced(MINE, `${asked}; ${mine}`));
      await run.unsafe(replaced(SESSION, `${asked}; return true;`));
      await actAs(run, { sub: admin.id });
      const theirs = { id, organization_id: id, name: "unnamed", role: "owner" };
      const acme = await valueOf(sql`select audit_log.organization_uuid('acme')`);
      const named = { organization_id: "acme", name: `${"x".repeat(199)}…`, role: "admin" };
      assertEquals(await valueOf(run`select audit_log.list_organizations()`), [
        { ...theirs, is_admin: false, may_read: false },
        { id: acme, ...named, is_admin: true, may_read: true },
      ]);
      assertEquals(Number(await valueOf(run`select currval('public.asked')`)), 2);
    });
  });
});

const REFUSED = ["42501", "42501", false, false];
const MAY_READ = ["42501", true, false, true];
const MAY_ALL = [true, true, true, true];

describe("an administrator or auditor", () => {
  /** Tries to list keys and to read, with claims. Compares what is accepted, and what list_organizations() says of both. */
  async function assertAsked(
    { id }: { id: string },
    claims: { sub: string },
    change: string,
    expected: readonly (string | boolean)[],
  ): Promise<void> {
    await rolledBack(sql, async (run) => {
      await run.unsafe(change);
      await actAs(run, claims);
      const answers: unknown[] = [];
      for (const name of ["list_api_keys", "list_actions"]) {
        const outcome = await outcomeOf(run, `audit_log.${name}('${id}')`);
        answers.push(outcome === "accepted" || outcome.slice(0, 5));
      }
      const list = await valueOf<Record<string, unknown>[]>(
        run`select audit_log.list_organizations()`,
      );
      const listed = list.find((organization) => organization["id"] === id);
      answers.push(listed?.["is_admin"], listed?.["may_read"]);
      assertEquals(answers, expected, `${change} ${JSON.stringify(claims)}`);
    });
  }

  it("needs an account that is neither deleted, banned nor anonymous, a session of it that is not ended, and its second factor if one is verified", async () => {
    const person = await signUp();
    const organization = await newOrganization(person);
    const claims = { sub: person.id, aal: "aal1" };
    const user = (change: string) => `update auth.users set ${change} where id = '${person.id}'`;
    const factor = (status: string) => `
      insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at)
      values (gen_random_uuid(), '${person.id}', 'totp', '${status}', now(), now())`;
    const [theirs] = await sql`select id from auth.sessions where user_id = ${admin.id}`;
    const now = Math.floor(Date.now() / 1000);
    const cases = [
      [claims, "select", true],
      [claims, `delete from auth.sessions where user_id = '${person.id}'`, false],
      [{ ...claims, session_id: crypto.randomUUID() }, "select", false],
      [{ ...claims, session_id: theirs?.["id"] }, "select", false],
      [{ ...claims, session_id: null }, "select", false],
      [{ ...claims, session_id: "none" }, "select", false],
      [{ ...claims, exp: now - 1 }, "select", false],
      [{ ...claims, exp: null }, "select", false],
      [claims, factor("unverified"), true],
      [claims, factor("verified"), false],
      [{ sub: person.id }, factor("verified"), false],
      [{ ...claims, aal: "aal2" }, factor("verified"), true],
      [claims, user("deleted_at = now()"), false],
      [claims, user("banned_until = now() + interval '1 hour'"), false],
      [claims, user("banned_until = now() - interval '1 hour'"), true],
      [claims, `delete from auth.users where id = '${person.id}'`, false],
      [{ ...claims, is_anonymous: false }, "select", true],
      [{ ...claims, is_anonymous: true }, "select", false],
      [claims, user("is_anonymous = true"), false],
    ] as const;
    for (const [role, accepted] of [["admin", MAY_ALL], ["auditor", MAY_READ]] as const) {
      await sql`update audit_log.organization_members set role = ${role} where user_id = ${person.id}`;
      for (const [given, change, isAccepted] of cases) {
        await assertAsked(organization, given, change, isAccepted ? accepted : REFUSED);
      }
    }
  });

  it("is not an application that they authorized, unless the platform allows it, whatever an access token hook leaves of the token", async () => {
    const organization = await newOrganization(admin);
    const [application, other] = [crypto.randomUUID(), crypto.randomUUID()];
    const allow = (...ids: string[]) =>
      `create or replace function audit_log_private.allowed_oauth_clients() returns text[]
       language plpgsql immutable set search_path = pg_catalog, pg_temp as
       $$ begin return '{${ids}}'; end $$;`;
    // Without Auth's foreign key.
    const inSession = `set local session_replication_role = replica;
      update auth.sessions set oauth_client_id = '${application}';
      set local session_replication_role = origin;`;
    const token = { sub: admin.id, client_id: application };
    const hooked = { sub: admin.id };
    const cases = [
      [token, "", REFUSED],
      [token, inSession, REFUSED],
      [hooked, inSession, REFUSED],
      [{ ...token, client_id: "" }, "", REFUSED],
      [token, allow(other), REFUSED],
      [token, allow(application), MAY_ALL],
      [token, inSession + allow(other, application), MAY_ALL],
      [hooked, inSession + allow(application), MAY_ALL],
      [{ ...token, client_id: other }, inSession + allow(other), REFUSED],
    ] as const;
    for (const [given, change, accepted] of cases) {
      await assertAsked(organization, given, change, accepted);
    }
  });

  it("needs their session however the token writes the account's id: auth.uid() takes every form of a UUID", async () => {
    const organization = await newOrganization(admin);
    const mine = replaced(MINE, `return query values ('${organization.id}', 'Test', 'admin');`);
    const plain = admin.id.replaceAll("-", "");
    const forms = [admin.id.toUpperCase(), `{${admin.id}}`, plain, `{${plain.toUpperCase()}}`];
    for (const sub of forms) await assertAsked(organization, { sub }, mine, REFUSED);
    await assertAsked(organization, { sub: "user_2b" }, mine, MAY_ALL);
  });

  it("may do what each function allows: an auditor reads everything, and manages no key", async () => {
    const { id } = await newOrganization(admin);
    const auditor = await signUp();
    await addMember(id, auditor, "auditor");
    const others = FUNCTIONS.map(({ name }) => name).filter((name) => !READING.includes(name));
    assertEquals([...await outcomes(id, auditor, "", READING)], ["accepted"]);
    const refusals = await outcomes(id, auditor, "", others);
    assertEquals(refusals.map((refusal) => refusal.slice(0, 5)), ["42501"]);
    assert(others.length >= 4);
  });

  it("has their own reads counted, even if somebody creates a key with the id that stands for this person", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2026-03-01", 2);
    const usage = await rolledBack(sql, async (run) => {
      await actAs(run, { sub: admin.id, email: admin.email });
      const query = `'{"start_date":"2026-03-01","end_date":"2026-03-01"}'`;
      for (let i = 0; i < 3; i++) {
        await run.unsafe(`select audit_log.read_audit_log('${id}', ${query})`);
      }
      await run`reset role`;
      const reader: string = await valueOf(run`
        select reader_id from audit_log_private.log_reads where organization_id = ${id}`);
      await run`set local role authenticated`;
      await run`select audit_log.create_api_key(${id}, 'impostor', ${reader})`;
      return await valueOf<Record<string, unknown>[]>(run`
        select audit_log.api_key_usage(${id}, '0001-01-01', '9999-12-31')`);
    });
    const counted = usage.map((row) => [row["user_email"], row["requests"], row["entries"]]);
    assertEquals(counted, [[admin.email, 3, 6]]);
  });

  it("gets 22023 for days that are no range, for a page that the API would refuse and for a misspelt field, and AL003 for no cursor", async () => {
    const { id: organization_id } = await newOrganization(admin);
    const pages = [{ page_limit: 0 }, { page_limit: 1001 }, { page_offset: -1 }, { action: "x" }];
    const queries = pages.map((page) => pageQuery("2026-03-01", "2026-03-02", page));
    const ends = ["2026-02-28", null, "infinity", "5874897-12-31"];
    const noRanges = [...ends.map((end) => ["2026-03-01", end]), ["-infinity", "2026-03-01"]];
    for (const [start_date, end_date] of noRanges) {
      queries.push({ start_date, end_date } as never);
      const days = { organization_id, start_date, end_date } as never;
      assertEquals((await admin.client.rpc("api_key_usage", days)).error?.code, "22023");
    }
    for (const query of queries) {
      for (const name of ["read_audit_log", "list_seals", "daily_entry_counts"] as const) {
        const { error } = await admin.client.rpc(name, { organization_id, query });
        assertEquals(error?.code, "22023", `${name} ${JSON.stringify(query)}`);
      }
    }
    const query = pageQuery("2026-03-01", "2026-03-02", { after: "AAAA" });
    const { error } = await admin.client.rpc("read_audit_log", { organization_id, query });
    assertEquals(error?.code, "AL003");
  });

  it("finds the first ten persons whose address begins with a prefix, in any capitals", async () => {
    const { id } = await newOrganization(admin);
    for (const name of ["ada", "Ada", "b_b", "bob"]) {
      await insertEntries(sql, id, "2026-03-01", 500, { user_email: `${name}@example.com` });
    }
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
      select ${id}, 'agent_added', 'c' || n || '@example.com', 'x' from generate_series(10, 40) as n`;
    const find = (prefix: string) =>
      call<string[]>(admin, "find_persons", { organization_id: id, prefix });
    assertEquals(await find("AD"), ["ada@example.com"]);
    assertEquals(await find("b"), ["b_b@example.com", "bob@example.com"]);
    for (const none of ["_", "%", "z", "ada@example.com "]) assertEquals(await find(none), []);
    const ten = Array.from({ length: 10 }, (_, n) => `c${n + 10}@example.com`);
    assertEquals(await find("c"), ten);
    assertEquals((await find("")).length, 10);
  });
});
