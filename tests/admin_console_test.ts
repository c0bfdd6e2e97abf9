import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import {
  age,
  client,
  connect,
  type Entry,
  get,
  getPage,
  newOrganization,
  type Person,
  signUp,
  TWO_DAYS,
  writeEntries,
} from "./helpers.ts";

const sql = connect();
const admin = await signUp();
const stranger = await signUp();
afterAll(() => sql.end());

async function usage(person: Person, organizationId: string) {
  const { data } = await person.client.from("api_key_usage").select()
    .eq("organization_id", organizationId).throwOnError();
  return data;
}

async function readLog(person: Person, organizationId: string, given: object = {}) {
  const { data } = await person.client.rpc("read_audit_log", {
    organization_id: organizationId,
    start_date: "2026-03-01",
    end_date: "2026-03-02",
    ...given,
  }).throwOnError();
  const page = data as { total: number; items: string };
  return { total: page.total, items: JSON.parse(page.items) };
}

describe("api_key_usage", () => {
  it("says when a key was last accepted and how many requests its last minute used", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const unused = (await usage(admin, id))[0];
    assertEquals(unused?.api_key_id, apiKeyId);
    assertEquals([unused?.last_used_at, unused?.requests_last_minute], [null, 0]);
    await get(token);
    await age(sql, apiKeyId, "61 seconds");
    await get(token);
    await age(sql, apiKeyId, "58 seconds");
    await get(token);
    const before = Date.now();
    const [row] = await usage(admin, id);
    assertEquals(row?.requests_last_minute, 2);
    assert(Math.abs(before - Date.parse(row?.last_used_at ?? "")) < 5_000);
    await age(sql, apiKeyId, "60 seconds");
    assertEquals((await usage(admin, id))[0]?.requests_last_minute, 0);
  });

  it("shows nothing to strangers, members and nobody", async () => {
    const { id } = await newOrganization(admin);
    const member = await signUp();
    await client("service_role").from("organization_members")
      .insert({ organization_id: id, user_id: member.id, role: "member" }).throwOnError();
    for (const person of [stranger, member]) assertEquals(await usage(person, id), []);
    const { error } = await client("anon").from("api_key_usage").select();
    assertEquals(error?.code, "42501");
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

  it("shows nothing to strangers and members, and is refused to nobody", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, [{}, {}]);
    const member = await signUp();
    await client("service_role").from("organization_members")
      .insert({ organization_id: id, user_id: member.id, role: "member" }).throwOnError();
    for (const person of [stranger, member]) {
      assertEquals(await readLog(person, id), { total: 0, items: [] });
      const { data } = await person.client.from("audit_entries").select("id")
        .eq("organization_id", id).throwOnError();
      assertEquals(data, []);
    }
    const { error } = await client("anon").rpc("read_audit_log", {
      organization_id: id,
      start_date: "2026-03-01",
      end_date: "2026-03-02",
    });
    assertEquals(error?.code, "42501");
  });
});
