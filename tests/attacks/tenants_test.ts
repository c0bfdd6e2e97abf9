import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  API_URL,
  connect,
  listApiKeys,
  newOrganization,
  type Person,
  PUBLISHABLE_KEY,
  signUp,
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
// address occurs in its log, and whether it, or one of its keys, exists. They guess: each attack is made
// with what exists, and again with what does not. It must be refused, and the two answers be the same.

/** What an attacker supposes that there is. */
interface Guess {
  email: string;
  organizationId: string;
  apiKeyId: string;
}

interface Attacker {
  /** Who it is, for messages. */
  name: string;
  person: Person;
  authorization: string;
  /** The organization that they administer. */
  organizationId?: string;
}

/** One request, made with two guesses. */
interface Attack {
  request: (guess: Guess) => { path: string; init?: RequestInit };
  /** Whether any answer is right that is the same for both guesses: about what is the attacker's own. */
  mayAnswer?: boolean;
}

/** What the attacks came upon: nothing, if all is well. */
type Weakness = string;

const sql = connect();
const admin = await signUp();
const tenant = await newOrganization(admin);
const RIGHT: Guess = {
  email: "ada@example.com",
  organizationId: tenant.id,
  apiKeyId: tenant.apiKeyId,
};
const WRONG: Guess = {
  email: "eve@example.com",
  organizationId: crypto.randomUUID(),
  apiKeyId: crypto.randomUUID(),
};
// So often that it is in the planner's statistics.
await writeEntries(tenant.id, Array.from({ length: 1000 }, () => ({ user_email: RIGHT.email })));
await sql`analyze public.audit_entries, public.organizations, public.organization_members`;
const stranger = await attacker("a stranger", await signUp());
const rival = await attacker("another organization's administrator", await signUp(), true);
afterAll(() => sql.end());

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

/** What is sent for a column or a parameter. */
function value({ name, type }: Parameter, guess: Guess): string {
  switch (type) {
    case "uuid":
      return /api_key|^id$/.test(name) ? guess.apiKeyId : guess.organizationId;
    case "date":
    case "timestamptz":
      return "2026-03-01";
    case "text":
      return guess.email;
    default:
      throw new Error(`${name} is ${type}: say here what an attacker sends for it`);
  }
}

/** The conditions by which a column can be guessed at, as PostgREST writes them. */
function conditions(column: Parameter, guess: Guess): string[] {
  const { name, type } = column;
  if (type === "uuid") return [`${name}=eq.${value(column, guess)}`];
  if (type !== "text") return [`${name}=not.is.null`];
  const { email } = guess;
  return ["eq.", "lt.", "like.*", "fts."].map((operator) => `${name}=${operator}${email}`);
}

/** Every way of reading, counting, ordering, joining, changing and failing that there is for a table. */
function attacksOnTable({ name, columns }: ServedTable, others: ServedTable[]): Attack[] {
  const attacks: Attack[] = [];
  for (const column of columns) {
    const count = conditions(column, RIGHT).length;
    for (let i = 0; i < count; i++) {
      const add = (suffix: string, init: RequestInit = {}) => {
        attacks.push({
          request: (guess) => ({ path: `${name}?${conditions(column, guess)[i]}${suffix}`, init }),
        });
      };
      for (const count of COUNTS) {
        add("", { headers: { Prefer: `count=${count}` } });
        const method = "HEAD";
        add(`&select=${column.name}&limit=0`, { headers: { Prefer: `count=${count}` }, method });
      }
      for (const plan of PLANS) add("", { headers: { Accept: plan } });
      add(`&order=${column.name}.desc&limit=1`);
      add(`&select=${column.name}.max(),count()`);
      // One row and several are different errors.
      add("", { headers: { Accept: "application/vnd.pgrst.object+json" } });
      // The error repeats a text that is no number.
      if (column.type === "text") add(`&select=${column.name}::int`);
      add("", { method: "DELETE", headers: { Prefer: "return=representation,count=exact" } });
    }
    attacks.push({
      request: (guess) => ({
        path: `${name}?${conditions(column, guess)[0]}`,
        init: {
          ...json({ [column.name]: guess.organizationId }, "return=representation,count=exact"),
          method: "PATCH",
        },
      }),
    }, {
      request: (guess) => ({
        path: name,
        init: json(
          { [column.name]: guess.organizationId },
          "return=representation,resolution=merge-duplicates",
        ),
      }),
    });
    for (const other of others) {
      for (const join of [name, `${name}!inner`]) {
        attacks.push({
          request: (guess) => ({
            path: `${other.name}?select=*,${join}(*)&${name}.${conditions(column, guess)[0]}`,
            init: { headers: { Prefer: "count=planned" } },
          }),
        });
      }
    }
  }
  return attacks;
}

/** A body, and how it is sent. */
function json(body: unknown, prefer = "") {
  const headers: Record<string, string> = { "Content-Type": "application/json", Prefer: prefer };
  return { method: "POST", headers, body: JSON.stringify(body) };
}

interface FunctionAttackOptions {
  name: string;
  /** What it is called with. */
  given: (guess: Guess) => Record<string, string>;
  writes: boolean;
  mayAnswer: boolean;
}

/** Calls of a function, and filters, orders, counts and plans of what it returns. */
function attacksOnFunction({ name, given, writes, mayAnswer }: FunctionAttackOptions): Attack[] {
  const path = `rpc/${name}`;
  const called = (guess: Guess) => `${path}?${new URLSearchParams(given(guess))}`;
  const attacks: Attack[] = [];
  // With an organization of one's own, a call that writes may succeed.
  if (!writes || !mayAnswer) {
    attacks.push({ request: (guess) => ({ path, init: json(given(guess)) }) });
  }
  for (const count of COUNTS) {
    const headers = { Prefer: `count=${count}` };
    attacks.push({ request: (guess) => ({ path: called(guess), init: { headers } }) });
  }
  for (const Accept of [...PLANS, "application/vnd.pgrst.object+json"]) {
    attacks.push({ request: (guess) => ({ path: called(guess), init: { headers: { Accept } } }) });
  }
  for (const result of ["user_email", "pgrst_scalar->>user_email", "pgrst_scalar->0->>name"]) {
    for (
      const suffix of [
        (guess: Guess) => `${result}=eq.${guess.email}`,
        (guess: Guess) => `${result}=lt.${guess.email}`,
        () => `order=${result}`,
        () => `select=${result}::int`,
      ]
    ) {
      const init = { headers: { Prefer: "count=planned" } };
      attacks.push({ request: (guess) => ({ path: `${called(guess)}&${suffix(guess)}`, init }) });
    }
  }
  // Nobody needs the result, so Postgres need not call a function that only reads: it may answer.
  const unneeded = COUNTS.map((count): Attack => ({
    request: (guess) => ({
      path: called(guess),
      init: { method: "HEAD", headers: { Prefer: `count=${count}` } },
    }),
    mayAnswer: true,
  }));
  return [...attacks.map((attack) => ({ ...attack, mayAnswer })), ...unneeded];
}

/** Every attack on what the Data API serves now; `only` on what has this name. */
async function attacksOf({ organizationId }: Attacker, only?: string): Promise<Attack[]> {
  const { tables, functions } = await servedObjects(sql);
  const attacks: Attack[] = [];
  for (const table of tables) {
    if (only && table.name !== only) continue;
    attacks.push(...attacksOnTable(table, tables.filter((other) => other !== table)));
  }
  for (const { name, parameters, writes } of functions) {
    if (only && name !== only) continue;
    const given = (guess: Guess) =>
      Object.fromEntries(parameters.map((each) => [each.name, value(each, guess)]));
    const mayAnswer = ABOUT_ONESELF.includes(name);
    attacks.push(...attacksOnFunction({ name, given, writes, mayAnswer }));
    if (!organizationId || !("organization_id" in given(RIGHT))) continue;
    const ofOnesOwn = (guess: Guess) => ({ ...given(guess), organization_id: organizationId });
    attacks.push(...attacksOnFunction({ name, given: ofOnesOwn, writes, mayAnswer: true }));
  }
  return attacks;
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
  { request }: Attack,
  guess: Guess,
): Promise<Answer> {
  const { path, init } = request(guess);
  const headers = new Headers(init?.headers);
  headers.set("apikey", PUBLISHABLE_KEY);
  headers.set("Authorization", authorization);
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
async function attack(by: Attacker, attacks: Attack[]): Promise<Weakness[]> {
  const weaknesses: Weakness[] = [];
  const remaining = attacks.values();
  await Promise.all(Array.from({ length: 6 }, async () => {
    for (const each of remaining) {
      const [right, wrong] = [await send(by, each, RIGHT), await send(by, each, WRONG)];
      const { path, init } = each.request(RIGHT);
      const what = `${by.name}: ${init?.method ?? "GET"} ${path} ${JSON.stringify(init?.headers)}`;
      // The answer to HEAD says no code.
      const isRefused = init?.method === "HEAD"
        ? right.status >= 400 && right.status < 500
        : REFUSALS.includes(right.code ?? "");
      if (!isRefused && !each.mayAnswer) weaknesses.push(`answered: ${what}: ${right.text}`);
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

class Rollback extends Error {}

/** Runs a statement with a person's rights, without the Data API, and undoes it. */
async function runAs({ id }: Person, statement: string): Promise<Outcome> {
  let outcome: Outcome | undefined;
  await sql.begin(async (transaction) => {
    const before = await scans(transaction);
    let code: string | undefined;
    await transaction.savepoint(async (savepoint) => {
      const claims = JSON.stringify({ sub: id, role: "authenticated" });
      await savepoint`select set_config('request.jwt.claims', ${claims}, true)`;
      await savepoint`set local role authenticated`;
      await savepoint.unsafe(statement);
      throw new Rollback();
    }).catch((error) => code = error.code);
    const after = await scans(transaction);
    const tablesRead = Object.keys(after).filter((name) => after[name] !== before[name]);
    outcome = { code, tablesRead };
    throw new Rollback();
  }).catch((error) => {
    if (!(error instanceof Rollback)) throw error;
  });
  if (!outcome) throw new Error("unreachable: the transaction ended without an outcome");
  return outcome;
}

/** How often a connection has looked into each of our tables, by itself or by an index. */
async function scans(connection: postgres.ISql): Promise<Record<string, string>> {
  const rows = await connection<{ name: string; scans: string }[]>`
    select concat(schemaname, '.', relname) as name, seq_scan + coalesce(idx_scan, 0) as scans
    from pg_stat_xact_user_tables where schemaname in ('public', 'private')`;
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
  throw new Error(`The Data API does not serve ${first.request(WRONG).path}`);
}

describe("of a tenant's address, organization and keys", () => {
  for (const by of [stranger, rival]) {
    it(`${by.name} learns nothing by any request for any table, view or function`, async () => {
      const attacks = await attacksOf(by);
      assert(attacks.length > 300, `only ${attacks.length} attacks`);
      assertEquals(await attack(by, attacks), []);
    });

    it(`${by.name} learns nothing from explain: no table is looked into`, async () => {
      const { tables, functions } = await servedObjects(sql);
      for (const { name, columns } of tables) {
        for (const column of columns) {
          const condition = ["text", "uuid", "timestamptz"].includes(column.type)
            ? `${column.name} >= '${value(column, RIGHT)}'`
            : `${column.name} is not null`;
          for (const explain of ["explain", "explain (analyze, verbose)"]) {
            const statement = `${explain} select * from public.${name} where ${condition}`;
            const outcome = await runAs(by.person, statement);
            assertEquals(outcome, { code: "42501", tablesRead: [] }, statement);
          }
        }
      }
      for (const { name, parameters } of functions) {
        if (ABOUT_ONESELF.includes(name)) continue;
        const given = parameters.map((each) => `${each.name} => '${value(each, RIGHT)}'`);
        const statement = `explain analyze select public.${name}(${given})`;
        const { code, tablesRead } = await runAs(by.person, statement);
        assertEquals(code, "42501", statement);
        // Who administers what.
        const others = tablesRead.filter((table) => table !== "public.organization_members");
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
      const guessed: Attack = {
        request: (guess) => ({ path: `${name}?${conditions(column, guess)[0]}`, init }),
      };
      const z = await compareTimes(
        () => send(rival, guessed, RIGHT),
        () => send(rival, guessed, WRONG),
      );
      assert(Math.abs(z) < MEASURABLE, `${name}: z = ${z}`);
    }
  });

  it("all is attacked that the Data API says it serves", async () => {
    const { tables, functions } = await servedObjects(sql);
    const attacked = new Set([
      ...tables.map(({ name }) => `/${name}`),
      ...functions.map(({ name }) => `/rpc/${name}`),
    ]);
    const paths = await documentedPaths();
    assert(paths.includes("/audit_entries"), paths.join());
    assertEquals(paths.filter((path) => !attacked.has(path)), []);
  });
});

/** What would be wrong, and its undoing; the object that is then attacked. */
const BREACHES: { change: string; undo: string; name: string; finds: RegExp }[] = [
  ...["audit_entries", "organizations", "organization_members"].map((name) => ({
    change: `grant select on public.${name} to authenticated`,
    undo: `revoke select on public.${name} from authenticated`,
    name,
    finds: /^answered: .*GET/,
  })),
  {
    change: "grant select (user_email) on public.audit_entries to authenticated",
    undo: "revoke select on public.audit_entries from authenticated",
    name: "audit_entries",
    finds: /^answered: .*HEAD.*count=exact/,
  },
  {
    // As it once was: row level security hides the rows, and the planner's estimate tells of them.
    change: `
      create function public.is_mine(organization_id uuid) returns boolean
        language sql stable security definer set search_path = ''
        as 'select exists (select from public.organization_members m where m.organization_id = is_mine.organization_id and m.user_id = auth.uid())';
      create policy mine on public.audit_entries for select to authenticated using (public.is_mine(organization_id));
      grant select on public.audit_entries to authenticated`,
    undo: `
      revoke select on public.audit_entries from authenticated;
      drop policy mine on public.audit_entries;
      drop function public.is_mine`,
    name: "audit_entries",
    finds: /^told apart: .*HEAD.*user_email=eq.*count=planned/,
  },
  {
    change: `
      create view public.addresses as select user_email from public.audit_entries;
      grant select on public.addresses to authenticated`,
    undo: "drop view public.addresses",
    name: "addresses",
    finds: /^told apart: .*user_email=like/,
  },
  {
    change: `
      create function public.knows(organization_id uuid, email text) returns boolean
        language sql stable security definer set search_path = ''
        as 'select exists (select from public.audit_entries where user_email = email)'`,
    undo: "drop function public.knows",
    name: "knows",
    finds: /^(told apart|answered): .*rpc\/knows/,
  },
];

describe("the attacks", () => {
  for (const { change, undo, name, finds } of BREACHES) {
    it(`would find: ${change.trim().replaceAll(/\s+/g, " ").slice(0, 70)}`, async () => {
      await whileChanged(change, undo, async () => {
        const attacks = await attacksOf(rival, name);
        await untilServed(attacks[0]);
        const weaknesses = await attack(rival, attacks);
        assert(weaknesses.some((weakness) => finds.test(weakness)), weaknesses[0]);
      });
    });
  }
});

/** The functions that people call for an organization, with what they are given. */
async function functionsOfOrganizations() {
  const { functions } = await servedObjects(sql);
  return functions.map(({ name, parameters }) => ({
    name,
    given: (guess: Guess) =>
      Object.fromEntries(parameters.map((each) => [each.name, value(each, guess)])),
  })).filter(({ given }) => "organization_id" in given(RIGHT));
}

describe("whether an organization or a key exists", () => {
  for (const by of [stranger, rival]) {
    it(`${by.name} is told by no answer, and by no time`, async () => {
      const functions = await functionsOfOrganizations();
      assertEquals(functions.map(({ name }) => name), [
        "api_key_usage",
        "create_api_key",
        "daily_entry_counts",
        "list_api_keys",
        "list_seals",
        "read_audit_log",
        "revoke_api_key",
        "rotate_api_key",
      ]);
      for (const { name, given } of functions) {
        await assertNotTold(by, {
          request: (guess) => ({ path: `rpc/${name}`, init: json(given(guess)) }),
        });
      }
    });
  }

  it("another organization's key is not told from none, to one's own organization", async () => {
    const { organizationId } = rival;
    for (const name of ["revoke_api_key", "rotate_api_key"]) {
      await assertNotTold(rival, {
        request: ({ apiKeyId }) => ({
          path: `rpc/${name}`,
          init: json({ organization_id: organizationId, api_key_id: apiKeyId }),
        }),
      });
    }
    const [key, ...others] = await listApiKeys(admin, tenant.id);
    assertEquals([key?.revoked_at, key?.expires_at, others], [null, null, []]);
  });

  it("a key's id that another organization uses is as free as any, in the same time", async () => {
    const taken = await sql<{ id: string }[]>`
      select private.insert_api_key(${tenant.id}, 'x') ->> 'id' as id from generate_series(1, 250)`;
    const create = async (id: string) => {
      const { status, text } = await send(rival, {
        request: () => ({
          path: "rpc/create_api_key",
          init: json({ organization_id: rival.organizationId, name: "x", api_key_id: id }),
        }),
      }, WRONG);
      assertEquals(status, 200, text);
    };
    const ids = taken.values();
    const z = await compareTimes(
      () => create(ids.next().value?.id ?? ""),
      () => create(crypto.randomUUID()),
    );
    assert(Math.abs(z) < MEASURABLE, `z = ${z}`);
  });
});

/** Asserts that both guesses meet one refusal, in times that cannot be told apart. */
async function assertNotTold(by: Attacker, attack: Attack): Promise<void> {
  const ask = (guess: Guess) => send(by, attack, guess);
  const { path } = attack.request(RIGHT);
  const [right, wrong] = [await ask(RIGHT), await ask(WRONG)];
  assertEquals(right, wrong, path);
  assertEquals([right.status, right.code], [403, "42501"], path);
  const z = await compareTimes(() => ask(RIGHT), () => ask(WRONG));
  assert(Math.abs(z) < MEASURABLE, `${path}: z = ${z}`);
}

describe("times", () => {
  it("are compared by rank: as scipy's mannwhitneyu does, without its correction", () => {
    assertEquals(rankSumZ([1, 2, 3], [1, 2, 3]), 0);
    assertEquals(rankSumZ([1, 2], [3, 4]), -2 / Math.sqrt(4 * 5 / 12));
  });

  it("tell of a function that takes longer for what exists", async () => {
    await whileChanged(
      `create function public.slow(organization_id uuid) returns void
        language plpgsql stable security definer set search_path = '' as $$
        begin
          perform pg_sleep(0.005) from public.organizations o where o.id = slow.organization_id;
          perform private.require_admin(organization_id);
        end $$`,
      "drop function public.slow",
      async () => {
        const slow: Attack = {
          request: ({ organizationId }) => ({
            path: "rpc/slow",
            init: json({ organization_id: organizationId }),
          }),
        };
        await untilServed(slow);
        const ask = (guess: Guess) => send(rival, slow, guess);
        assertEquals(await ask(RIGHT), await ask(WRONG));
        const z = await compareTimes(() => ask(RIGHT), () => ask(WRONG));
        assert(z > MEASURABLE, `z = ${z}`);
      },
    );
  });
});
