// Needs a stack.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addMember, call, client, createApiKey, getPage, getProblem } from "../helpers/mod.ts";
import { healthOf, listApiKeys, type NewApiKey, newOrganization } from "../helpers/mod.ts";
import { revokeApiKey, runUpkeep, serverFor, signUp, sql } from "../helpers/mod.ts";

const admin = await signUp();
const platform = client("service_role");

/** Lists the live keys that are marked as those of an owner who left. */
async function markedKeys(id: string): Promise<string[]> {
  const keys = await healthOf<{ api_key_id: string }>(sql, id, "keys_whose_owner_left");
  return keys.map(({ api_key_id }) => api_key_id).sort();
}

describe("person_left()", () => {
  const left = async (organization_id: string, person: string, revoke = false) => {
    const { data } = await platform.rpc("person_left", { organization_id, person, revoke });
    return (data as { keys: number }).keys;
  };

  it("marks the person's active keys of this organization until they end. A successor belongs to whoever rotates", async () => {
    const [leaver, successor] = [await signUp(), await signUp()];
    const { id, apiKeyId, token } = await newOrganization(leaver);
    const other = await newOrganization(leaver);
    await addMember(id, successor, "admin");
    await createApiKey(successor, id);
    const [second, ended] = [await createApiKey(leaver, id), await createApiKey(leaver, id)];
    await revokeApiKey(leaver, ended);
    for (let n = 0; n < 2; n++) assertEquals(await left(id, leaver.id), 2);
    assertEquals(await markedKeys(id), [apiKeyId, second.id].sort());
    assertEquals(await markedKeys(other.id), []);
    await getPage(token);
    await revokeApiKey(successor, second);
    const rotation = { organization_id: id, api_key_id: apiKeyId, overlap: "1 hour" };
    const rotated = await call<NewApiKey>(successor, "rotate_api_key", rotation);
    assertEquals(await markedKeys(id), [apiKeyId]);
    await revokeApiKey(successor, { organization_id: id, id: apiKeyId });
    assertEquals(await markedKeys(id), []);
    const [unmarked] = (await listApiKeys(successor, id)).filter((key) => key.id === rotated.id);
    assertEquals([unmarked?.owner_left_at, unmarked?.created_by_email], [null, successor.email]);
    assertEquals(await left(id, leaver.id), 0);
    assertEquals(await left(id, successor.id, true), 2);
    await getProblem(401, rotated.token);
    await getPage(other.token);
  });

  it("happens by itself when an administrator becomes an auditor or a member, or is removed from organization_members", async () => {
    const { id, apiKeyId } = await newOrganization(admin);
    const members = platform.from("organization_members");
    const mine = { organization_id: id, user_id: admin.id };
    const admit = () => members.upsert({ ...mine, role: "admin" }).throwOnError();
    await admit();
    assertEquals(await markedKeys(id), []);
    for (const role of ["auditor", "member", null]) {
      const change = role ? members.update({ role }) : members.delete();
      await change.match(mine).throwOnError();
      assertEquals(await markedKeys(id), [apiKeyId], `${role}`);
      await admit();
      assertEquals(await markedKeys(id), [apiKeyId]);
      await sql`update audit_log_private.api_keys set owner_left_at = null where organization_id = ${id}`;
    }
  });
});

it("the upkeep marks the keys of an account that was deleted, and of nobody whom another identity provider knows", async () => {
  const [gone, hidden] = [await signUp(), await signUp()];
  const { id, apiKeyId } = await newOrganization(gone);
  await addMember(id, hidden, "admin");
  const other = await newOrganization(gone);
  const second = await createApiKey(hidden, id);
  const grace = { id: crypto.randomUUID(), email: "grace@example.com" };
  let byServer = "";
  for (const person of [grace, { ...grace, id: "user_2b" }, admin, gone]) {
    byServer = (await createApiKey({ ...admin, client: serverFor(person) }, id)).id;
  }
  await runUpkeep(sql);
  assertEquals(await markedKeys(id), []);
  await sql`delete from auth.users where id = ${gone.id}`;
  await sql`update auth.users set deleted_at = now() where id = ${hidden.id}`;
  await runUpkeep(sql);
  assertEquals(await markedKeys(id), [apiKeyId, second.id, byServer].sort());
  assertEquals(await markedKeys(other.id), [other.apiKeyId]);
});
