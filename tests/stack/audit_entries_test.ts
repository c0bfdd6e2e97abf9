import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  assertExact,
  client,
  codeOf,
  connect,
  entriesOf,
  type Entry,
  entry,
  getPage,
  insertEntry,
  MESSAGE_DATA,
  newLog,
  rolledBack,
  sql,
} from "../helpers.ts";

const platform = client("service_role");

type Given = Record<string, unknown>;

/** Entries of one day as the platform would send them, some seconds apart. */
function entries(organizationId: string, count: number): Given[] {
  return Array.from({ length: count }, (_, n) => ({
    ...entry(organizationId),
    id: crypto.randomUUID(),
    created_at: new Date(Date.UTC(2026, 2, 1) + n * 8_000).toISOString(),
  }));
}

/** How many were new. */
async function record(given: Given[]): Promise<number> {
  const { data } = await platform.rpc("record_entries", { entries: given as [] }).throwOnError();
  return (data as { recorded: number }).recorded;
}

async function refusal(given: unknown) {
  const { error } = await platform.rpc("record_entries", { entries: given as [] });
  if (!error) throw new Error("was not refused");
  return error;
}

/** An object of so many levels. */
function nested(levels: number) {
  return { deep: JSON.parse("[".repeat(levels - 1) + "1" + "]".repeat(levels - 1)) };
}

describe("a plain insert", () => {
  it("needs only the organization, the action and the names: id, time and data have defaults", async () => {
    const { id, token } = await newLog();
    const before = Date.now();
    await platform.from("audit_entries").insert({
      organization_id: id,
      action: "agent_added",
      user_email: "ada@example.com",
      agent_name: "Assistant",
    }).throwOnError();
    const [item] = (await getPage(token, "start=2026-01-01&end=9999-12-31")).items;
    const time = Date.parse(item?.created_at ?? "");
    // The database's clock may be another machine's.
    assert(Math.abs(time - before) < 60_000, item?.created_at);
    assertEquals(item?.data, {});
  });

  it("takes its default time from the clock, not from the start of its transaction", async () => {
    const { id } = await newLog();
    const [written] = await sql.begin(async (transaction) => {
      for (let i = 0; i < 2; i++) await insertEntry(transaction, id);
      return await transaction`
        select count(distinct created_at)::int as times
        from audit_log.audit_entries where organization_id = ${id} and created_at > now()`;
    });
    assertEquals(written?.["times"], 2);
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
  it("writes each entry once, also when it is repeated or has an entry twice", async () => {
    const log = await newLog();
    const given = entries(log.id, 30);
    assertEquals(await record(given.slice(0, 20)), 20);
    assertEquals(await record([...given, { ...given[29], agent_name: "later" }]), 10);
    assertEquals(await record(given), 0);
    assertEquals(await record([]), 0);
    await assertExact(log, 30);
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

  it("takes 10,000 in one call of the Data API", async () => {
    const log = await newLog();
    const given = entries(log.id, 10_000);
    assertEquals(await record(given), 10_000);
    assertEquals(await record(given), 0);
    await assertExact(log, 10_000);
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

  it("refuses what is no array of objects", async () => {
    for (const given of [null, {}, "entries", 1]) {
      const { code, message } = await refusal(given);
      assertEquals([code, message], ["22023", "entries is an array of objects"]);
    }
    for (const item of [null, 1, "entry", []]) {
      assertMatch((await refusal([item])).message, /^entries\[0\].*an entry is an object/);
    }
  });

  it("writes only with its transaction", async () => {
    const log = await newLog();
    const connection = connect();
    const given = JSON.stringify(entries(log.id, 3));
    await connection.begin(async (transaction) => {
      await transaction`set local role service_role`;
      await transaction`savepoint before`;
      await transaction`select audit_log.record_entries(${given}::text::jsonb)`;
      await transaction`rollback to before`;
    });
    await connection.end();
    await assertExact(log, 0);
  });
});

const ADDRESS = /user_email_is_address/;
const DATES = /created_at_within_api_dates/;
/** What is wrong, and how it is refused. */
const BAD: [name: string, given: Given, code: string, reason: RegExp][] = [
  [
    "an organization that does not exist",
    { organization_id: crypto.randomUUID() },
    "23503",
    /is not in the table audit_log.organizations/,
  ],
  ["no organization", { organization_id: null }, "23502", /"organization_id"/],
  ["no id", { id: null }, "23502", /"id"/],
  ["an id that is no UUID", { id: "m-1" }, "22P02", /uuid: "m-1"/],
  ["no time", { created_at: null }, "23502", /"created_at"/],
  ["a time that is none", { created_at: "yesterday noon" }, "22007", /"yesterday noon"/],
  ["a time before the year 1", { created_at: "0001-12-31T23:59:59Z BC" }, "23514", DATES],
  ["a time after the year 9999", { created_at: "10000-01-01T00:00:00Z" }, "23514", DATES],
  ["an infinite time", { created_at: "infinity" }, "23514", DATES],
  ["an unknown action", { action: "login" }, "23503", /has the action "login"/],
  ["no user_email", { user_email: null }, "23502", /"user_email"/],
  ["an empty address", { user_email: "" }, "23514", ADDRESS],
  ["a user_email that is no address", { user_email: "ada" }, "23514", ADDRESS],
  [
    "a user_email of more than 320 characters",
    { user_email: `${"x".repeat(320)}@example.com` },
    "23514",
    /user_email_is_short/,
  ],
  ["no agent_name", { agent_name: null }, "23502", /"agent_name"/],
  [
    "an agent_name of more than 200 characters",
    { agent_name: "x".repeat(201) },
    "23514",
    /agent_name_is_short/,
  ],
  ["data that is an array", { action: "agent_added", data: [] }, "23514", /data_is_object/],
  ["data that is a string", { action: "agent_added", data: "x" }, "23514", /data_is_object/],
  [
    "data of more than 4 kB",
    { data: { ...MESSAGE_DATA, more: "x".repeat(4_000) } },
    "23514",
    /data_is_small/,
  ],
  [
    "data that is nested 33 levels deep",
    { action: "agent_added", data: nested(33) },
    "23514",
    /data_is_shallow/,
  ],
  [
    "data that is nested 2,000 levels deep",
    { action: "agent_added", data: nested(2000) },
    "23514",
    /data_is_shallow/,
  ],
  ...Object.keys(MESSAGE_DATA).flatMap((field): typeof BAD =>
    [undefined, null, 1].map((value) => [
      `a message whose ${field} is ${value}`,
      { data: { ...MESSAGE_DATA, [field]: value } },
      "23514",
      /data_has_required/,
    ])
  ),
];

describe("an entry is refused, with every other of the same call, that has", () => {
  for (const [name, given, code, reason] of BAD) {
    it(name, async () => {
      const log = await newLog();
      const call = entries(log.id, 11);
      call[6] = { ...call[6], ...given };
      const inserted = await platform.from("audit_entries").insert(call as never);
      assertEquals(inserted.error?.code, code);
      assertMatch(inserted.error?.message ?? "", reason);
      const recorded = await refusal(call);
      assertEquals(recorded.code, code);
      assertMatch(recorded.message, reason);
      assertMatch(recorded.message, /^entries\[6\] is refused, and nothing was recorded: /);
      assertEquals(JSON.parse(recorded.details), { index: 6, id: call[6]["id"] });
      await assertExact(log, 0);
    });
  }

  it("a field that entries do not have, or the number of a transaction", async () => {
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
  it("for the platform, which may not update or delete, and nobody else may write", async () => {
    const { id } = await newLog({});
    const log = () => platform.from("audit_entries");
    for (
      const { error } of [
        await log().update({ user_email: "eve@example.com" }).eq("organization_id", id),
        await log().delete().eq("organization_id", id),
        await log().upsert({ ...entry(id), id: crypto.randomUUID() }),
        await client("anon").from("audit_entries").insert(entry(id)),
      ]
    ) assertEquals(error?.code, "42501");
    assertEquals(await entriesOf(id), 1);
  });

  it("for the owner, whose update or truncate is refused, even when it would touch nothing", async () => {
    for (
      const [role, statement] of [
        ["service_role", "truncate audit_log.audit_entries"],
        ["postgres", "update audit_log.audit_entries set user_email = 'eve@example.com'"],
        ["postgres", "update audit_log.audit_entries set data = '{}' where false"],
        ["postgres", "truncate audit_log.audit_entries"],
        ["postgres", "truncate audit_log.organizations cascade"],
      ] as const
    ) {
      const code = await rolledBack(sql, async (transaction) => {
        await transaction`select set_config('role', ${role}, true)`;
        return await codeOf(transaction.unsafe(statement));
      });
      assertEquals(code, "42501", statement);
    }
  });

  it("for an organization with entries, which cannot be deleted from under them", async () => {
    const { id } = await newLog({});
    const deletion = sql`delete from audit_log.organizations where id = ${id}`;
    assertEquals(await codeOf(deletion), "23503");
    const { error } = await platform.from("organizations").delete().eq("id", id);
    assertEquals([error?.code, await entriesOf(id)], ["23503", 1]);
  });
});
