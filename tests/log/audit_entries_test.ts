// Needs a stack.

import { NO_COLUMN } from "../helpers/postgrest.ts";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { ALL_DAYS, API_URL, assertExact, client, codeOf, entriesOf } from "../helpers/mod.ts";
import { type Entry, entry, getPage, MESSAGE_DATA, newLog, rolledBack } from "../helpers/mod.ts";
import { SECRET_KEY, serverFor, sql, valueOf } from "../helpers/mod.ts";

const platform = client("service_role");

type Given = Record<string, unknown>;

/** Makes entries of one day as the platform would send them, some seconds apart. */
function entries(organizationId: string, count: number): Given[] {
  return Array.from({ length: count }, (_, n) => ({
    ...entry(organizationId),
    id: crypto.randomUUID(),
    created_at: new Date(Date.UTC(2026, 2, 1) + n * 8_000).toISOString(),
  }));
}

/** Calls record_entries with a body, in which the organization is called as in a plain insert. */
async function send(body: string, isRefused = false) {
  const type = { "Content-Profile": "audit_log", "Content-Type": "application/json" };
  const response = await fetch(`${API_URL}/rest/v1/rpc/record_entries`, {
    method: "POST",
    headers: { apikey: SECRET_KEY, ...type },
    body: body.replaceAll('"organization_id"', '"organization"'),
  });
  const answer = await response.json();
  assertEquals(!response.ok, isRefused, `${body.slice(0, 1000)}: ${JSON.stringify(answer)}`);
  return answer;
}

/** Records entries, and returns how many were new. All others were there already. */
async function record(given: Given[]): Promise<number> {
  return await send(JSON.stringify({ entries: given }));
}

/** Returns the error with which a body or entries are refused. */
async function refusal(given: unknown): Promise<Record<"code" | "message" | "details", string>> {
  return await send(typeof given === "string" ? given : JSON.stringify({ entries: given }), true);
}

function nested(levels: number) {
  return { deep: JSON.parse("[".repeat(levels - 1) + "1" + "]".repeat(levels - 1)) };
}

describe("a plain insert", () => {
  it("needs only the organization, the action and the names; its time is that of the clock, never later", async () => {
    const { id, token } = await newLog();
    const { created_at: _, data: __, ...row } = { ...entry(id), action: "agent_added" };
    await platform.from("audit_entries").insert([row, row]).throwOnError();
    const clock = Date.parse(await valueOf(sql`select clock_timestamp()::text`));
    for (const { created_at, data } of (await getPage(token, ALL_DAYS)).items) {
      const age = clock - Date.parse(created_at);
      assert(age >= 0 && age < 60_000, created_at);
      assertEquals(data, {});
    }
  });

  it("of one millisecond stay in the order in which they were written, under ids that are UUIDv7", async () => {
    const { id, token } = await newLog();
    const names = Array.from({ length: 1000 }, (_, n) => `${n}`);
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${id}, '2026-03-01Z', 'agent_added', 'ada@example.com', name from unnest(${names}::text[]) as name`;
    const { items } = await getPage(token, `${ALL_DAYS}&limit=1000`);
    const inOrder = items.toSorted((a, b) => Number(a.agent_name) - Number(b.agent_name));
    const times = inOrder.map((item) => item.id.slice(0, 18));
    assertEquals(times, times.toSorted());
    const now = Date.now();
    for (const { id } of items) {
      assertMatch(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-/);
      assert(Math.abs(parseInt(id.slice(0, 8) + id.slice(9, 13), 16) - now) < 60_000, id);
    }
  });

  it("with a time to the microsecond is rounded to the millisecond, also into the next day", async () => {
    const { id, token } = await newLog({ created_at: "2026-03-01T23:59:59.9996Z" });
    const [entry] = (await getPage(token, "start=2026-03-02&end=2026-03-02")).items;
    assertEquals(entry?.created_at, "2026-03-02T00:00:00.000Z");
    await assertExact({ id, token }, 1);
  });

  it("takes data with more than the fields of its action, up to 32 levels deep", async () => {
    const given: Entry[] = [
      { data: { ...MESSAGE_DATA, more: [1, { deep: true }] } },
      { action: "feedback_given", created_at: "2026-03-02T00:00:00Z", data: { thumbs: "up" } },
      { action: "feedback_given", created_at: "2026-03-02T00:00:01Z", data: nested(32) },
    ];
    const { items } = await getPage((await newLog(...given)).token);
    assertEquals(items.map((item) => item.data), given.map((entry) => entry.data));
  });
});

describe("record_entries()", () => {
  it("writes each of 10,000 entries once, also if a call is repeated, has an entry twice, or runs at once with others that have the same entries", async () => {
    const log = await newLog();
    const given = entries(log.id, 10_000);
    const first = given.slice(0, 4_000);
    const calls = [first, first.toReversed(), first.slice(1_000), first.toReversed()];
    const recorded = await Promise.all([...calls, ...calls].map(record));
    assertEquals(recorded.reduce((sum, count) => sum + count), 4_000);
    assertEquals(await record([...given, { ...given[4_029], agent_name: "later" }]), 6_000);
    assertEquals(await record([]), 0);
    await assertExact(log, 10_000);
  });

  it("writes what was sent, of several organizations: times without a zone as UTC, no data as {}", async () => {
    const logs = [await newLog(), await newLog()];
    const [[full = {}] = [], [bare = {}] = []] = logs.map(({ id }) => entries(id, 1));
    const { data: _, ...rest } = { ...bare, action: "feedback_given" } as Given;
    assertEquals(await record([full, { ...rest, created_at: "2026-03-01T23:30:00.123456" }]), 2);
    const expected = [full, { ...rest, created_at: "2026-03-01T23:30:00.123Z", data: {} }];
    for (const [n, { token }] of logs.entries()) {
      const { organization_id: __, ...shown } = expected[n] as Given;
      assertEquals((await getPage(token)).items as unknown[], [shown]);
    }
  });

  it("gives entries without id and time the present time, and ids in their order", async () => {
    const { id } = await newLog();
    const { id: other } = await newLog();
    const given = entries(id, 200).map(({ id: _, created_at: __, ...entry }, n) =>
      ({ ...entry, organization_id: n % 3 ? id : other, agent_name: `${n}` }) as Given
    );
    const [before] = await sql`select clock_timestamp() as at`;
    assertEquals(await record(given), given.length);
    const rows = await sql`
      select agent_name, created_at between date_trunc('milliseconds', ${before?.at}::timestamptz) and clock_timestamp() as is_now
      from audit_log.audit_entries where organization_id = ${id} order by created_at, id`;
    const own = given.filter(({ organization_id }) => organization_id === id);
    assertEquals([...rows], own.map(({ agent_name }) => ({ agent_name, is_now: true })));
  });

  it("puts the target and its name into the fields of data that the catalogue names, and loses none", async () => {
    const { id, token } = await newLog();
    const [named = "", unnamed = ""] = ["a", "b"].map((word) => `${word}.${crypto.randomUUID()}`);
    await sql`
      insert into audit_log.actions (code, description, required, target, target_name) values
        (${named}, '', '{owner_id,thing_id}', 'thing_id', 'title'), (${unnamed}, '', '{}', null, null)`;
    const both = { target: "t1", target_name: "Thing" };
    const owned = { owner_id: "o1" };
    const thing = { ...owned, thing_id: "t1" };
    const written: [Given, object][] = [
      [{ action: named, ...both, data: owned }, { ...thing, title: "Thing" }],
      [{ action: named, target: "t1", data: { ...owned, thing_id: "t0" } }, thing],
      [{ action: unnamed, ...both, data: null }, both],
      [{ action: unnamed }, {}],
    ];
    const given = entries(id, written.length)
      .map(({ data: _, ...entry }, n) => ({ ...entry, ...written[n]?.[0] }));
    assertEquals(await record(given), written.length);
    const { items } = await getPage(token);
    assertEquals(items.map(({ data }) => data), written.map(([, data]) => data));
    const rule = /^an entry breaks the rule data_is_object$/;
    const bads: [Given, RegExp][] = [
      ...[[], "text", 7].map((data): [Given, RegExp] => [{ data }, rule]),
      [{ action: `${named}x` }, /which is not in the table audit_log.actions/],
    ];
    for (const [bad, error] of bads) {
      const [good, id] = [{ ...given[0], id: crypto.randomUUID() }, crypto.randomUUID()];
      const { message, details } = await refusal([good, { ...given[0], id, ...bad }]);
      assertMatch(message, error);
      assertMatch(details, RegExp(`^The entry has the id ${id} and the time 20.*Z$`));
    }
  });

  it("takes the person whom the secret key names for an entry without an address, as the events of keys do", async () => {
    const { id, apiKeyId } = await newLog();
    await sql`update audit_log.organizations set logs_key_events = true where id = ${id}`;
    await sql`update audit_log_private.api_keys set created_by = 'leaver' where id = ${apiKeyId}`;
    const grace = { id: "user_2b", email: "Grace@example.com" };
    const server = serverFor(grace);
    const [named, unnamed, own, full] = entries(id, 4);
    const given: Given[] = [
      { ...named },
      { ...unnamed, user_email: undefined },
      { ...own, user_email: null, data: { ...MESSAGE_DATA, caller: "ours" } },
      // There is no room for the caller.
      { ...full, user_email: null, data: { ...MESSAGE_DATA, more: "x".repeat(3_950) } },
    ];
    assertEquals((await refusal([given[1]])).code, "23502");
    const sent = given.map(({ organization_id: organization, ...rest }) => ({
      ...rest,
      organization,
    }));
    for (const count of [4, 0]) {
      const { data } = await server.rpc("record_entries", { entries: sent as never })
        .throwOnError();
      assertEquals(data, count);
    }
    const leaver = { organization_id: id, person: "leaver", revoke: true };
    await server.rpc("person_left", leaver).throwOnError();
    const rows = await sql`
      select user_email, data #- '{caller,user_agent}' -> 'caller' as caller,
        coalesce(data -> 'api_key_id', data - '{caller,more}'::text[]) as rest
      from audit_log.audit_entries where organization_id = ${id} order by created_at, id`;
    const caller = { kind: "secret_key", on_behalf_of: grace };
    const person = { user_email: grace.email, rest: MESSAGE_DATA };
    assertEquals([...rows], [
      { user_email: "ada@example.com", caller: null, rest: MESSAGE_DATA },
      { ...person, caller },
      { ...person, caller: "ours" },
      { ...person, caller: null },
      { ...person, caller, rest: apiKeyId },
    ]);
  });

  it("keeps every digit of a number in data, and refuses one that Postgres cannot store, with all entries of the call", async () => {
    const log = await newLog();
    const [given, good] = entries(log.id, 2);
    const body = (number: string, ...others: unknown[]) => {
      const bad = { ...given, data: { ...MESSAGE_DATA, more: "HERE" } };
      return JSON.stringify({ entries: [...others, bad] }).replace('"HERE"', number);
    };
    const number = "12345678901234567890.12345678901234567890";
    assertEquals((await refusal(body("1e400000", good))).code, "22003");
    await send(body(number));
    const stored =
      sql`select data ->> 'more' from audit_log.audit_entries where organization_id = ${log.id}`;
    assertEquals([...await stored.values()], [[number]]);
  });

  it("refuses everything but an array of objects", async () => {
    for (const given of [null, {}, 1, [null], [1], ["entry"], [[]], [["id"]]]) {
      assertEquals((await refusal(given)).code, "22023", JSON.stringify(given));
    }
  });
});

const INCOMPRESSIBLE = Array.from({ length: 250 }, () => crypto.randomUUID()).join("");
const MISSING = ["organization_id", "created_at", "user_email", "agent_name"];
const INCOMPLETE = Object.keys(MESSAGE_DATA).flatMap((field) =>
  [undefined, null, 1].map((value) => ({ data: { ...MESSAGE_DATA, [field]: value } }))
);

/** Bad fields of entries, by what the error says. */
const BAD: Record<string, Given[]> = {
  '23503 "login", which is not in the table audit_log.actions': [{ action: "login" }],
  '22P02 uuid: "m-1"': [{ id: "m-1" }],
  '22007 "yesterday noon"': [{ created_at: "yesterday noon" }],
  ...Object.fromEntries(MISSING.map((field) => [`23502 "${field}"`, [{ [field]: null }]])),
  "23514 created_at_within_api_dates": ["0001-12-31Z BC", "10000-01-01Z", "infinity"]
    .map((created_at) => ({ created_at })),
  "23514 user_email_is_address": [{ user_email: "" }, { user_email: "ada" }],
  "23514 user_email_is_short": [{ user_email: `${"x".repeat(320)}@example.com` }],
  "23514 agent_name_is_short": [{ agent_name: "x".repeat(201) }],
  "23514 data_is_object": [{ action: "agent_added", data: [] }, { data: "x" }],
  "23514 data_is_small": [{ data: { ...MESSAGE_DATA, more: "x".repeat(4_000) } }],
  "23514 data_is_shallow": [{ data: nested(33) }, { data: nested(2000) }],
  "23514 data_has_required": INCOMPLETE,
  "22P05 unsupported Unicode escape": [
    { agent_name: "\0" },
    { data: { ...MESSAGE_DATA, more: ["\0"] } },
    { data: { ...MESSAGE_DATA, "\0": 1 } },
  ],
  "54000 index row": [{ user_email: `${INCOMPRESSIBLE}@example.com` }],
};

describe("every entry of a call is refused if one of them", () => {
  for (const [n, [error, bad]] of Object.entries(BAD).entries()) {
    it(`breaks a rule: ${error}`, async () => {
      const log = await newLog();
      // The first, the last or one between, and then more of them.
      const place = n % 11;
      for (const given of bad) {
        const call = entries(log.id, 11)
          .map((good, n) => n === place || n > place && n % 2 ? { ...good, ...given } : good);
        const inserted = await platform.from("audit_entries").insert(call as never);
        const recorded = await refusal(call);
        for (const found of [inserted.error, recorded]) {
          assertEquals(found?.code, error.slice(0, 5), JSON.stringify(given).slice(0, 200));
          assertStringIncludes(found?.message ?? "", error.slice(6));
        }
      }
      await assertExact(log, 0);
    });
  }

  it("has a field that entries do not have, or the number of a transaction", async () => {
    const { id } = await newLog();
    for (const given of [{ dat: {} }, { transaction_id: "1" }]) {
      const [good = {}, bad] = entries(id, 2);
      const { code, message } = await refusal([good, { ...bad, ...given }]);
      assertEquals(code, "22023");
      assertStringIncludes(message, "an array of objects with the fields id,");
      const { error } = await platform.from("audit_entries").insert({ ...bad, ...given } as never);
      assert(error && ["42501", NO_COLUMN].includes(error.code), error?.code);
    }
    assertEquals(await entriesOf(id), 0);
  });
});

// permissions_test.ts lists what each role may do.
it("the log refuses updates and truncation, also by the owner, and also if no row is touched", async () => {
  const statements = [
    "update audit_log.audit_entries set user_email = 'eve@example.com'",
    "update audit_log.audit_entries set data = '{}' where false",
    "truncate audit_log.audit_entries",
    "truncate audit_log.organizations cascade",
  ];
  for (const statement of statements) {
    const code = await rolledBack(sql, (run) => codeOf(run.unsafe(statement)));
    assertEquals(code, "42501", statement);
  }
});
