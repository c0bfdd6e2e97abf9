import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { ALL_DAYS, getPage } from "../api.ts";
import { assertExact, entriesOf, type Entry, entry } from "../helpers.ts";
import { MESSAGE_DATA, newLog, sql } from "../helpers.ts";
import { client } from "../people.ts";
import { codeOf, insertEntry, rolledBack, valueOf } from "../project.ts";

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

/** Records entries, and returns how many were new. */
async function record(given: Given[]): Promise<number> {
  const { data } = await platform.rpc("record_entries", { entries: given as [] }).throwOnError();
  return (data as { recorded: number }).recorded;
}

/** Returns the error with which entries are refused. */
async function refusal(given: unknown) {
  const { error } = await platform.rpc("record_entries", { entries: given as [] });
  if (!error) throw new Error("was not refused");
  return error;
}

/** Makes an object of so many levels. */
function nested(levels: number) {
  return { deep: JSON.parse("[".repeat(levels - 1) + "1" + "]".repeat(levels - 1)) };
}

describe("a plain insert", () => {
  it("needs only the organization, the action and the names: id, time and data have defaults", async () => {
    const { id, token } = await newLog();
    const before = Date.now();
    const names = { user_email: "ada@example.com", agent_name: "Assistant" };
    await platform.from("audit_entries")
      .insert({ organization_id: id, action: "agent_added", ...names }).throwOnError();
    const { items: [item] } = await getPage(token, ALL_DAYS);
    assertMatch(item?.id ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-/);
    const time = Date.parse(item?.created_at ?? "");
    // The database's clock may be another machine's.
    assert(Math.abs(time - before) < 60_000, item?.created_at);
    assertEquals(item?.data, {});
  });

  it("takes its default time from the clock, not from the start of its transaction", async () => {
    const { id } = await newLog();
    const times = await sql.begin(async (transaction) => {
      for (let i = 0; i < 2; i++) await insertEntry(transaction, id);
      return await valueOf(transaction`
        select count(distinct created_at)::int from audit_log.audit_entries
        where organization_id = ${id} and created_at > now()`);
    });
    assertEquals(times, 2);
  });

  it("is refused when it is repeated with the same id and time", async () => {
    const { id } = await newLog();
    const row = { ...entry(id), id: crypto.randomUUID() };
    await platform.from("audit_entries").insert(row).throwOnError();
    const { error } = await platform.from("audit_entries").insert(row);
    assertEquals([error?.code, await entriesOf(id)], ["23505", 1]);
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
  it("writes each of 10,000 entries once, also if a call is repeated or has an entry twice", async () => {
    const log = await newLog();
    const given = entries(log.id, 10_000);
    assertEquals(await record(given.slice(0, 20)), 20);
    assertEquals(await record([...given, { ...given[29], agent_name: "later" }]), 9_980);
    assertEquals(await record(given), 0);
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

  it("lets calls with the same entries run at once: each entry is new in one of them", async () => {
    const log = await newLog();
    const given = entries(log.id, 400);
    const calls = [given, given.toReversed(), given.slice(100), given.toReversed()];
    const recorded = await Promise.all(calls.map(record));
    assertEquals(recorded.reduce((sum, count) => sum + count), 400);
    await assertExact(log, 400);
  });

  it("finds the first bad entry of 1,000, wherever it is", async () => {
    const { id } = await newLog();
    const given = entries(id, 1_000);
    for (const index of [0, 1, 499, 500, 777, 999]) {
      const bad = given.map((entry, n) =>
        n < index || n % 2 ? entry : { ...entry, user_email: "" }
      );
      bad[index] = { ...given[index], user_email: "" };
      const { message } = await refusal(bad);
      assertMatch(message, new RegExp(`^entries\\[${index}\\] .*user_email_is_address`));
    }
    assertEquals(await entriesOf(id), 0);
  });

  it("refuses everything but an array of objects", async () => {
    for (const given of [null, {}, "entries", 1]) {
      const { code, message } = await refusal(given);
      assertEquals([code, message], ["22023", "entries is an array of objects"]);
    }
    for (const item of [null, 1, "entry", []]) {
      assertMatch((await refusal([item])).message, /^entries\[0\].*an entry is an object/);
    }
  });
});

/** Bad fields of entries, with the code and by the reason with which they are refused. */
const BAD: Record<string, [code: string, ...given: Given[]]> = {
  "is not in the table audit_log.organizations": [
    "23503",
    { organization_id: crypto.randomUUID() },
  ],
  'has the action "login", which is not in the table audit_log.actions': [
    "23503",
    { action: "login" },
  ],
  'uuid: "m-1"': ["22P02", { id: "m-1" }],
  '"yesterday noon"': ["22007", { created_at: "yesterday noon" }],
  '"id"': ["23502", { id: null }],
  '"organization_id"': ["23502", { organization_id: null }],
  '"created_at"': ["23502", { created_at: null }],
  '"user_email"': ["23502", { user_email: null }],
  '"agent_name"': ["23502", { agent_name: null }],
  created_at_within_api_dates: [
    "23514",
    { created_at: "0001-12-31T23:59:59Z BC" },
    { created_at: "10000-01-01T00:00:00Z" },
    { created_at: "infinity" },
  ],
  user_email_is_address: ["23514", { user_email: "" }, { user_email: "ada" }],
  user_email_is_short: ["23514", { user_email: `${"x".repeat(320)}@example.com` }],
  agent_name_is_short: ["23514", { agent_name: "x".repeat(201) }],
  data_is_object: ["23514", { action: "agent_added", data: [] }, { data: "x" }],
  data_is_small: ["23514", { data: { ...MESSAGE_DATA, more: "x".repeat(4_000) } }],
  data_is_shallow: ["23514", { data: nested(33) }, { data: nested(2000) }],
  data_has_required: [
    "23514",
    ...Object.keys(MESSAGE_DATA).flatMap((field) =>
      [undefined, null, 1].map((value) => ({ data: { ...MESSAGE_DATA, [field]: value } }))
    ),
  ],
};

describe("every entry of a call is refused if one of them", () => {
  for (const [reason, [code, ...bad]] of Object.entries(BAD)) {
    it(`breaks a rule: ${code} ${reason}`, async () => {
      const log = await newLog();
      for (const given of bad) {
        const call = entries(log.id, 11);
        call[6] = { ...call[6], ...given };
        const inserted = await platform.from("audit_entries").insert(call as never);
        const recorded = await refusal(call);
        for (const error of [inserted.error, recorded]) {
          assertEquals(error?.code, code, JSON.stringify(given).slice(0, 200));
          assertStringIncludes(error?.message ?? "", reason);
        }
        assertMatch(recorded.message, /^entries\[6\] is refused, and nothing was recorded: /);
        assertEquals(JSON.parse(recorded.details), { index: 6, id: call[6]["id"] });
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
      assertMatch(message, /^entries\[1\].*an entry is an object with the fields id,/);
      const { error } = await platform.from("audit_entries").insert({ ...bad, ...given } as never);
      assert(error && ["42501", "PGRST204"].includes(error.code), error?.code);
    }
    assertEquals(await entriesOf(id), 0);
  });
});

describe("the log is append-only", () => {
  it("for the platform, which may insert only, and nobody else may write", async () => {
    const { id } = await newLog({});
    const log = () => platform.from("audit_entries");
    const answers = await Promise.all([
      log().update({ user_email: "eve@example.com" }).eq("organization_id", id),
      log().delete().eq("organization_id", id),
      log().upsert({ ...entry(id), id: crypto.randomUUID() }),
      client("anon").from("audit_entries").insert(entry(id)),
    ]);
    assertEquals(answers.map(({ error }) => error?.code), Array(4).fill("42501"));
    assertEquals(await entriesOf(id), 1);
  });

  it("for the owner, who may neither update nor truncate, not even if no row is touched", async () => {
    const statements = [
      "set role service_role; truncate audit_log.audit_entries",
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

  it("as long as its organization exists, which cannot be deleted while it has entries", async () => {
    const { id } = await newLog({});
    const deletion = sql`delete from audit_log.organizations where id = ${id}`;
    assertEquals(await codeOf(deletion), "23503");
    const { error } = await platform.from("organizations").delete().eq("id", id);
    assertEquals([error?.code, await entriesOf(id)], ["23503", 1]);
  });
});
