import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  API_URL,
  listApiKeys,
  newOrganization,
  type Person,
  PUBLISHABLE_KEY,
  rolledBack,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import {
  ABOUT_ONESELF,
  type Attack,
  attacksOf,
  conditions,
  DAY,
  documentedPaths,
  type Guess,
  json,
  jsonValue,
  servedObjects,
  value,
  values,
} from "./data_api_attacks.ts";
import { compareTimes, MEASURABLE } from "./timing.ts";

// Somebody who does not belong to an organization tries to learn from the Data API whether an e-mail
// address occurs in its log, and whether it, or one of its keys or entries, exists. They guess: each attack
// is made with what exists, and again with what does not. It must be refused, and the two answers be the same.

interface Attacker {
  /** Who it is, for messages. */
  name: string;
  person: Person;
  authorization: string;
  /** The organization that they administer. */
  organizationId?: string;
}

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
// So often that it is in the planner's statistics.
await writeEntries(tenant.id, Array.from({ length: 1000 }, () => ({ user_email: RIGHT.email })));
await writeEntries(tenant.id, [{ id: RIGHT.entryId, created_at: DAY, user_email: RIGHT.email }]);
// The address is what is guessed for every text.
await sql`update audit_log.organizations set external_id = ${RIGHT.email} where id = ${tenant.id}`;
await sql`analyze audit_log.audit_entries, audit_log.organizations, audit_log.organization_members`;
const stranger = await attacker("a stranger", await signUp());
const rival = await attacker("another organization's administrator", await signUp(), true);

async function attacker(name: string, person: Person, isAdmin = false): Promise<Attacker> {
  const { data } = await person.client.auth.getSession();
  const authorization = `Bearer ${data.session?.access_token}`;
  if (!isAdmin) return { name, person, authorization };
  const { id: organizationId } = await newOrganization(person);
  await writeEntries(organizationId, [{ user_email: person.email }]);
  return { name, person, authorization, organizationId };
}

/** How the database says no: to the caller, or because what is asked for does not exist for anybody. */
const REFUSALS = [
  // Insufficient privilege.
  "42501",
  // The answer of a function has no such column, or no such operator.
  "42703",
  "42883",
  // The Data API serves no plans, and counts no sums; there is no such relationship.
  "PGRST107",
  "PGRST123",
  "PGRST200",
];

/** An answer, as far as a guess could be told from it. */
interface Answer {
  status: number;
  code: string | undefined;
  /** All of it; what the attacker sent is left out where it is repeated. */
  text: string;
}

async function send(
  { authorization }: Attacker,
  { path, init }: Attack,
  guess: Guess,
): Promise<Answer> {
  const headers = new Headers(init?.headers);
  headers.set("apikey", PUBLISHABLE_KEY);
  headers.set("Authorization", authorization);
  headers.set("Accept-Profile", "audit_log");
  headers.set("Content-Profile", "audit_log");
  const response = await fetch(`${API_URL}/rest/v1/${path}`, { ...init, headers });
  const body = await response.text();
  const answered = [...response.headers].filter(([name]) => name !== "date");
  let text = `${response.status} ${JSON.stringify(answered)} ${body}`;
  for (const sent of Object.values(guess)) {
    text = text.replaceAll(sent, "…").replaceAll(encodeURIComponent(sent), "…");
  }
  const code = response.ok || body === "" ? undefined : JSON.parse(body).code;
  return { status: response.status, code, text };
}

/** Makes attacks, several at a time, each with both guesses; what they came upon: nothing, if all is well. */
async function attack(by: Attacker, only?: string): Promise<string[]> {
  const attacks = (guess: Guess) => attacksOf(sql, by.organizationId, guess, only);
  const [rights, wrongs] = [await attacks(RIGHT), await attacks(WRONG)];
  assert(only || rights.length > 300, `only ${rights.length} attacks`);
  const weaknesses: string[] = [];
  const remaining = rights.entries();
  await Promise.all(Array.from({ length: 6 }, async () => {
    for (const [n, each] of remaining) {
      const right = await send(by, each, RIGHT);
      const wrong = await send(by, wrongs[n] ?? each, WRONG);
      const { path, init, mayAnswer } = each;
      const what = `${by.name}: ${init?.method ?? "GET"} ${path} ${JSON.stringify(init?.headers)}`;
      // The answer to HEAD says no code.
      const isRefused = init?.method === "HEAD"
        ? right.status >= 400 && right.status < 500
        : REFUSALS.includes(right.code ?? "");
      if (!isRefused && !mayAnswer) weaknesses.push(`answered: ${what}: ${right.text}`);
      if (right.text !== wrong.text) {
        weaknesses.push(`told apart: ${what}: ${right.text} or ${wrong.text}`);
      }
    }
  }));
  return weaknesses;
}

/** What became of a statement of a person's. */
interface Outcome {
  /** Its error's SQLSTATE. */
  code: string | undefined;
  /** The tables and indexes of ours that its planning and its execution have looked into. */
  tablesRead: string[];
}

/** Runs a statement with a person's rights, without the Data API, and undoes it. */
async function runAs({ id }: Person, statement: string): Promise<Outcome> {
  return await rolledBack(sql, async (transaction) => {
    const before = await scans(transaction);
    const claims = JSON.stringify({ sub: id, role: "authenticated" });
    await transaction`savepoint before`;
    await transaction`select set_config('request.jwt.claims', ${claims}, true)`;
    await transaction`set local role authenticated`;
    const code = await transaction.unsafe(statement).then(() => undefined, (error) => error.code);
    await transaction`rollback to before`;
    const after = await scans(transaction);
    const tablesRead = Object.keys(after).filter((name) => after[name] !== before[name]);
    return { code, tablesRead };
  });
}

/** How often a connection has looked into each of our tables, by itself or by an index. */
async function scans(connection: postgres.ISql): Promise<Record<string, string>> {
  const rows = await connection<{ name: string; scans: string }[]>`
    select concat(schemaname, '.', relname) as name, seq_scan + coalesce(idx_scan, 0) as scans
    from pg_stat_xact_user_tables where schemaname in ('audit_log', 'audit_log_private')`;
  return Object.fromEntries(rows.map(({ name, scans }) => [name, scans]));
}

/** Resolves when the Data API has read of a new function. */
async function untilServed(path: string): Promise<void> {
  for (let i = 0; i < 1000; i++) {
    const { code } = await send(rival, { path }, WRONG);
    if (code !== "PGRST202") return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`The Data API does not serve ${path}`);
}

describe("of a tenant's address, organization and keys", () => {
  for (const by of [stranger, rival]) {
    it(`${by.name} learns nothing by any request for any table, view or function`, async () => {
      assertEquals(await attack(by), []);
    });

    it(`${by.name} learns nothing from explain: no function looks into a table`, async () => {
      const { functions } = await servedObjects(sql);
      for (const { name, parameters } of functions) {
        if (ABOUT_ONESELF.includes(name)) continue;
        const given = parameters.map((each) => `${each.name} => '${value(each, RIGHT)}'`);
        const statement = `explain analyze select audit_log.${name}(${given})`;
        const { code, tablesRead } = await runAs(by.person, statement);
        assertEquals(code, "42501", statement);
        // Who administers what.
        const others = tablesRead.filter((table) => table !== "audit_log.organization_members");
        assertEquals(others, [], statement);
      }
    });
  }

  it("nobody learns anything from how long the Data API takes to refuse a table", async () => {
    for (const { name, columns } of (await servedObjects(sql)).tables) {
      const column = columns.find(({ type }) => type === "text") ??
        columns.find(({ type }) => type === "uuid");
      if (!column) continue;
      const init = { method: "HEAD", headers: { Prefer: "count=planned" } };
      const ask = (guess: Guess) =>
        send(rival, { path: `${name}?${conditions(column, guess)[0]}`, init }, guess);
      await assertSameTimes(name, ask);
    }
  });

  it("nothing that the Data API says it serves is left out of the attacks", async () => {
    const { tables, functions } = await servedObjects(sql);
    const attacked = new Set([
      ...tables.map(({ name }) => `/${name}`),
      ...functions.map(({ name }) => `/rpc/${name}`),
    ]);
    const paths = await documentedPaths("audit_log");
    assert(paths.includes("/audit_entries"), paths.join());
    assertEquals(paths.filter((path) => !attacked.has(path)), []);
    assertEquals(await documentedPaths("public"), []);
  });
});

describe("the attacks", () => {
  it("would find what row level security alone lets through: the planner's estimates", async () => {
    await sql.unsafe(`
      create function audit_log.mine() returns setof uuid
        language sql stable security definer set search_path = ''
        as 'select m.organization_id from audit_log.organization_members m where m.user_id = auth.uid()::text';
      create policy mine on audit_log.audit_entries for select to authenticated
        using (organization_id in (select audit_log.mine()));
      grant select on audit_log.audit_entries to authenticated`);
    try {
      await untilServed("rpc/mine");
      const weaknesses = await attack(rival, "audit_entries");
      const told = /^told apart: .*HEAD.*user_email=eq.*count=planned/;
      assert(weaknesses.some((weakness) => told.test(weakness)), weaknesses[0]);
    } finally {
      await sql.unsafe(`
        revoke select on audit_log.audit_entries from authenticated;
        drop policy mine on audit_log.audit_entries;
        drop function audit_log.mine`);
    }
  });
});

describe("whether an organization, a key or an entry exists", () => {
  for (const by of [stranger, rival]) {
    it(`is told to ${by.name} by no answer and by no time`, async () => {
      const functions = (await servedObjects(sql)).functions
        .filter(({ parameters }) => parameters.some(({ name }) => name === "organization_id"));
      assertEquals(functions.map(({ name }) => name), [
        "api_key_usage",
        "create_api_key",
        "daily_entry_counts",
        "latest_seal",
        "list_actions",
        "list_api_keys",
        "list_seals",
        "read_audit_log",
        "read_entry",
        "revoke_api_key",
        "rotate_api_key",
      ]);
      for (const { name, parameters } of functions) {
        await assertNotTold(by, name, (guess) => values(parameters, guess, jsonValue));
      }
    });
  }

  it("is told by no call about one's own organization that names another's key", async () => {
    for (const name of ["revoke_api_key", "rotate_api_key"]) {
      await assertNotTold(rival, name, ({ apiKeyId }) => ({
        organization_id: rival.organizationId,
        api_key_id: apiKeyId,
      }));
    }
    const [key, ...others] = await listApiKeys(admin, tenant.id);
    assertEquals([key?.revoked_at, key?.expires_at, others], [null, null, []]);
  });

  it("is told by no call about one's own organization that names another's entry", async () => {
    const ask = async (guess: Guess) => {
      const { organizationId: organization_id } = rival;
      const init = json({ organization_id, created_at: DAY, id: guess.entryId });
      const { status, text } = await send(rival, { path: "rpc/read_entry", init }, guess);
      assertEquals([status, text.endsWith(" null")], [200, true], text);
    };
    await assertSameTimes("read_entry", ask);
  });

  it("is not told by choosing a key's id: one that another organization uses is as free as any, in the same time", async () => {
    const taken = await sql<{ id: string }[]>`
      select audit_log_private.insert_api_key(${tenant.id}, 'x') ->> 'id' as id from generate_series(1, 250)`;
    const ids = taken.values();
    await assertSameTimes("create_api_key", async (guess) => {
      const api_key_id = guess === RIGHT ? ids.next().value?.id : crypto.randomUUID();
      const init = json({ organization_id: rival.organizationId, name: "x", api_key_id });
      const { status, text } = await send(rival, { path: "rpc/create_api_key", init }, guess);
      assertEquals(status, 200, text);
    });
  });
});

/** Asserts that calls with both guesses meet one refusal, in times that cannot be told apart. */
async function assertNotTold(by: Attacker, name: string, given: (guess: Guess) => object) {
  const ask = (guess: Guess) => send(by, { path: `rpc/${name}`, init: json(given(guess)) }, guess);
  const [right, wrong] = [await ask(RIGHT), await ask(WRONG)];
  assertEquals(right, wrong, name);
  assertEquals([right.status, right.code], [403, "42501"], name);
  await assertSameTimes(name, ask);
}

async function assertSameTimes(name: string, ask: (guess: Guess) => Promise<unknown>) {
  const z = await compareTimes(() => ask(RIGHT), () => ask(WRONG));
  assert(Math.abs(z) < MEASURABLE, `${name}: z = ${z}`);
}
