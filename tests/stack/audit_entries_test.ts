import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  client,
  entriesOf,
  type Entry,
  entry,
  errorOf,
  getPage,
  MESSAGE_DATA,
  newOrganization,
  rolledBack,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

/** Asserts that a role may not run a statement. */
async function assertNotAllowed(role: string, statement: string): Promise<void> {
  const run = rolledBack(sql, async (transaction) => {
    await transaction`select set_config('role', ${role}, true)`;
    await transaction.unsafe(statement);
  });
  assertEquals((await errorOf(run)).code, "42501", statement);
}

/** An object of so many levels. */
function nested(levels: number) {
  return { deep: JSON.parse("[".repeat(levels - 1) + "1" + "]".repeat(levels - 1)) };
}

describe("writing an entry", () => {
  it("needs only the organization, the action and the names: id, time and data have defaults", async () => {
    const { id, token } = await newOrganization(admin);
    const before = Date.now();
    await client("service_role").from("audit_entries").insert({
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
    const { id } = await newOrganization(admin);
    const [written] = await sql.begin(async (transaction) => {
      for (let i = 0; i < 2; i++) {
        await transaction`
          insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
          values (${id}, 'agent_added', 'ada@example.com', 'Assistant')`;
      }
      return await transaction`
        select count(distinct created_at)::int as times
        from audit_log.audit_entries where organization_id = ${id} and created_at > now()`;
    });
    assertEquals(written?.["times"], 2);
  });

  for (
    const [name, given] of Object.entries<Record<string, unknown>>({
      "an unknown action": { action: "login" },
      "no user_email": { user_email: null },
      "a user_email that is no address": { user_email: "ada" },
      "no agent_name": { agent_name: null },
      "no data": { data: null },
      "data that is an array": { action: "agent_added", data: [] },
      "data that is a string": { action: "agent_added", data: "x" },
      "a time before the year 1": { created_at: "0001-12-31T23:59:59Z BC" },
      "a time after the year 9999": { created_at: "10000-01-01T00:00:00Z" },
      "a user_email of more than 320 characters": { user_email: `${"x".repeat(320)}@example.com` },
      "an agent_name of more than 200 characters": { agent_name: "x".repeat(201) },
      "data of more than 4 kB": { data: { ...MESSAGE_DATA, more: "x".repeat(4_000) } },
      "data that is nested 33 levels deep": { action: "agent_added", data: nested(33) },
      "data that is nested 2,000 levels deep": { action: "agent_added", data: nested(2000) },
      "an infinite time": { created_at: "infinity" },
      "an organization that does not exist": {
        organization_id: "00000000-0000-4000-8000-000000000000",
      },
      ...Object.fromEntries(
        Object.keys(MESSAGE_DATA).flatMap((field) => [
          [`a message without ${field}`, { data: { ...MESSAGE_DATA, [field]: undefined } }],
          [`a message whose ${field} is null`, { data: { ...MESSAGE_DATA, [field]: null } }],
          [`a message whose ${field} is a number`, { data: { ...MESSAGE_DATA, [field]: 1 } }],
        ]),
      ),
    })
  ) {
    it(`with ${name} is refused, together with every other row of the statement`, async () => {
      const { id } = await newOrganization(admin);
      const { error } = await client("service_role").from("audit_entries")
        .insert([entry(id), { ...entry(id), ...given } as ReturnType<typeof entry>]);
      assert(error);
      assertEquals(await entriesOf(id), 0);
    });
  }

  it("twice with the same id and time is refused: a retry writes nothing twice", async () => {
    const { id } = await newOrganization(admin);
    const row = { ...entry(id), id: crypto.randomUUID() };
    const entries = client("service_role").from("audit_entries");
    await entries.insert(row).throwOnError();
    const { error } = await entries.insert(row);
    assertEquals(error?.code, "23505");
    assertEquals(await entriesOf(id), 1);
  });

  it("takes data with more than the four fields of a message, and any object for other actions", async () => {
    const { id, token } = await newOrganization(admin);
    const given: Entry[] = [
      { data: { ...MESSAGE_DATA, more: [1, { deep: true }] } },
      { action: "feedback_given", created_at: "2026-03-02T00:00:00Z", data: { thumbs: "up" } },
      { action: "feedback_given", created_at: "2026-03-02T00:00:01Z", data: nested(32) },
    ];
    await writeEntries(id, given);
    const { items } = await getPage(token);
    assertEquals(items.map((item) => item.data), given.map((entry) => entry.data));
  });
});

describe("the log is append-only", () => {
  it("for the platform: service_role may not update, delete or truncate", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [{}]);
    const entries = () => client("service_role").from("audit_entries");
    for (
      const { error } of [
        await entries().update({ user_email: "eve@example.com" }).eq("organization_id", id),
        await entries().delete().eq("organization_id", id),
        await entries().upsert({ ...entry(id), id: crypto.randomUUID() }),
      ]
    ) assertEquals(error?.code, "42501");
    await assertNotAllowed("service_role", "truncate audit_log.audit_entries");
    assertEquals(await entriesOf(id), 1);
  });

  it("for the owner: update and truncate are refused, even when they would touch nothing", async () => {
    for (
      const statement of [
        "update audit_log.audit_entries set user_email = 'eve@example.com'",
        "update audit_log.audit_entries set data = '{}' where false",
        "truncate audit_log.audit_entries",
        "truncate audit_log.organizations cascade",
      ]
    ) await assertNotAllowed("postgres", statement);
  });

  it("and an organization with entries cannot be deleted from under them", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [{}]);
    const { error } = await client("service_role").from("organizations").delete().eq("id", id);
    assertEquals(error?.code, "23503");
    assertEquals(await entriesOf(id), 1);
  });
});
