// Needs stacks of its own.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { planSchemaFiles } from "npm:@supabase/pg-delta@1.0.0-alpha.34/frontends";
import { supabaseProfile } from "npm:@supabase/pg-delta@1.0.0-alpha.34/integrations";
import { globSync } from "node:fs";
import { join } from "node:path";
import pg from "npm:pg@8.23.1";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import { ExistingProject, recipe } from "../helpers/existing_project.ts";

// Plans what `supabase db schema declarative sync` would write in a project with declarative schemas, with the Supabase
// CLI's engine. The command itself wants Docker, to make the two databases that it compares.

const SCHEMAS = "supabase/schemas";

const project = await ExistingProject.start();
afterAll(() => project[Symbol.asyncDispose]());
for (const migration of project.migrations()) copyToSchemas(migration);
project.install();
const installed = project.migrations();
project.addRecipes();
project.addMigration("monitoring", recipe("monitoring_role.sql"));
const ours = project.migrations().filter((name) => !installed.includes(name));
await project.push();

function copyToSchemas(migration: string): void {
  const text = Deno.readTextFileSync(join(project.folder, "supabase/migrations", migration));
  project.write(`${SCHEMAS}/${migration}`, text);
}

/** Loads the schema files into a new database, and returns the statements that make a pushed one the same. */
async function sync(): Promise<string[]> {
  await using shadow = await startTemporaryStack({ isMigrated: false });
  const folder = join(project.folder, SCHEMAS);
  const files = globSync("**/*.sql", { cwd: folder }).sort()
    .map((name) => ({ name, sql: Deno.readTextFileSync(join(folder, name)) }));
  const [pushed, declared] = [project.stack, shadow]
    .map(({ databaseUrl }) => new pg.Pool({ connectionString: databaseUrl }));
  const options = { profile: supabaseProfile, isolatedShadow: true };
  const { plan } = await planSchemaFiles(pushed, declared, files, options);
  await Promise.all([pushed.end(), declared.end()]);
  return plan.actions.map(({ sql }) => sql);
}

describe("in a project with declarative schemas, the next sync", () => {
  it("takes back what is only in migrations: the recipes, and what log_table made. The rest of ours stays", async () => {
    const statements = (await sync()).join("\n");
    assertStringIncludes(statements, 'DROP TRIGGER "audit_log_on_insert" ON "public"."documents"');
    assertEquals(statements.includes("DROP TABLE"), false);
    assertStringIncludes(
      statements,
      "CREATE OR REPLACE FUNCTION audit_log_private.my_organizations(",
    );
  });

  it("changes nothing once these migrations are copied into the schemas, as the page says", async () => {
    for (const name of ours) copyToSchemas(name);
    assertEquals(await sync(), []);
  });
});
