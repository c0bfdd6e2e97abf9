// Needs stacks of its own.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { it } from "@std/testing/bdd";
import { codeOf } from "../../dev/harness/project.ts";
import { blockOf, ExistingProject, ROOT } from "../helpers/existing_project.ts";

const page = await Deno.readTextFile(`${ROOT}/docs/local-and-ci.md`);
const [test = "", seed = ""] = Array.from(
  page.matchAll(/^```sql\n([^]*?)^```$/gm),
  ([, block = ""]) => block,
);

it("docs/local-and-ci.md has a test that passes, fails once a document is not logged, and leaves nothing; and seeds that make a clone without rows log and follow", async () => {
  await using project = await ExistingProject.start();
  project.install();
  project.addRecipes();
  await project.push();
  await project.expose();
  const { sql } = project;
  // What psql prints of it for pg_prove, which supabase test db starts.
  const run = async () => {
    const session = await sql.reserve();
    const answers = await session.unsafe(test).finally(() => session.release());
    return answers.flatMap((rows) => [...rows].flatMap((row) => Object.values(row))).join("\n");
  };
  const description = "1 - a new document is logged, with the person";
  assertEquals(await run(), `1..1\nok ${description}`);
  await sql`alter table public.documents disable trigger audit_log_on_insert`;
  assertEquals(await run(), `1..1\nnot ok ${description}`);
  await sql`alter table public.documents enable trigger audit_log_on_insert`;
  const left = await sql`
      select from audit_log.audit_entries union all select from public.organizations`;
  assertEquals(left.length, 0);

  const person = await project.signUp();
  for (const table of ["audit_log.actions", "audit_log_private.cursor_keys"]) {
    await sql`delete from ${sql(table)}`;
  }
  await sql`delete from audit_log_private.upkeep_state`;
  await sql`insert into public.organizations (id, name) values ('acme', 'Acme')`;
  await sql`insert into public.memberships values ('acme', ${person.id}, 50)`;
  const write = () =>
    sql`insert into public.documents (organization_id, title) values ('acme', 'Seeded')`;
  assertEquals(await codeOf(write()), "23503");
  for (const _time of ["the first", "again"]) await sql.unsafe(seed);
  assertEquals((await sql`select from audit_log_private.cursor_keys where epoch = 1`).length, 1);
  await write();
  const token = await project.keyOf(person.client, "acme");
  const feed = await project.get(token, "?after=beginning");
  assertStringIncludes(await feed.text(), "Seeded");
  await sql.unsafe(blockOf("sql", "run_upkeep"));
});
