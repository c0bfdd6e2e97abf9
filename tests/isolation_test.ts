import { assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import {
  AUDIT_LOG_URL,
  connect,
  getPage,
  newOrganization,
  signUp,
  TWO_DAYS,
  writeEntries,
} from "./helpers.ts";

const sql = connect();
const admin = await signUp();
afterAll(() => sql.end());

describe("two organizations", () => {
  it("see exactly their own entries, with every filter, also at the same millisecond", async () => {
    const organizations = await Promise.all([newOrganization(admin), newOrganization(admin)]);
    const actions = ["agent_added", "feedback_given"] as const;
    for (const [i, { id }] of organizations.entries()) {
      await writeEntries(
        id,
        actions.flatMap((action) => [
          { action, created_at: "2026-03-01T00:00:00Z", agent_name: `agent of ${i}` },
          { action, created_at: "2026-03-02T23:59:59.999Z", agent_name: `agent of ${i}` },
        ]),
      );
    }
    for (const [i, { id, token }] of organizations.entries()) {
      for (const filter of ["", "&action=agent_added", "&order=desc", "&limit=1&offset=1"]) {
        const page = await getPage(token, TWO_DAYS + filter);
        assertEquals(page.organization_id, id);
        assertEquals(page.total, filter.includes("action") ? 2 : 4);
        for (const item of page.items) assertEquals(item.agent_name, `agent of ${i}`);
      }
    }
  });

  it("are never mixed up when both are read at the same time", async () => {
    const organizations = await Promise.all(
      Array.from({ length: 4 }, () => newOrganization(admin)),
    );
    await Promise.all(organizations.map(({ id }) => writeEntries(id, [{ agent_name: id }])));
    const requests = Array.from({ length: 30 }, () => organizations).flat();
    await Promise.all(requests.map(async ({ id, token }) => {
      const page = await getPage(token);
      assertEquals([page.organization_id, page.items[0]?.agent_name], [id, id]);
    }));
  });

  it("cannot be chosen: headers, cookies and a body name no organization", async () => {
    const [mine, other] = await Promise.all([newOrganization(admin), newOrganization(admin)]);
    const response = await fetch(`${AUDIT_LOG_URL}?${TWO_DAYS}`, {
      headers: {
        Authorization: `Bearer ${mine.token}`,
        apikey: other.token,
        Cookie: `organization_id=${other.id}`,
        "X-Organization-Id": other.id,
        "Content-Profile": "private",
      },
    });
    assertEquals((await response.json()).organization_id, mine.id);
  });
});

describe("an administrator", () => {
  it("of one organization finds nothing of another: organizations, members, keys", async () => {
    const stranger = await signUp();
    await newOrganization(stranger);
    const { id } = await newOrganization(admin);
    const found = await Promise.all([
      stranger.client.from("organizations").select("id").eq("id", id).throwOnError(),
      stranger.client.from("organization_members").select("user_id").eq("organization_id", id)
        .throwOnError(),
      stranger.client.from("api_keys").select("id").eq("organization_id", id).throwOnError(),
    ]);
    assertEquals(found.map(({ data }) => data), [[], [], []]);
  });

  it("of two organizations has a key for each, and each key sees its own", async () => {
    const [first, second] = await Promise.all([newOrganization(admin), newOrganization(admin)]);
    assertEquals((await getPage(first.token)).organization_id, first.id);
    assertEquals((await getPage(second.token)).organization_id, second.id);
  });
});

describe("a plain member", () => {
  it("sees the organization and the own membership, but no key", async () => {
    const member = await signUp();
    const { id } = await newOrganization(admin);
    await sql`
      insert into public.organization_members (organization_id, user_id, role)
      values (${id}, ${member.id}, 'member')`;
    const { client } = member;
    const organizations = await client.from("organizations").select("id").throwOnError();
    const members = await client.from("organization_members").select("user_id, role")
      .throwOnError();
    const keys = await client.from("api_keys").select("id").throwOnError();
    assertEquals(organizations.data, [{ id }]);
    assertEquals(members.data, [{ user_id: member.id, role: "member" }]);
    assertEquals(keys.data, []);
  });
});
