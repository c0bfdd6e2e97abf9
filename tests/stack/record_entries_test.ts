import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  assertExact,
  client,
  connect,
  entriesOf,
  entry,
  getPage,
  newOrganization,
  signUp,
} from "../helpers.ts";

const admin = await signUp();
const platform = client("service_role");

type Given = Record<string, unknown>;

/** Entries of one day as the platform would send them, a minute apart. */
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

describe("record_entries()", () => {
  it("writes all entries, and none again when the call is repeated", async () => {
    const organization = await newOrganization(admin);
    const given = entries(organization.id, 30);
    assertEquals(await record(given.slice(0, 20)), 20);
    assertEquals(await record(given), 10);
    assertEquals(await record(given), 0);
    assertEquals(await record([]), 0);
    await assertExact(organization, 30);
  });

  it("writes what was sent: every field, times without a zone as UTC, no data as {}", async () => {
    const { id, token } = await newOrganization(admin);
    const [full, bare] = entries(id, 2);
    const { data: _, ...rest } = { ...bare, action: "feedback_given" } as Given;
    const time = "2026-03-01T23:30:00.123456";
    assertEquals(await record([full ?? {}, { ...rest, created_at: time }]), 2);
    const { items } = await getPage(token);
    const { organization_id: __, ...shown } = full ?? {};
    const { organization_id: ___, ...shownRest } = rest;
    const second = { ...shownRest, created_at: "2026-03-01T23:30:00.123Z", data: {} };
    assertEquals(items as unknown[], [shown, second]);
  });

  it("writes an entry once that a call has twice", async () => {
    const organization = await newOrganization(admin);
    const [one = {}] = entries(organization.id, 1);
    assertEquals(await record([one, { ...one, agent_name: "later" }]), 1);
    await assertExact(organization, 1);
  });

  it("writes entries of several organizations", async () => {
    const organizations = [await newOrganization(admin), await newOrganization(admin)];
    assertEquals(await record(organizations.flatMap(({ id }) => entries(id, 3))), 6);
    for (const organization of organizations) await assertExact(organization, 3);
  });

  const BAD: Record<string, [code: string, reason: RegExp, given: Given]> = {
    "an organization that does not exist": [
      "23503",
      /is not in the table audit_log.organizations/,
      { organization_id: crypto.randomUUID() },
    ],
    "no organization": ["23502", /"organization_id"/, { organization_id: null }],
    "no id": ["23502", /"id"/, { id: undefined }],
    "an id that is no UUID": ["22P02", /uuid: "m-1"/, { id: "m-1" }],
    "no time": ["23502", /"created_at"/, { created_at: undefined }],
    "a time that is none": ["22007", /"yesterday noon"/, { created_at: "yesterday noon" }],
    "an empty address": ["23514", /user_email_is_address/, { user_email: "" }],
    "a name that is too long": ["23514", /agent_name_is_short/, { agent_name: "x".repeat(201) }],
    "data that is no object": ["23514", /data_is_object/, { data: [] }],
    "a misspelt field": ["22023", /an entry is an object with the fields id,/, { dat: {} }],
    "a transaction number": ["22023", /an entry is an object/, { transaction_id: "1" }],
  };
  for (const [name, [code, reason, bad]] of Object.entries(BAD)) {
    it(`refuses all for one with ${name}, and says which and why`, async () => {
      const organization = await newOrganization(admin);
      for (const index of [0, 6, 10]) {
        const given = entries(organization.id, 11);
        const at = { ...given[index], ...bad };
        given[index] = at;
        const error = await refusal(given);
        assertEquals(error.code, code);
        assertMatch(error.message, reason);
        assertMatch(
          error.message,
          new RegExp(`^entries\\[${index}\\] is refused, and nothing was recorded: `),
        );
        assertEquals(JSON.parse(error.details), { index, id: at["id"] ?? null });
      }
      await assertExact(organization, 0);
    });
  }

  it("names the first of several bad ones", async () => {
    const { id } = await newOrganization(admin);
    const given = entries(id, 100);
    for (const index of [37, 38, 80]) given[index] = { ...given[index], user_email: "" };
    assertMatch((await refusal(given)).message, /^entries\[37\]/);
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

  it("takes 10,000 in one call of the Data API", async () => {
    const organization = await newOrganization(admin);
    const given = entries(organization.id, 10_000);
    assertEquals(await record(given), 10_000);
    assertEquals(await record(given), 0);
    await assertExact(organization, 10_000);
  });

  it("finds the one bad entry of 1,000, wherever it is", async () => {
    const organization = await newOrganization(admin);
    const given = entries(organization.id, 1_000);
    for (const index of [0, 1, 499, 500, 501, 777, 998, 999]) {
      const { message } = await refusal(
        given.with(index, { ...given[index], user_email: "" }),
      );
      assertMatch(message, new RegExp(`^entries\\[${index}\\] .*user_email_is_address`));
    }
    assertEquals(await entriesOf(organization.id), 0);
  });

  it("lets calls with the same entries run at once: each entry is new in one of them", async () => {
    const organization = await newOrganization(admin);
    const given = entries(organization.id, 400);
    const calls = [given, given.toReversed(), given.slice(100), given.toReversed()];
    const recorded = await Promise.all(calls.map(record));
    assertEquals(recorded.reduce((sum, count) => sum + count), 400);
    await assertExact(organization, 400);
  });

  it("writes only with its transaction", async () => {
    const organization = await newOrganization(admin);
    const connection = connect();
    const given = JSON.stringify(entries(organization.id, 3));
    await connection.begin(async (transaction) => {
      await transaction`set local role service_role`;
      await transaction`savepoint before`;
      await transaction`select audit_log.record_entries(${given}::text::jsonb)`;
      await transaction`rollback to before`;
    });
    await connection.end();
    await assertExact(organization, 0);
  });

  it("is for the platform only", async () => {
    for (const who of [client("anon"), admin.client]) {
      const { error } = await who.rpc("record_entries", { entries: [] });
      assert(error && ["42501", "PGRST202"].includes(error.code), error?.code);
    }
  });
});
