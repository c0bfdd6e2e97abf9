import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL, type Entry, newOrganization, signUp, writeEntries } from "./helpers.ts";
import { runRecipes } from "./recipes.ts";

/** Takes what the recipe for a SIEM sends, as Elasticsearch's `_bulk` does. */
function startSiem() {
  const names = new Set<string>();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      for (const line of (await request.text()).trim().split("\n")) {
        const name = JSON.parse(line).create?._id;
        if (name) names.add(name);
      }
      return Response.json({ errors: false, documents: names.size });
    },
  );
  return { names, server };
}

/** Entries of the days that the page reads, and of today for the tail. */
function entries(): Entry[] {
  const now = Date.now();
  return [
    ...Array.from({ length: 30 }, (_, i) => ({
      created_at: `2026-11-${String(i % 20 + 1).padStart(2, "0")}T10:00:${i}Z`,
    })),
    { created_at: "2026-11-20T23:59:59.999Z", action: "feedback_given" as const, data: {} },
    { created_at: new Date(now).toISOString() },
    { created_at: new Date(now + 1).toISOString() },
  ];
}

describe("docs/integrating.md", () => {
  it("has commands that all run, on the log as it should be read", async () => {
    const admin = await signUp();
    const organization = await newOrganization(admin);
    await writeEntries(organization.id, entries());
    const siem = startSiem();
    const ran = await runRecipes({
      AUDIT_LOG_URL,
      AUDIT_LOG_API_KEY: organization.token,
      API_URL: new URL(AUDIT_LOG_URL).origin,
      PUBLISHABLE_KEY: Deno.env.get("SUPABASE_PUBLISHABLE_KEY") ?? "",
      EMAIL: admin.email,
      PASSWORD: admin.password,
      ORGANIZATION_ID: organization.id,
      REPOSITORY: fileURLToPath(new URL("..", import.meta.url)),
      SIEM_URL: `http://127.0.0.1:${siem.server.addr.port}`,
    });
    await siem.server.shutdown();

    const outputOf = (part: string) =>
      ran.find(({ command }) => command.includes(part))?.output ?? `no command has ${part}`;
    assertEquals(JSON.parse(outputOf("--retry 5")).total, 31);
    assertMatch(outputOf("read.ts"), /message_created: 30, feedback_given: 1/);
    assertEquals(JSON.parse(outputOf("audit_log.py")).created_at, "2026-11-20T23:59:59.999Z");
    assertMatch(outputOf("export.ts"), /\b2 entries/);
    assertEquals(outputOf("wc -l").split(/\s+/), ["2", "2"]);
    assertEquals(JSON.parse(outputOf("tail.py")).count, 2);
    assertEquals(siem.names.size, 2);
    assertMatch(outputOf('end=2026-11-01"'), /"code":"invalid_parameters".*exit code 22/s);
    assertMatch(outputOf("pck_revoked"), /"code":"unauthorized".*exit code 22/s);
    assertMatch(outputOf("grep -i ratelimit"), /"default";r=\d+;t=\d+/);
    assertMatch(outputOf("create_api_key"), /"token":"pck_/);
    assertEquals(outputOf("%{http_code}"), "200");
    assertEquals(JSON.parse(outputOf("last_used_at")).length, 2);
    assert(ran.every(({ output }) => output !== ""));
  });
});
