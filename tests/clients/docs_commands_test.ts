import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  API_URL,
  DATABASE_URL,
  newLog,
  newOrganization,
  rolledBack,
  runUpkeep,
  SECRET_KEY,
  signUp,
  sql,
  writeEntries,
} from "../helpers.ts";
import { runRecipes } from "./recipes.ts";

const admin = await signUp();

/** The blocks of SQL on a page. */
async function sqlOf(page: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(`../../${page}`, import.meta.url));
  return Array.from(text.matchAll(/^ *```sql\n([^]*?)^ *```$/gm), ([, block = ""]) => block);
}

describe("docs/api.md", () => {
  it("has commands that all run, and print what the page says of them", async () => {
    const days = Array.from({ length: 12 }, (_, n) => `2026-11-${String(n + 9).padStart(2, "0")}`);
    const { token } = await newLog(
      { created_at: "2026-10-08T07:30:00Z", action: "agent_added", data: {} },
      ...days.map((day) => ({
        created_at: `${day}T12:00:00Z`,
        action: "feedback_given",
        data: {},
      })),
    );
    await runUpkeep(sql);

    const { outputOf } = await runRecipes({ API_URL, DEMO_API_KEY: token }, "api.md");
    const page = JSON.parse(outputOf("offset=9"));
    assertEquals([page.total, page.items.length], [12, 1]);
    assertMatch(
      outputOf("after=beginning"),
      /"next":"[^"]*&after=[^"]+","has_more":false,.*agent_added/s,
    );
    assertEquals(JSON.parse(outputOf("x-ndjson")).created_at, "2026-11-20T12:00:00.000Z");
    assertMatch(outputOf("/seals"), /^\[\]\n{"format":1,.*"entries":1,/);
    const { errors } = JSON.parse(outputOf("acton="));
    assertEquals(
      errors.map(({ parameter }: { parameter: string }) => parameter),
      ["start", "end", "limit", "acton"],
    );
    assertMatch(
      outputOf("seq 60"),
      /^HTTP\/1\.1 429 .*ratelimit: "default";r=0;t=\d+.*retry-after: \d+.*"code":"rate_limited"/si,
    );
  });
});

describe("docs/operating.md", () => {
  it("has commands that all run, and print what the page says of them", async () => {
    const { id } = await newLog();
    const { outputOf } = await runRecipes(
      { API_URL, SECRET_KEY, DB_URL: DATABASE_URL, ORGANIZATION_ID: id },
      "operating.md",
    );
    assertMatch(outputOf("rest/v1/audit_entries"), /^HTTP\/1\.1 201 /);
    assertEquals(Object.keys(JSON.parse(outputOf("health"))), [
      "last_upkeep_at",
      "oldest_unsealed_day",
      "altered_days",
      "miscounted_days",
      "is_adopted",
      "holds",
    ]);
    const metrics = outputOf("metrics()").split("\n");
    for (const line of metrics) {
      assertMatch(
        line,
        /^audit_log_\w+\{(\w+="[^"]*"(,\w+="[^"]*")*)?\} (\d+(\.\d+)?(e[+-]\d+)?|\+Inf)$/,
      );
    }
    assert(metrics.some((line) => line.startsWith("audit_log_holds{} ")));
  });

  it("has SQL that runs as the owner of the database", async () => {
    const { id } = await newOrganization(admin);
    const { id: userId } = await signUp();
    await writeEntries(id, [{ created_at: "2019-12-31T23:59:59Z" }, {}]);
    const statements = (await sqlOf("docs/operating.md"))
      // tests/faults/restore_test.ts restores.
      .filter((text) => !text.includes("adopt_restored_log"))
      .map((text) => text.replaceAll("<organization id>", id).replaceAll("<user id>", userId));
    const deletion = statements.pop() ?? "";
    assert(deletion.includes("audit_log_private.delete_organization"), deletion);
    for (const statement of statements) await sql.unsafe(statement);
    const [left] = await sql`
      select
        (select count(*)::int from audit_log.audit_entries e where e.organization_id = ${id}) as entries,
        (select count(*)::int from audit_log.organization_members m where m.organization_id = ${id}) as admins`;
    assertEquals({ ...left }, { entries: 1, admins: 2 });
    await sql.unsafe(deletion);
    const rest = await sql`select from audit_log.organizations o where o.id = ${id}`;
    assertEquals(rest.length, 0);
  });
});

describe("SECURITY.md", () => {
  it("has commands that all run", async () => {
    const { outputs } = await runRecipes(
      { OLD_DATABASE: DATABASE_URL, RESTORED_DATABASE: DATABASE_URL },
      "../SECURITY.md",
    );
    assertEquals(outputs.length, 1);
  });

  it("has SQL that finds administrators, and revokes all keys but those named", async () => {
    const [named, other] = [await newLog(), await newLog()];
    const statements = await sqlOf("SECURITY.md");
    assertEquals(statements.length, 2);
    await rolledBack(sql, async (transaction) => {
      for (const statement of statements) {
        await transaction.unsafe(
          statement.replace("> '…'", "> '2026-01-01'")
            .replaceAll("('…', '…')", `('${named.id}', '${named.apiKeyId}')`),
        );
      }
      const keys = await transaction`
        select id from audit_log_private.api_keys
        where id in (${named.apiKeyId}, ${other.apiKeyId}) and revoked_at is null`;
      assertEquals(keys.map(({ id }) => id), [named.apiKeyId]);
    });
  });
});
