// Needs a local stack. Slow.

import { REFUSED_QUERIES } from "../helpers/postgrest.ts";
import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { actAs, API_URL, codeOf, listApiKeys, newOrganization } from "../helpers/mod.ts";
import { type Person, PUBLISHABLE_KEY, rolledBack, type Run, signUp, sql } from "../helpers/mod.ts";
import { writeEntries } from "../helpers/mod.ts";
import { ABOUT_ONESELF, type Attack, attacksOf, DAY, type Guess } from "./data_api_attacks.ts";
import { json, jsonValue, servedFunctions, value, values } from "./data_api_attacks.ts";
import { assertSameTimes } from "./timing.ts";

// Attackers who do not belong to an organization ask the Data API whether an e-mail address occurs
// in its log, and whether it, its keys or its entries exist. Each attack is made with a right guess
// and with a wrong one. Both must be refused with the same answer.

const admin = await signUp();
const tenant = await newOrganization(admin);
const RIGHT: Guess = {
  email: "ada@example.com",
  organizationId: tenant.id,
  apiKeyId: tenant.apiKeyId,
  entryId: crypto.randomUUID(),
};
const WRONG: Guess = {
  email: "eve@example.com",
  organizationId: crypto.randomUUID(),
  apiKeyId: crypto.randomUUID(),
  entryId: crypto.randomUUID(),
};
// So many that the address gets into the planner's statistics.
await writeEntries(tenant.id, Array.from({ length: 1000 }, () => ({ user_email: RIGHT.email })));
await writeEntries(tenant.id, [{ id: RIGHT.entryId, created_at: DAY, user_email: RIGHT.email }]);
await sql`analyze audit_log.audit_entries, audit_log.organizations, audit_log.organization_members`;

const administrator = await signUp();
const { id: rivalId } = await newOrganization(administrator);
await writeEntries(rivalId, [{ user_email: administrator.email }]);
const stranger = await attacker("a stranger", await signUp());
const rival = await attacker("another organization's administrator", administrator, rivalId);
type Attacker = typeof stranger;

/** Describes a person, perhaps with the organization that they administer. */
async function attacker(name: string, person: Person, organizationId?: string) {
  const { data } = await person.client.auth.getSession();
  const authorization = `Bearer ${data.session?.access_token}`;
  return { name, person, authorization, organizationId };
}

/** The caller lacks the privilege; there is no such column, operator or relationship; no plans, no sums. */
const REFUSALS = ["42501", "42703", "42883", ...REFUSED_QUERIES];

async function send({ authorization }: Attacker, { path, init }: Attack, guess: Guess) {
  const profile = { "Accept-Profile": "audit_log", "Content-Profile": "audit_log" };
  const caller = { apikey: PUBLISHABLE_KEY, Authorization: authorization };
  const headers = { ...init?.headers, ...profile, ...caller };
  const response = await fetch(`${API_URL}/rest/v1/${path}`, { ...init, headers });
  const body = await response.text();
  const answered = [...response.headers].filter(([name]) => name !== "date");
  // All of the answer, without the guess where it is repeated.
  let text = `${response.status} ${JSON.stringify(answered)} ${body}`;
  for (const sent of Object.values(guess)) {
    text = text.replaceAll(sent, "…").replaceAll(encodeURIComponent(sent), "…");
  }
  const code: string = response.ok || body === "" ? "" : JSON.parse(body).code;
  return { status: response.status, code, text };
}

/** Makes each attack with both guesses, several at a time. Lists those that were not refused alike. */
async function attack(by: Attacker): Promise<string[]> {
  const rights = await attacksOf(sql, by.organizationId, RIGHT);
  const wrongs = await attacksOf(sql, by.organizationId, WRONG);
  assert(rights.length > 200, `only ${rights.length} attacks`);
  const weaknesses: string[] = [];
  const remaining = rights.entries();
  await Promise.all(Array.from({ length: 6 }, async () => {
    for (const [n, each] of remaining) {
      const right = await send(by, each, RIGHT);
      const wrong = await send(by, wrongs[n] ?? each, WRONG);
      const { path, init, mayAnswer } = each;
      const what = `${init?.method ?? "GET"} ${path} ${JSON.stringify(init?.headers)}`;
      // The answer to HEAD has no code.
      const isRefused = init?.method === "HEAD"
        ? right.status >= 400 && right.status < 500
        : REFUSALS.includes(right.code);
      if (!isRefused && !mayAnswer) weaknesses.push(`answered: ${what}: ${right.text}`);
      if (right.text !== wrong.text) {
        weaknesses.push(`told apart: ${what}: ${right.text} or ${wrong.text}`);
      }
    }
  }));
  return weaknesses;
}

/** Counts how often a transaction has looked into each of our tables, except that of the members. */
async function scans(connection: Run) {
  const tables = await connection`
    select relname, seq_scan, idx_scan from pg_stat_xact_user_tables
    where schemaname in ('audit_log', 'audit_log_private') and relname <> 'organization_members'
    order by relname`;
  return [...tables];
}

async function assertGuessesTakeTheSameTime(what: string, ask: (guess: Guess) => Promise<unknown>) {
  await assertSameTimes(what, () => ask(RIGHT), () => ask(WRONG));
}

/** Asserts that calls with both guesses are refused alike, and in the same time. */
async function assertNotTold(by: Attacker, name: string, given: (guess: Guess) => object) {
  const ask = (guess: Guess) => send(by, { path: `rpc/${name}`, init: json(given(guess)) }, guess);
  const [right, wrong] = [await ask(RIGHT), await ask(WRONG)];
  assertEquals(right, wrong, name);
  assertEquals([right.status, right.code], [403, "42501"], name);
  await assertGuessesTakeTheSameTime(name, ask);
}

for (const by of [stranger, rival]) {
  describe(by.name, () => {
    it("learns nothing about an organization by any request for any function", async () => {
      assertEquals(await attack(by), []);
    });

    it("learns nothing from explain analyze. Each call is refused before it reads any table but the members'", async () => {
      for (const { name, parameters } of await servedFunctions(sql)) {
        if (ABOUT_ONESELF.includes(name)) continue;
        const given = parameters.map((each) =>
          `${each.name && `${each.name} => `}'${value(each, RIGHT)}'`
        );
        const statement = `explain analyze select audit_log.${name}(${given})`;
        await rolledBack(sql, async (run) => {
          const before = await scans(run);
          await run`savepoint before`;
          await actAs(run, { sub: by.person.id });
          assertEquals(await codeOf(run.unsafe(statement)), "42501", statement);
          await run`rollback to before`;
          assertEquals(await scans(run), before, statement);
        });
      }
    });

    it("cannot tell from an answer or its time whether an organization, a key or an entry exists", async () => {
      const functions = (await servedFunctions(sql)).filter(({ parameters }) =>
        parameters.some(({ name }) => name === "organization_id")
      );
      assert(functions.length >= 11, `only ${functions.length} functions`);
      for (const { name, parameters } of functions) {
        await assertNotTold(by, name, (guess) => values(parameters, guess, jsonValue));
      }
    });
  });
}

describe("an administrator who names their own organization", () => {
  it("is not told whether another organization has a key, and cannot change it", async () => {
    for (const name of ["revoke_api_key", "rotate_api_key"]) {
      await assertNotTold(rival, name, ({ apiKeyId }) => (
        { organization_id: rivalId, api_key_id: apiKeyId }
      ));
    }
    const [key, ...others] = await listApiKeys(admin, tenant.id);
    assertEquals([key?.revoked_at, key?.expires_at, others], [null, null, []]);
  });

  it("is not told whether another organization has an entry", async () => {
    await assertGuessesTakeTheSameTime("read_entry", async (guess) => {
      const init = json({ organization_id: rivalId, created_at: DAY, id: guess.entryId });
      const { status, text } = await send(rival, { path: "rpc/read_entry", init }, guess);
      assertEquals([status, text.endsWith(" null")], [200, true], text);
    });
  });

  it("may give a key the id of another organization's key, and this takes no longer", async () => {
    const taken = await sql<{ id: string }[]>`
      select audit_log_private.insert_api_key(${tenant.id}, 'x') ->> 'id' as id from generate_series(1, 250)`;
    const ids = taken.values();
    await assertGuessesTakeTheSameTime("create_api_key", async (guess) => {
      const api_key_id = guess === RIGHT ? ids.next().value?.id : crypto.randomUUID();
      const init = json({ organization_id: rivalId, name: "x", api_key_id });
      // An organization has at most 100 live keys.
      await sql`
        delete from audit_log_private.api_keys where organization_id = ${rivalId} and name = 'x'`;
      const { status, text } = await send(rival, { path: "rpc/create_api_key", init }, guess);
      assertEquals(status, 200, text);
    });
  });
});
