import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  addMember,
  age,
  client,
  createApiKey,
  type Entry,
  getPage,
  listApiKeys,
  newOrganization,
  pageQuery,
  type Person,
  revokeApiKey,
  signUp,
  sql,
  TWO_DAYS,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();
const stranger = await signUp();

async function readLog(person: Person, organizationId: string, given: object = {}) {
  const { data } = await person.client.rpc("read_audit_log", {
    organization_id: organizationId,
    query: pageQuery("2026-03-01", "2026-03-02", given),
  }).throwOnError();
  const page = data as { total: number; items: string };
  return { total: page.total, items: JSON.parse(page.items) };
}

describe("list_organizations()", () => {
  it("gives the organizations that a person belongs to, by name, and in which role", async () => {
    const [person, other] = [await signUp(), await signUp()];
    const call = async () => (await person.client.rpc("list_organizations").throwOnError()).data;
    assertEquals(await call(), []);
    const last = await newOrganization(person, "Zzz");
    const first = await newOrganization(other, "Aaa");
    await addMember(first.id, person, "member");
    assertEquals(await call(), [
      { id: first.id, organization_id: first.id, name: "Aaa", role: "member", is_admin: false },
      { id: last.id, organization_id: last.id, name: "Zzz", role: "admin", is_admin: true },
    ]);
  });
});

describe("list_api_keys()", () => {
  it("says when a key was last accepted and how many requests its last minute used", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const [unused] = await listApiKeys(admin, id);
    assertEquals(unused?.id, apiKeyId);
    assertEquals([unused?.last_used_at, unused?.requests_last_minute], [null, 0]);
    await getPage(token);
    await age(sql, apiKeyId, "61 seconds");
    await getPage(token);
    await age(sql, apiKeyId, "58 seconds");
    await getPage(token);
    const before = Date.now();
    const [used] = await listApiKeys(admin, id);
    assertEquals(used?.requests_last_minute, 2);
    assert(Math.abs(before - Date.parse(used?.last_used_at ?? "")) < 5_000);
    await age(sql, apiKeyId, "60 seconds");
    assertEquals((await listApiKeys(admin, id))[0]?.requests_last_minute, 0);
  });

  it("gives active keys first, then the latest first, and says who made and revoked them", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const second = await createApiKey(admin, id, "second");
    const third = await createApiKey(admin, id, "third");
    await revokeApiKey(admin, third);
    const keys = await listApiKeys(admin, id);
    assertEquals(keys.map((key) => key.id), [second.id, apiKeyId, third.id]);
    assertEquals(
      keys.map((key) => [key.created_by_email, key.revoked_by_email]),
      [[admin.email, null], [admin.email, null], [admin.email, admin.email]],
    );
  });

  it("gives all of 1,200 keys: the Data API's limit of rows cuts nothing", async () => {
    const { id } = await newOrganization(admin);
    await sql`
      select count(audit_log_private.insert_api_key(${id}, 'one of many')) from generate_series(1, 1199)`;
    assertEquals((await listApiKeys(admin, id)).length, 1200);
  });
});

describe("read_audit_log()", () => {
  it("gives an administrator the page and the total that the API gives, newest first", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(
      id,
      Array.from({ length: 60 }, (_, n): Entry => ({
        created_at: new Date(Date.parse("2026-03-01T00:00:00Z") + n * 2_880_000).toISOString(),
        action: n % 3 ? "message_created" : "feedback_given",
      })),
    );
    for (
      const [call, query] of [
        [{ page_limit: 7 }, "limit=7"],
        [{ page_limit: 7, page_offset: 50 }, "limit=7&offset=50"],
        [{ page_limit: 7, page_offset: 58 }, "limit=7&offset=58"],
        [{ page_limit: 7, page_offset: -1, newest_first: null }, "limit=7"],
        [{ action: "feedback_given", page_offset: 3 }, "action=feedback_given&offset=3"],
      ] as const
    ) {
      const { total, items } = await getPage(token, `${TWO_DAYS}&order=desc&${query}`);
      assertEquals(await readLog(admin, id, call), { total, items });
    }
  });

  it("never gives more than 1000 entries at once", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(1001).fill({}));
    const { total, items } = await readLog(admin, id, { page_limit: 5000 });
    assertEquals([total, items.length], [1001, 1000]);
  });
});

describe("daily_entry_counts()", () => {
  it("gives how many entries each day or hour has, of all or of one action or person", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [
      { created_at: "2026-02-28T23:59:59.999Z" },
      { created_at: "2026-03-01T00:00:00Z" },
      { created_at: "2026-03-01T12:00:00Z", action: "agent_added" },
      { created_at: "2026-03-05T12:59:59.999Z", user_email: "bob@example.com" },
      { created_at: "2026-03-05T12:00:00Z" },
    ]);
    const counts = async (given: object = {}) => {
      const range = { organization_id: id, start_date: "2026-03-01", end_date: "2026-03-31" };
      const { data } = await admin.client.rpc("daily_entry_counts", { ...range, ...given })
        .throwOnError();
      return data;
    };
    assertEquals(await counts(), [
      { day: "2026-03-01", entries: 2 },
      { day: "2026-03-05", entries: 2 },
    ]);
    const user_email = "bob@example.com";
    assertEquals(await counts({ user_email }), [{ day: "2026-03-05", entries: 1 }]);
    assertEquals(await counts({ user_email, action: "agent_added" }), []);
    assertEquals(await counts({ user_email, by_hour: true }), [
      { day: "2026-03-05", hour: 12, entries: 1 },
    ]);
    assertEquals(await counts({ by_hour: true }), [
      { day: "2026-03-01", hour: 0, entries: 1 },
      { day: "2026-03-01", hour: 12, entries: 1 },
      { day: "2026-03-05", hour: 12, entries: 2 },
    ]);
    assertEquals(await counts({ action: "agent_added" }), [{ day: "2026-03-01", entries: 1 }]);
    assertEquals(await counts({ start_date: "2026-04-01", end_date: "2026-04-01" }), []);
  });
});

describe("what administrators ask", () => {
  it("is refused to strangers, members and nobody, in the same words as for what does not exist", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const member = await signUp();
    await addMember(id, member, "member");
    const messages = new Set<string>();
    for (const organization_id of [id, crypto.randomUUID()]) {
      for (const [rank, caller] of [stranger.client, member.client, client("anon")].entries()) {
        const range = { organization_id, start_date: "2026-03-01", end_date: "2026-03-02" };
        const query = pageQuery("2026-03-01", "2026-03-02");
        for (
          const { error, status } of [
            await caller.rpc("list_api_keys", { organization_id }),
            await caller.rpc("create_api_key", { organization_id, name: "x" }),
            await caller.rpc("create_api_key", { organization_id, name: " " }),
            await caller.rpc("revoke_api_key", { organization_id, api_key_id: apiKeyId }),
            await caller.rpc("rotate_api_key", { organization_id, api_key_id: apiKeyId }),
            await caller.rpc("api_key_usage", range),
            await caller.rpc("read_audit_log", { organization_id, query }),
            await caller.rpc("daily_entry_counts", range),
            await caller.rpc("list_seals", { organization_id, query }),
            await caller.rpc("latest_seal", { organization_id }),
            await caller.rpc("read_entry", {
              organization_id,
              created_at: "2026-03-01T12:00:00Z",
              id: crypto.randomUUID(),
            }),
          ]
        ) {
          assertEquals([error?.code, status], ["42501", rank === 2 ? 401 : 403]);
          if (rank < 2) messages.add(JSON.stringify(error));
        }
      }
    }
    assertEquals(messages.size, 1);
    await getPage(token);
    assertEquals((await listApiKeys(admin, id)).length, 1);
  });
});
