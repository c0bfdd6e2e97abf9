// Needs a stack.

import { assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { addMember, ALL_DAYS, call, client, codeOf, getPage, getSeals } from "../helpers/mod.ts";
import { insertEntries, newLog, pidOf, refusalOf, signUp } from "../helpers/mod.ts";
import { somebodyWaitsFor, sql, valueOf } from "../helpers/mod.ts";

const platform = client("service_role");

/** Ids of a platform, and their UUIDs. */
const UUIDS = [
  ["acme", "4b2050fc-6115-50c8-ab86-94bc9d40b3e7"],
  ["Acme", "3117871f-0e4b-5823-9894-af48a6de3763"],
  ["東京 本社", "26a8cac9-e076-531b-9ee3-d6afe84b3134"],
  ["x".repeat(200), "3eedddf8-27c9-5622-a773-8d6c51979785"],
  ["  acme ", "384a681b-e734-53cd-a86d-812b3c92aabc"],
  ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000001"],
  ["0A11CE00-0000-4000-8000-00000000000F", "0a11ce00-0000-4000-8000-00000000000f"],
  ["0a11ce0000004000800000000000000f", "3cdf2d06-6a0b-5378-9f14-5b81eeb2dac6"],
  ["{0a11ce00-0000-4000-8000-00000000000f}", "1467eacf-d128-5867-bb31-88af92f4641c"],
  ["0a11ce00-0000-4000-8000-00000000000f ", "3538e288-b406-5d8c-935c-ae7752427b45"],
  ["0a11ce00-0000-4000-8000-00000000000g", "b96027b3-28b2-5fac-ac6b-8e1a9b0357e2"],
  ["😀", "ebcdd3b2-a216-57f6-b8c5-3ff8b8b90bee"],
  ["e\u0301", "65a4c365-2ac7-5588-a2f0-c139bab18a19"],
  ["\u00e9", "9ed9825b-1094-5b29-87a6-851537edb3ef"],
] as const;

it("organization_uuid() is the id itself in the form of 36 characters, and otherwise version 5 in the published namespace", async () => {
  for (const [id, uuid] of UUIDS) {
    assertEquals(await valueOf(sql`select audit_log.organization_uuid(${id})`), uuid, id);
  }
  assertEquals(await valueOf(sql`select audit_log.organization_uuid(null)`), null);
});

/** Writes an entry of an organization over the Data API, by the platform's id. Returns the code of its error. */
async function record(organization: string | null): Promise<string | undefined> {
  const entry = { action: "agent_added", user_email: "ada@example.com", agent_name: "Assistant" };
  const entries = [{ ...entry, organization, created_at: new Date().toISOString() }];
  return (await platform.rpc("record_entries", { entries })).error?.code;
}

/** Reads what a token reads: the id that pages, the feed and seals show, and how many entries. */
async function shownTo(token: string) {
  const { organization_id, total } = await getPage(token, ALL_DAYS);
  for (const answer of [await getPage(token, "after=beginning"), await getSeals(token)]) {
    assertEquals(answer.organization_id, organization_id);
  }
  return [organization_id, total];
}

async function createKey(organization_id: string): Promise<string> {
  const { data } = await platform.rpc("create_api_key", { organization_id, name: "test" })
    .throwOnError();
  return (data as { token: string }).token;
}

it("an organization is there from its first entry or key on, under the platform's own id, which the API shows. It is another one in capitals, unless its id is a UUID", async () => {
  const ids = ["acme", '"Größe\t東京"\n{é}', "x".repeat(190)].map((id) =>
    `${id} ${crypto.randomUUID().slice(0, 8)}`
  );
  for (const id of ids) {
    assertEquals(await record(id), undefined);
    assertEquals(await shownTo(await createKey(id)), [id, 1]);
  }
  const other = `${ids[0]}`.toUpperCase();
  const { error } = await platform.rpc("list_api_keys", { organization_id: other });
  assertEquals(error?.code, "42501");
  assertEquals(await shownTo(await createKey(other)), [other, 0]);
  const byKey = crypto.randomUUID();
  const token = await createKey(byKey.toUpperCase());
  await insertEntries(sql, byKey, "2020-01-01", 1);
  assertEquals(await record(byKey.toUpperCase()), undefined);
  assertEquals(await shownTo(token), [byKey, 2]);
});

it("an organization is not there for an id that is null, blank or longer than 200 characters, nor for a bare UUID that may be made from an id", async () => {
  const refused = [[null, "23502"], ["", "23514"], [" \t", "23514"], ["x".repeat(201), "23514"]];
  for (const [id = null, code] of refused) assertEquals(await record(id), code, `${id}`);
  const made = sql`select audit_log.organization_uuid(gen_random_uuid() || 'x')`;
  const refusal = await refusalOf(insertEntries(sql, await valueOf(made), "2020-01-01", 1));
  assertMatch(refusal, /^23503 .*which the log does not know: a UUID of version 5/);
});

it("an organization is not that of another id with the same UUID, whichever came first: not to write, nor with the secret key or as a person", async () => {
  for (const isFirst of [true, false]) {
    const id = crypto.randomUUID().slice(0, 8);
    const uuid: string = await valueOf(sql`select audit_log.organization_uuid(${id})`);
    const [first, second] = isFirst ? [id, uuid] : [uuid, id];
    const [other, ofBoth] = [await signUp(), await signUp()];
    await addMember(second, other, "admin");
    for (const each of [second, first]) await addMember(each, ofBoth, "admin");
    const token = await createKey(first);
    assertEquals(await record(second), "23505");
    const named = { organization_id: second };
    const created = await platform.rpc("create_api_key", { ...named, name: "test" });
    assertEquals(created.error?.code, "23505");
    const asked = [[platform, second], [other.client, second], [other.client, uuid]] as const;
    for (const [who, organization_id] of asked) {
      assertEquals((await who.rpc("list_api_keys", { organization_id })).error?.code, "42501");
    }
    assertEquals(await call(other, "list_organizations", {}), []);
    const keys = await call<unknown[]>(ofBoth, "list_api_keys", { organization_id: uuid });
    assertEquals(keys.length, 1);
    assertEquals(await shownTo(token), [first, 0]);
  }
});

it("an organization is added once by 16 writers at once, also while another transaction adds it, and none fails", async () => {
  const ids = ["one", "two"].map((word) => `${word} ${crypto.randomUUID()}`);
  let codes: Promise<string | undefined>[] = [];
  await sql.begin(async (first) => {
    await first`select audit_log_private.ensure_organization(${`${ids[0]}`})`;
    codes = ids.flatMap((id) => Array.from({ length: 16 }, () => record(id)));
    await somebodyWaitsFor(sql, await pidOf(first));
  });
  assertEquals(await Promise.all(codes), Array(32).fill(undefined));
  for (const id of ids) assertEquals(await shownTo(await createKey(id)), [id, 16]);
});

it("organizations are added by large inserts at once, none of which fails: they add them in one order", async () => {
  const ids = Array.from({ length: 2_000 }, () => crypto.randomUUID());
  const inserts = Array.from({ length: 8 }, async (_, n) => {
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
      select unnest(${
      ids.slice(n * 100, 1_300 + n * 100)
    }::uuid[]), 'agent_added', 'ada@example.com', 'Assistant'`;
  });
  await Promise.all(inserts);
});

it("an organization has the UUID of its id for ever", async () => {
  const { id } = await newLog();
  for (const platform_id of ["acme", id.toUpperCase(), crypto.randomUUID()]) {
    const change =
      sql`update audit_log.organizations set platform_id = ${platform_id} where id = ${id}`;
    assertEquals(await codeOf(change), "23514", platform_id);
  }
});
