import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  API_URL,
  listApiKeys,
  newOrganization,
  pageQuery,
  type Person,
  PUBLISHABLE_KEY,
  rolledBack,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import {
  documentedPaths,
  type Parameter,
  servedObjects,
  type ServedTable,
} from "./served_objects.ts";
import { compareTimes, MEASURABLE, rankSumZ } from "./timing.ts";

// Somebody who does not belong to an organization tries to learn from the Data API whether an e-mail
// address occurs in its log, and whether it, or one of its keys or entries, exists. They guess: each attack
// is made with what exists, and again with what does not. It must be refused, and the two answers be the same.

/** What an attacker supposes that there is. */
interface Guess {
  email: string;
  organizationId: string;
  apiKeyId: string;
  entryId: string;
}

interface Attacker {
  /** Who it is, for messages. */
  name: string;
  person: Person;
  authorization: string;
  /** The organization that they administer. */
  organizationId?: string;
}

/** One request, as it is made with one guess. */
interface Attack {
  path: string;
  init?: RequestInit | undefined;
  /** Whether any answer is right that is the same for both guesses: about what is the attacker's own. */
  mayAnswer?: boolean;
}

/** What the attacks came upon: nothing, if all is well. */
type Weakness = string;

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
const DAY = "2026-03-01";
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

/** Functions that take no organization: they answer about whoever asks. */
const ABOUT_ONESELF = ["list_organizations"];

const COUNTS = ["exact", "planned", "estimated"];
const PLANS = [
  "application/vnd.pgrst.plan",
  "application/vnd.pgrst.plan+json",
  'application/vnd.pgrst.plan+text; for="application/json"; options=analyze|verbose|settings|buffers',
];

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

/** What is sent for a parameter, as text. */
function value({ name, type }: Parameter, guess: Guess): string {
  switch (type) {
    case "uuid":
      if (name === "id") return guess.entryId;
      return name.includes("api_key") ? guess.apiKeyId : guess.organizationId;
    case "date":
    case "timestamptz":
      return DAY;
    case "text":
      return guess.email;
    case "page_query":
      return `(${DAY},${DAY},,,,,)`;
    case "jsonb":
      return JSON.stringify([{ organization_id: guess.organizationId, id: guess.entryId }]);
    default:
      throw new Error(`${name} is ${type}: say here what an attacker sends for it`);
  }
}

/** What is sent for a parameter in JSON. */
function jsonValue(parameter: Parameter, guess: Guess): string | object {
  if (parameter.type === "page_query") return pageQuery(DAY, DAY);
  const text = value(parameter, guess);
  return parameter.type === "jsonb" ? JSON.parse(text) : text;
}

/** The conditions by which a column can be guessed at, as PostgREST writes them. */
function conditions(column: Parameter, guess: Guess): string[] {
  const { name, type } = column;
  const { email, organizationId, entryId } = guess;
  if (type === "uuid") {
    const ids = name === "id" ? [organizationId, entryId] : [organizationId];
    return ids.map((id) => `${name}=eq.${id}`);
  }
  if (type !== "text") return [`${name}=not.is.null`];
  return ["eq.", "lt.", "like.*", "fts."].map((operator) => `${name}=${operator}${email}`);
}

/** Ways of reading, counting, ordering, joining and changing what meets a condition on a table. */
function attacksOnTable(
  { name, columns }: ServedTable,
  others: ServedTable[],
  guess: Guess,
): Attack[] {
  const ofColumn = (column: Parameter, condition: string): Attack[] => {
    const path = `${name}?${condition}`;
    const returned = { Prefer: "return=representation,count=exact" };
    return [
      ...COUNTS.flatMap((count) => {
        const headers = { Prefer: `count=${count}` };
        return [
          { path, init: { headers } },
          { path: `${path}&select=${column.name}&limit=0`, init: { headers, method: "HEAD" } },
        ];
      }),
      ...PLANS.map((Accept) => ({ path, init: { headers: { Accept } } })),
      { path: `${path}&order=${column.name}.desc&limit=1` },
      { path, init: { method: "DELETE", headers: returned } },
      ...others.map((other) => ({
        path: `${other.name}?select=*,${name}!inner(*)&${name}.${condition}`,
        init: { headers: { Prefer: "count=planned" } },
      })),
    ];
  };
  return columns.flatMap((column) =>
    conditions(column, guess).flatMap((condition) => ofColumn(column, condition))
  );
}

/** A body, and how it is sent. */
function json(body: object) {
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

interface FunctionAttackOptions {
  name: string;
  /** What it is called with, in the address and in a body. */
  given: Record<string, string>;
  body: object;
  writes: boolean;
  mayAnswer: boolean;
}

/** Calls of a function, and filters, orders, counts and plans of what it returns. */
function attacksOnFunction(
  { name, given, body, writes, mayAnswer }: FunctionAttackOptions,
  { email }: Guess,
): Attack[] {
  const path = `rpc/${name}`;
  const called = `${path}?${new URLSearchParams(given)}`;
  const attacks: Attack[] = [
    // With an organization of one's own, a call that writes may succeed.
    ...(!writes || !mayAnswer ? [{ path, init: json(body) }] : []),
    ...COUNTS.map((count) => ({ path: called, init: { headers: { Prefer: `count=${count}` } } })),
    ...[...PLANS, "application/vnd.pgrst.object+json"].map((Accept) => ({
      path: called,
      init: { headers: { Accept } },
    })),
    ...["user_email", "pgrst_scalar->>user_email", "pgrst_scalar->0->>name"].flatMap((result) =>
      [`${result}=eq.${email}`, `${result}=lt.${email}`, `order=${result}`, `select=${result}::int`]
        .map((suffix) => ({
          path: `${called}&${suffix}`,
          init: { headers: { Prefer: "count=planned" } },
        }))
    ),
  ];
  // Nobody needs the result, so Postgres need not call a function that only reads: it may answer.
  const unneeded = COUNTS.map((count): Attack => ({
    path: called,
    init: { method: "HEAD", headers: { Prefer: `count=${count}` } },
    mayAnswer: true,
  }));
  return [...attacks.map((attack) => ({ ...attack, mayAnswer })), ...unneeded];
}

/** Every attack with a guess on what the Data API serves now; `only` on what has this name. */
async function attacksOf(
  { organizationId }: Attacker,
  guess: Guess,
  only?: string,
): Promise<Attack[]> {
  const { tables, functions } = await servedObjects(sql);
  const isMeant = ({ name }: { name: string }) => !only || name === only;
  return [
    ...tables.filter(isMeant).flatMap((table) =>
      attacksOnTable(table, tables.filter((other) => other !== table), guess)
    ),
    ...functions.filter(isMeant).flatMap(({ name, parameters, writes }) => {
      const called = (own: { organization_id?: string }, mayAnswer: boolean) => {
        const given = { ...values(parameters, guess, value), ...own };
        const body = { ...values(parameters, guess, jsonValue), ...own };
        return attacksOnFunction({ name, given, body, writes, mayAnswer }, guess);
      };
      const attacks = called({}, ABOUT_ONESELF.includes(name));
      if (!organizationId || !parameters.some(({ name }) => name === "organization_id")) {
        return attacks;
      }
      return [...attacks, ...called({ organization_id: organizationId }, true)];
    }),
  ];
}

/** What a function is called with, by the names of its parameters. */
function values<T>(
  parameters: Parameter[],
  guess: Guess,
  valueOf: (parameter: Parameter, guess: Guess) => T,
): Record<string, T> {
  return Object.fromEntries(parameters.map((each) => [each.name, valueOf(each, guess)]));
}

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

/** Makes attacks, several at a time, each with both guesses. */
async function attack(by: Attacker, only?: string): Promise<Weakness[]> {
  const [rights, wrongs] = [await attacksOf(by, RIGHT, only), await attacksOf(by, WRONG, only)];
  assert(only || rights.length > 300, `only ${rights.length} attacks`);
  const weaknesses: Weakness[] = [];
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

/** Changes the schema for a time. */
async function whileChanged(change: string, undo: string, run: () => Promise<void>) {
  await sql.unsafe(change);
  try {
    await run();
  } finally {
    await sql.unsafe(undo);
  }
}

/** Resolves when the Data API has read of the new object that an attack is about. */
async function untilServed(first: Attack | undefined): Promise<void> {
  if (!first) throw new Error("There is nothing to attack");
  for (let i = 0; i < 1000; i++) {
    const { code } = await send(rival, first, WRONG);
    if (code !== "PGRST202" && code !== "PGRST205") return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`The Data API does not serve ${first.path}`);
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

  it("nothing is learnt from how long the Data API takes to refuse a table", async () => {
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

  it("all is attacked that the Data API says it serves", async () => {
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

/** What would be wrong, and its undoing; the object that is then attacked. */
const BREACHES: { change: string; undo: string; name: string; finds: RegExp }[] = [
  {
    change: "grant select (user_email) on audit_log.audit_entries to authenticated",
    undo: "revoke select on audit_log.audit_entries from authenticated",
    name: "audit_entries",
    finds: /^answered: .*HEAD.*count=exact/,
  },
  {
    // As it once was: row level security hides the rows, and the planner's estimate tells of them.
    change: `
      create function audit_log.mine() returns setof uuid
        language sql stable security definer set search_path = ''
        as 'select m.organization_id from audit_log.organization_members m where m.user_id = auth.uid()::text';
      create policy mine on audit_log.audit_entries for select to authenticated
        using (organization_id in (select audit_log.mine()));
      grant select on audit_log.audit_entries to authenticated`,
    undo: `
      revoke select on audit_log.audit_entries from authenticated;
      drop policy mine on audit_log.audit_entries;
      drop function audit_log.mine`,
    name: "audit_entries",
    finds: /^told apart: .*HEAD.*user_email=eq.*count=planned/,
  },
  {
    change: `
      create function audit_log.knows(organization_id uuid, email text) returns boolean
        language sql stable security definer set search_path = ''
        as 'select exists (select from audit_log.audit_entries where user_email = email)'`,
    undo: "drop function audit_log.knows",
    name: "knows",
    finds: /^(told apart|answered): .*rpc\/knows/,
  },
];

describe("the attacks", () => {
  for (const { change, undo, name, finds } of BREACHES) {
    it(`would find: ${change.trim().replaceAll(/\s+/g, " ").slice(0, 70)}`, async () => {
      await whileChanged(change, undo, async () => {
        await untilServed((await attacksOf(rival, WRONG, name))[0]);
        const weaknesses = await attack(rival, name);
        assert(weaknesses.some((weakness) => finds.test(weakness)), weaknesses[0]);
      });
    });
  }
});

describe("whether an organization or a key exists", () => {
  for (const by of [stranger, rival]) {
    it(`${by.name} is told by no answer, and by no time`, async () => {
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

  it("another organization's key is not told from none, to one's own organization", async () => {
    for (const name of ["revoke_api_key", "rotate_api_key"]) {
      await assertNotTold(rival, name, ({ apiKeyId }) => ({
        organization_id: rival.organizationId,
        api_key_id: apiKeyId,
      }));
    }
    const [key, ...others] = await listApiKeys(admin, tenant.id);
    assertEquals([key?.revoked_at, key?.expires_at, others], [null, null, []]);
  });

  it("another organization's entry is not told from none, to one's own organization", async () => {
    const ask = async (guess: Guess) => {
      const { organizationId: organization_id } = rival;
      const init = json({ organization_id, created_at: DAY, id: guess.entryId });
      const { status, text } = await send(rival, { path: "rpc/read_entry", init }, guess);
      assertEquals([status, text.endsWith(" null")], [200, true], text);
    };
    await assertSameTimes("read_entry", ask);
  });

  it("a key's id that another organization uses is as free as any, in the same time", async () => {
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

describe("times", () => {
  it("are compared by rank: as scipy's mannwhitneyu does, without its correction", () => {
    assertEquals(rankSumZ([1, 2, 3], [1, 2, 3]), 0);
    assertEquals(rankSumZ([1, 2], [3, 4]), -2 / Math.sqrt(4 * 5 / 12));
  });

  it("tell of a function that takes longer for what exists", async () => {
    await whileChanged(
      `create function audit_log.slow(organization_id uuid) returns void
        language plpgsql stable security definer set search_path = '' as $$
        begin
          perform pg_sleep(0.005) from audit_log.organizations o where o.id = slow.organization_id;
          perform audit_log_private.require_admin(organization_id);
        end $$`,
      "drop function audit_log.slow",
      async () => {
        const slow = ({ organizationId }: Guess): Attack => ({
          path: "rpc/slow",
          init: json({ organization_id: organizationId }),
        });
        await untilServed(slow(WRONG));
        const ask = (guess: Guess) => send(rival, slow(guess), guess);
        assertEquals(await ask(RIGHT), await ask(WRONG));
        const z = await compareTimes(() => ask(RIGHT), () => ask(WRONG));
        assert(z > MEASURABLE, `z = ${z}`);
      },
    );
  });
});
