import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  API_URL,
  beside,
  listApiKeys,
  newOrganization,
  PUBLISHABLE_KEY,
  signUp,
  sql,
  statusOf,
  valueOf,
  writeEntries,
} from "../helpers.ts";
import { runProgram } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";
import { runRecipes, unpackRecipes } from "./recipes.ts";

const admin = await signUp();

function environmentFor(organizationId: string): Record<string, string> {
  return {
    API_URL,
    PUBLISHABLE_KEY,
    EMAIL: admin.email,
    PASSWORD: admin.password,
    ORGANIZATION_ID: organizationId,
    QUIET_SECONDS: "1",
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
    assertMatch(outputOf("bash rotate.sh"), /^20\S+\n +\d+ 200$/);
    const usage = outputOf("api_key_usage").split("\n").map((line) => line.split(" SIEM ")[1]);
    assertEquals(usage.length, 2);
    for (const line of usage) {
      const [, requests, entries] = line
        ?.match(/^(\d+) requests, 0 invalid, (\d+) entries, last from 127\.0\.0\.1$/) ?? [];
      assertEquals(Number(entries), 3 * Number(requests), line);
    }
    assert(JSON.parse(outputOf("call revoke_api_key")).revoked_at);
    assertEquals(JSON.parse(outputOf("call read_audit_log")).total, 0);

    const states = (await listApiKeys(admin, id)).map(({ name, state }) => `${name} ${state}`);
    assertEquals(states.sort(), ["Export revoked", "SIEM active", "SIEM revoked", "test active"]);
  });

  it("rotates a key without a gap: no request is refused meanwhile", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const folder = newFolder();
    await unpackRecipes(folder, "keys.md");
    const file = `${folder}/key of the application`;
    await Deno.writeTextFile(file, token);

    const statuses: number[] = [];
    const tokens = new Set<string>();
    const request = async () => {
      const token = (await Deno.readTextFile(file)).trim();
      tokens.add(token);
      statuses.push(await statusOf(token));
      // So that the key in use does not use up its quota.
      const hint = `%${token.slice(-4)}`;
      const used = sql`
        select id from audit_log_private.api_keys where organization_id = ${id} and hint like ${hint}`;
      await age(sql, await valueOf(used), "1 minute");
    };
    await beside(Array(4).fill(request), async () => {
      const { stdout } = await mustRun(runProgram("bash", {
        args: ["rotate.sh", apiKeyId, file],
        cwd: folder,
        env: environmentFor(id),
        signal: AbortSignal.timeout(60_000),
      }));
      assertMatch(stdout, /^20\S+\n$/);
    });

    assert(statuses.length > 60, `only ${statuses.length} requests`);
    assertEquals(statuses.filter((status) => status !== 200), []);
    assertEquals(tokens.size, 2);
    const revoked = (await listApiKeys(admin, id)).find((key) => key.id === apiKeyId);
    assertEquals(revoked?.state, "revoked");
  });
});
