// Needs a stack.

import { assert, assertEquals } from "@std/assert";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { valueOf } from "../../dev/harness/project.ts";
import postgres from "postgres";
import { supabaseAuthProgram } from "../../dev/local/supabase_auth.ts";
import { startTemporaryStack, type TemporaryStack } from "../../dev/local/temporary_stack.ts";
import { client, newOrganization, type Person, signUp } from "../helpers/people.ts";
import { totp } from "../helpers/totp.ts";
import { recipe } from "../helpers/existing_project.ts";
import { inKit, written } from "./starter_kit.ts";

it("a sign-in that the log of one organization refuses is in the logs of the others, and counted", async () => {
  await inKit(async (run) => {
    const [functions = ""] = recipe("sign_ins.sql").split("create or replace trigger");
    await run.unsafe(`${functions}
      create or replace function audit_log_private.my_organizations()
      returns table (id text, name text, role text) language sql stable as
      $$ values ('one', '', ''), (repeat('x', 201), '', ''), ('two', '', '') $$`);
    const account: string = await valueOf(run`
      insert into auth.users (id, email) values (gen_random_uuid(), 'grace@example.com') returning id`);
    await run`select audit_log_private.custom_write_sign_in(${account}, 'signed_in', '{}')`;
    const signedIn = (await written(run)).map((entry) => [entry.organization, entry.user_email]);
    assertEquals(signedIn, [["one", "grace@example.com"], ["two", "grace@example.com"]]);
    const failures = run`select logged, failures::int from audit_log_private.logging_failures`;
    assertEquals([...await failures], [{ logged: "auth: signed_in", failures: 1 }]);
  });
});

if (supabaseAuthProgram()) {
  describe("docs/examples/adopting/sign_ins.sql, with a Supabase Auth,", test);
} else {
  console.log("sign_ins_test.ts is not run: SUPABASE_AUTH_BIN names no Supabase Auth");
}

const HOOK = "pg-functions://postgres/audit_log_private/custom_sign_in_attempt";

function test() {
  let stack: TemporaryStack;
  let sql: postgres.Sql;
  beforeAll(async () => {
    stack = await startTemporaryStack({
      authSettings: {
        GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_ENABLED: "true",
        GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI: HOOK,
        GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_ENABLED: "true",
        GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_URI: HOOK,
        // As on hosted projects.
        GOTRUE_AUDIT_LOG_DISABLE_POSTGRES: "true",
      },
    });
    sql = postgres(stack.databaseUrl, { onnotice: () => {} });
    await sql.unsafe(recipe("sign_ins.sql"));
    // May be pushed again.
    await sql.unsafe(recipe("sign_ins.sql"));
  });
  afterAll(async () => {
    await sql.end();
    await stack[Symbol.asyncDispose]();
  });

  /** The entries of an organization, without those of before. */
  async function entriesOf(id: string) {
    return [
      ...await sql`
        select action, user_email, data from audit_log.audit_entries
        where organization_id = ${id} order by created_at, id`,
    ];
  }
  const actionsOf = async (id: string) => (await entriesOf(id)).map(({ action }) => action);

  function signIn({ email }: Person, password: string) {
    const device = client("anon", stack);
    return device.auth.signInWithPassword({ email, password })
      .then(({ error }) => ({ error, device }));
  }

  it("writes each event of an account into the logs of all organizations of its person, and no other", async () => {
    const person = await signUp(stack);
    const logs = [
      await newOrganization(person, "One", stack),
      await newOrganization(person, "Two", stack),
    ];
    const other = await newOrganization(await signUp(stack), "Other", stack);
    assert((await signIn(person, "wrong")).error);
    const { error, device } = await signIn(person, person.password);
    assertEquals(error, null);
    const enrolled = await device.auth.mfa.enroll({ factorType: "totp" });
    if (enrolled.error) throw enrolled.error;
    const factor = enrolled.data;
    const verify = (code: string) =>
      device.auth.mfa.challengeAndVerify({ factorId: factor.id, code });
    assert((await verify("000000")).error);
    assertEquals((await verify(totp(factor.totp.secret))).error, null);
    assertEquals((await device.auth.updateUser({ data: { theme: "dark" } })).error, null);
    const password = crypto.randomUUID();
    assertEquals((await device.auth.updateUser({ password })).error, null);
    assertEquals((await device.auth.mfa.unenroll({ factorId: factor.id })).error, null);
    assertEquals((await device.auth.signOut({ scope: "local" })).error, null);
    for (const { id } of logs) {
      const entries = await entriesOf(id);
      assertEquals(entries.map(({ action }) => action), [
        "sign_in_failed",
        "signed_in",
        "sign_in_failed",
        // The session of the sign-up ends, because it did not use the new factor.
        "second_factor_added",
        "signed_out",
        "password_changed",
        "second_factor_removed",
        "signed_out",
      ]);
      for (const { user_email, data } of entries) {
        assertEquals([user_email, data.user_id], [person.email, person.id]);
      }
      const [failed, signedIn, failedCode, added] = entries;
      assertEquals([failed?.["data"].factor, failedCode?.["data"].factor], ["password", "totp"]);
      assertEquals(added?.["data"].factor_id, factor.id);
      const { id: caller, kind, user_agent } = signedIn?.["data"].caller;
      assertEquals([caller, kind, typeof user_agent], [person.id, "person", "string"]);
      assertEquals(signedIn?.["data"].session_id, entries.at(-1)?.["data"].session_id);
    }
    assertEquals(await entriesOf(other.id), []);
    // Its sessions end with it, which is no sign-out. The entry has the address, which nobody can look up any more.
    const deleted = client("service_role", stack).auth.admin.deleteUser(person.id);
    assertEquals((await deleted).error, null);
    for (const { id } of logs) {
      const [last, ...more] = (await entriesOf(id)).slice(8);
      assertEquals([last?.["action"], last?.["user_email"], more], [
        "account_deleted",
        person.email,
        [],
      ]);
    }
    const failures = sql`select * from audit_log_private.logging_failures`;
    assertEquals([...await failures], []);
  });

  it("writes which application has a session, and that passkeys, linked identities and the address changed", async () => {
    const person = await signUp(stack);
    const { id } = await newOrganization(person, "One", stack);
    const changed = `${crypto.randomUUID()}@example.com`;
    const { admin } = client("service_role", stack).auth;
    assertEquals((await admin.updateUserById(person.id, { email: changed })).error, null);
    const [application] = await sql`
      insert into auth.oauth_clients
        (id, registration_type, redirect_uris, grant_types, client_type, token_endpoint_auth_method)
      values (gen_random_uuid(), 'manual', 'https://example.com', 'authorization_code', 'public', 'none')
      returning id`;
    await sql`
      insert into auth.sessions (id, user_id, oauth_client_id)
      values (gen_random_uuid(), ${person.id}, ${application?.["id"]})`;
    const [passkey] = await sql`
      insert into auth.webauthn_credentials (user_id, credential_id, public_key)
      values (${person.id}, '\\x01', '\\x02') returning id`;
    await sql`delete from auth.webauthn_credentials where id = ${passkey?.["id"]}`;
    const [identity] = await sql`
      insert into auth.identities (user_id, provider_id, provider, identity_data)
      values (${person.id}, 'octocat', 'github', '{}') returning id`;
    await sql`update auth.identities set last_sign_in_at = now() where id = ${identity?.["id"]}`;
    await sql`delete from auth.identities where id = ${identity?.["id"]}`;
    // A soft deletion also blanks the address and the password.
    assertEquals((await admin.deleteUser(person.id, true)).error, null);
    const user_id = person.id;
    const entries = await entriesOf(id);
    const said = entries.filter(({ action }) => action !== "signed_out")
      .map(({ action, user_email, data: { session_id: _, caller, ...data } }) =>
        [action, user_email, data, caller?.client_id].slice(0, caller ? 4 : 3)
      );
    const github = { user_id, identity_id: identity?.["id"], provider: "github" };
    assertEquals(said, [
      ["email_changed", changed, { user_id, former_email: person.email }],
      ["signed_in", changed, { user_id }, application?.["id"]],
      ["passkey_added", changed, { user_id, passkey_id: passkey?.["id"] }],
      ["passkey_removed", changed, { user_id, passkey_id: passkey?.["id"] }],
      ["identity_added", changed, github],
      ["identity_removed", changed, github],
    ]);
  });

  it("never stops a sign-in or a deletion: not when the log is locked, nor when functions or tables that it reads fail", async () => {
    const person = await signUp(stack);
    const { id } = await newOrganization(person, "One", stack);
    const leavers: Person[] = [];
    for (let n = 0; n < 4; n++) {
      const leaver = await signUp(stack);
      await newOrganization(leaver, "Two", stack);
      leavers.push(leaver);
    }
    /** Signs in, once with a wrong password, and deletes another account, while others have done something to the log. */
    const during = async (change: string) => {
      const session = await sql.reserve();
      await session`begin`;
      await session.unsafe(change);
      const leaver = leavers.pop() ?? person;
      if (!change.startsWith("lock")) await session`commit`;
      assertEquals((await signIn(person, "wrong")).error?.code, "invalid_credentials", change);
      const { error, device } = await signIn(person, person.password);
      assertEquals(error, null, change);
      assertEquals((await device.auth.signOut({ scope: "local" })).error, null, change);
      const deleted = client("service_role", stack).auth.admin.deleteUser(leaver.id);
      assertEquals((await deleted).error, null, change);
      await session`rollback`;
      session.release();
    };
    const body =
      await sql`select pg_get_functiondef('audit_log_private.my_organizations'::regproc) as text`;
    await during("lock table audit_log.audit_entries");
    await during("lock table audit_log.audit_entries, audit_log_private.logging_failures");
    await during(`create or replace function audit_log_private.my_organizations()
      returns table (id text, name text, role text) language plpgsql stable as
      $$ begin raise exception 'down'; end $$`);
    await during("alter table audit_log_private.logging_failures rename to moved");
    await sql`alter table audit_log_private.moved rename to logging_failures`;
    await sql.unsafe(body[0]?.["text"]);
    assertEquals(await actionsOf(id), []);
    const failed = await sql`
      select logged, sum(failures)::int as failures from audit_log_private.logging_failures group by 1 order by 1`;
    assertEquals(failed.map(({ logged, failures }) => [logged, failures]), [
      ["auth: account_deleted", 2],
      ["auth: sign_in_failed", 2],
      ["auth: signed_in", 2],
      ["auth: signed_out", 2],
    ]);
  });

  it("lets Auth call the hook, and nobody else call anything", async () => {
    const called = await sql`
      select r.rolname, p.proname from pg_roles r cross join pg_proc p
      where p.proname like 'custom!_%' escape '!' and has_function_privilege(r.oid, p.oid, 'execute')
        and r.rolname in ('anon', 'authenticated', 'service_role', 'supabase_auth_admin')`;
    assertEquals(called.map(({ rolname, proname }) => `${rolname} ${proname}`), [
      "supabase_auth_admin custom_sign_in_attempt",
    ]);
    const [answer] =
      await sql`select audit_log_private.custom_sign_in_attempt('{"valid":false,"user_id":"?"}')`;
    assertEquals(answer?.["custom_sign_in_attempt"], { decision: "continue" });
  });
}
