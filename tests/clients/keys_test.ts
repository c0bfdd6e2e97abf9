import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { API_URL, listApiKeys, newOrganization, PUBLISHABLE_KEY } from "../helpers.ts";
import { signUp, writeEntries } from "../helpers.ts";
import { runRecipes } from "./recipes.ts";

const admin = await signUp();

function environmentFor(organizationId: string): Record<string, string> {
  return {
    API_URL,
    PUBLISHABLE_KEY,
    EMAIL: admin.email,
    PASSWORD: admin.password,
    ORGANIZATION_ID: organizationId,
  };
}

describe("docs/keys.md", () => {
  it("has commands that all run, and print what the page says of them", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, Array(3).fill({ created_at: "2026-11-20T12:00:00Z" }));
    const { outputOf } = await runRecipes(environmentFor(id), "keys.md");

    const [organization] = JSON.parse(outputOf("rpc/list_organizations"))
      .filter((organization: { id: string }) => organization.id === id);
    assertEquals(organization?.is_admin, true);
    const created = JSON.parse(outputOf("cat created.json"));
    assertMatch(created.token, /^pck_/);
    const lifetime = Date.parse(created.expires_at) - Date.parse(created.created_at);
    assertEquals(Math.round(lifetime / 86_400_000), 90);
    assertMatch(
      outputOf('key["state"]'),
      /^active SIEM pck_\S+ expires 20\S+ used None\nactive test /,
    );
    assertEquals(outputOf("call rotate_api_key").trim(), "200");
    assertMatch(
      outputOf("api_key_usage"),
      / SIEM 1 requests, 0 invalid, 3 entries, last from 127\.0\.0\.1$/,
    );
    assert(JSON.parse(outputOf("call revoke_api_key")).revoked_at);
    assertEquals(JSON.parse(outputOf("call read_audit_log")).total, 0);

    const states = (await listApiKeys(admin, id)).map(({ name, state }) => `${name} ${state}`);
    assertEquals(states.sort(), ["Export revoked", "SIEM active", "SIEM expiring", "test active"]);
  });
});
