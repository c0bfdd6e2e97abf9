// Needs a stack.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { recipe } from "../helpers/existing_project.ts";
import { newOrganization, type Person, rolledBack, type Run, signUp, sql } from "../helpers/mod.ts";
import { valueOf } from "../helpers/mod.ts";
import { inKit, written } from "./starter_kit.ts";

/** A statement of Supabase Auth's, and what is logged of it. */
type Event = [statement: string, action?: string, data?: Record<string, unknown>];

function attempt(user_id: string, more: object): string {
  const event = JSON.stringify({ user_id, ...more });
  return `select audit_log_private.custom_sign_in_attempt('${event}')`;
}

/** All that happens to an account, from the first sign-in to its deletion. */
function eventsOf({ id, email }: Person): Event[] {
  const [session_id, factor_id, passkey_id] = [1, 2, 3].map(() => crypto.randomUUID());
  const [identity_id, client_id] = [crypto.randomUUID(), crypto.randomUUID()];
  const caller = { id, kind: "person", user_agent: "Firefox", client_id };
  const totp = { factor_id, factor_type: "totp" };
  const github = { identity_id, provider: "github" };
  return [
    // Local stacks have no such table, and no foreign key to it.
    [`do $$ begin
      insert into auth.oauth_clients
        (id, registration_type, redirect_uris, grant_types, client_type, token_endpoint_auth_method)
      values ('${client_id}', 'manual', 'https://a.example', 'authorization_code', 'public', 'none');
    exception when undefined_table then null; end $$`],
    [attempt(id, { valid: true })],
    [attempt(id, { valid: false }), "sign_in_failed", { factor: "password" }],
    [attempt(id, { valid: false, factor_type: "totp" }), "sign_in_failed", { factor: "totp" }],
    [
      `insert into auth.sessions (id, user_id, user_agent, oauth_client_id)
        values ('${session_id}', '${id}', 'Firefox', '${client_id}')`,
      "signed_in",
      { session_id, caller },
    ],
    [`insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at)
      values ('${factor_id}', '${id}', 'totp', 'unverified', now(), now())`],
    ["update auth.mfa_factors set status = 'verified'", "second_factor_added", totp],
    ["update auth.mfa_factors set updated_at = now()"],
    ["delete from auth.mfa_factors", "second_factor_removed", totp],
    [
      `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key)
        values ('${passkey_id}', '${id}', '\\x01', '\\x02')`,
      "passkey_added",
      { passkey_id },
    ],
    ["delete from auth.webauthn_credentials", "passkey_removed", { passkey_id }],
    [
      `insert into auth.identities (id, user_id, provider_id, provider, identity_data)
        values ('${identity_id}', '${id}', 'octocat', 'github', '{}')`,
      "identity_added",
      github,
    ],
    ["update auth.identities set last_sign_in_at = now()"],
    [`delete from auth.identities where id = '${identity_id}'`, "identity_removed", github],
    [`update auth.users set last_sign_in_at = now() where id = '${id}'`],
    [`update auth.users set encrypted_password = 'x' where id = '${id}'`, "password_changed", {}],
    [
      `update auth.users set email = 'new-' || email where id = '${id}'`,
      "email_changed",
      { former_email: email },
    ],
    [`delete from auth.sessions where id = '${session_id}'`, "signed_out", { session_id }],
    // A soft deletion.
    [`update auth.users set deleted_at = now(), encrypted_password = '' where id = '${id}'`],
    // Other sessions end with it, which is no sign-out. The entry has the address, which nobody can look up any more.
    [`delete from auth.users where id = '${id}'`, "account_deleted", {}],
  ];
}

/** Installs the recipe, which may be pushed again, in a transaction that is undone. */
function withRecipe(run: (transaction: Run) => Promise<void>): Promise<void> {
  return rolledBack(sql, async (transaction) => {
    for (let n = 0; n < 2; n++) await transaction.unsafe(recipe("sign_ins.sql"));
    await run(transaction);
  });
}

async function failuresIn(run: Run): Promise<string[]> {
  const rows = await run`
    select logged from audit_log_private.logging_failures where logged like 'auth: %' order by 1`;
  return rows.map(({ logged }) => logged);
}

describe("docs/examples/adopting/sign_ins.sql", () => {
  it("writes each event of an account into the logs of all organizations of its person, and no other", async () => {
    const person = await signUp();
    const logs = [await newOrganization(person), await newOrganization(person)];
    await newOrganization(await signUp());
    await withRecipe(async (run) => {
      let email = person.email;
      const seen: string[] = [];
      for (const [statement, action, data] of eventsOf(person)) {
        await run.unsafe(statement);
        if (action === "email_changed") email = `new-${email}`;
        const entries = await run`
          select id, organization_id, action, user_email, data #- '{caller,address}' as data from audit_log.audit_entries
          where transaction_id = audit_log_private.transaction_number() and id <> all (${seen}::uuid[])`;
        const expected = logs.map(({ id }) => [id, action, email, { user_id: person.id, ...data }]);
        assertEquals(
          new Set(entries.map(({ id: _, ...entry }) => Object.values(entry))),
          new Set(action ? expected : []),
          statement,
        );
        seen.push(...entries.map(({ id }) => id));
      }
      assertEquals(await failuresIn(run), []);
    });
  });

  it("never stops a sign-in or a deletion: not when the log is locked, nor when functions or tables that it reads fail", async () => {
    const person = await signUp();
    const { id } = await newOrganization(person);
    const session = crypto.randomUUID();
    const statements = [
      attempt(person.id, { valid: false }),
      `insert into auth.sessions (id, user_id) values ('${session}', '${person.id}')`,
      `delete from auth.sessions where id = '${session}'`,
      `delete from auth.users where id = '${person.id}'`,
    ];
    const counted = ["account_deleted", "sign_in_failed", "signed_in", "signed_out"]
      .map((action) => `auth: ${action}`);
    const failing = `create or replace function audit_log_private.my_organizations()
      returns table (id text, name text, role text) language plpgsql stable as
      $$ begin raise exception 'down'; end $$`;
    const moved = "alter table audit_log_private.logging_failures rename to moved";
    const cases: [locked: string, change: string, failures: string[]][] = [
      ["audit_log.audit_entries", "", counted],
      ["audit_log.audit_entries, audit_log_private.logging_failures", "", []],
      ["", failing, counted],
      ["", `${failing}; ${moved}`, []],
    ];
    for (const [locked, change, failures] of cases) {
      await withRecipe(async (run) => {
        await run.unsafe(change);
        await rolledBack(sql, async (other) => {
          if (locked) await other.unsafe(`lock table ${locked}`);
          for (const statement of statements) await run.unsafe(statement);
        });
        if (change.includes(moved)) {
          await run`alter table audit_log_private.moved rename to logging_failures`;
        }
        assertEquals(await failuresIn(run), failures, locked + change);
        const written = await run`
          select from audit_log.audit_entries where organization_id = ${id} and agent_name = 'Supabase Auth'`;
        assertEquals(written.length, 0);
      });
    }
  });

  it("lets Auth call the hook, and nobody else call anything", () =>
    withRecipe(async (run) => {
      const called = await run`
        select r.rolname, p.proname from pg_roles r cross join pg_proc p
        where p.proname like 'custom!_%' escape '!' and has_function_privilege(r.oid, p.oid, 'execute')
          and r.rolname in ('anon', 'authenticated', 'service_role', 'supabase_auth_admin')`;
      assertEquals(called.map(({ rolname, proname }) => `${rolname} ${proname}`), [
        "supabase_auth_admin custom_sign_in_attempt",
      ]);
      const answer = run.unsafe(attempt("?", { valid: false }));
      assertEquals(await valueOf(answer), { decision: "continue" });
    }));
});

it("a sign-in that the log of one organization refuses is in the logs of the others, and counted", () =>
  inKit(async (run) => {
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
  }));
