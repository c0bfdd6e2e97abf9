// Needs stacks of its own.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { runRecipes } from "../helpers/recipes.ts";
import {
  askFeed,
  checkSeals,
  insertEntry,
  pidOf,
  type Run,
  runUpkeep,
  somebodyWaitsFor,
  valueOf,
} from "../../dev/harness/project.ts";
import { hasProgram, runProgram } from "../helpers/run_program.ts";
import { blockOf, ExistingProject } from "../helpers/existing_project.ts";

// Follows the section "Write entries" of docs/adopting.md. tests/logged_tables/log_table_test.ts has what log_table does.

const hasPsql = await hasProgram("psql", "Debian's postgresql-client, Homebrew's libpq");
const itWithPsql = hasPsql ? it : it.skip;
const project = await ExistingProject.start();
afterAll(() => project[Symbol.asyncDispose]());
const { sql } = project;
project.install();
project.addRecipes();
await project.push();
await project.expose();
const person = await project.signUp();

interface Entry {
  action: string;
  user_email: string;
  agent_name: string;
  data: Record<string, unknown>;
}

/** Reads the entries of an organization of theirs, oldest first. */
async function entriesOf(platformId: string): Promise<Entry[]> {
  return await sql<Entry[]>`
    select action::text, user_email, agent_name, data from audit_log.audit_entries
    where organization_id = audit_log.organization_uuid(${platformId}) order by transaction_id, created_at, id`;
}

async function assertCountsExact(): Promise<void> {
  const mismatches = await sql.unsafe(blockOf("sql", "entry_count_mismatches"));
  assertEquals([...mismatches], []);
}

describe("the tables that the page logs", () => {
  it("log people who write over the Data API and have no privilege on the log, and jobs", async () => {
    const acme = await project.newOrganization();
    const { client, id, email } = person;
    const document = { organization_id: acme, title: "Mine", status: "draft", created_by: id };
    assertEquals((await client.from("documents").insert(document)).error, null);
    const forged = { ...document, created_by: crypto.randomUUID() };
    assertEquals((await client.from("documents").insert(forged)).error?.code, "42501");
    await sql`update public.documents set title = 'Ours' where organization_id = ${acme}`;
    await sql`delete from public.documents where organization_id = ${acme}`;
    await sql`insert into public.memberships values (${acme}, ${id}, 50)`;
    const [created, changed, deleted, added, ...others] = await entriesOf(acme);
    const { action, user_email, agent_name } = created ?? {};
    assertEquals([action, user_email, agent_name], ["document_created", email, "Mine"]);
    const { kind, user_agent } = created?.data["caller"] as Record<string, string>;
    assertEquals([kind, typeof user_agent], ["person", "string"]);
    assertEquals(changed?.data["changes"], { title: ["Mine", "Ours"] });
    assertEquals([changed?.user_email, deleted?.user_email], [email, "unknown@invalid"]);
    assertEquals([added?.agent_name, added?.data["member_id"], others], ["level 50", id, []]);
  });

  it("name the person for whom the page's server writes with the secret key", async () => {
    const acme = await project.newOrganization();
    // Not in the environment, which other tests of this process share.
    const code = blockOf("ts", "clientFor")
      .replace("process.env.SUPABASE_URL!", JSON.stringify(project.stack.apiUrl))
      .replace("process.env.SUPABASE_SECRET_KEY!", JSON.stringify(project.stack.secretKey));
    const { clientFor } = await import(`data:text/typescript,${encodeURIComponent(code)}`);
    const document = { organization_id: acme, title: "Theirs" };
    const asked = new Headers({
      "X-Forwarded-For": "203.0.113.7:5678, 198.51.100.1",
      "User-Agent": "Engine/1 (like Gecko, but older)",
    });
    const writers = [
      clientFor({ id: "łódź", email: "añé+1@example.com" }, asked),
      clientFor({ id: "phone" }),
    ];
    for (const writer of writers) {
      assertEquals((await writer.from("documents").insert(document)).error, null);
    }
    const entries = await entriesOf(acme);
    assertEquals(
      entries.map(({ user_email, data }) => {
        const { kind, on_behalf_of } = data["caller"] as Record<string, unknown>;
        return [user_email, kind, on_behalf_of];
      }),
      [
        ["añé+1@example.com", "secret_key", {
          id: "łódź",
          email: "añé+1@example.com",
          address: "203.0.113.7",
          user_agent: "Engine/1 (like Gecko, but older)",
        }],
        ["unknown@invalid", "secret_key", { id: "phone" }],
      ],
    );
  });

  it("add a new organization once when two transactions write its first rows at once, and neither fails", async () => {
    const acme = await project.newOrganization();
    const insert = (run: Run) =>
      run`insert into public.documents (organization_id, title) values (${acme}, 'First')`;
    let second: Promise<unknown> | undefined;
    await sql.begin(async (first) => {
      await insert(first);
      second = insert(sql).execute();
      await somebodyWaitsFor(sql, await pidOf(first));
    });
    await second;
    assertEquals((await entriesOf(acme)).length, 2);
  });

  itWithPsql(
    "pass the page's check for a CI, which fails once a trigger is disabled or an entry was lost",
    async () => {
      const check = () =>
        runProgram("bash", {
          args: ["-euc", blockOf("sh", "PROBLEMS=")],
          cwd: project.folder,
          env: { DB_URL: project.stack.databaseUrl },
        });
      assertEquals((await check()).code, 0);
      await sql`alter table public.documents disable trigger audit_log_on_insert`;
      const { code, stdout } = await check();
      assertEquals(code, 1);
      assertStringIncludes(stdout, "documents|the trigger of on_insert is disabled");
      await sql`alter table public.documents enable trigger audit_log_on_insert`;

      // An organization that is closed: the application goes on.
      const acme = await project.newOrganization();
      await sql`select audit_log_private.ensure_organization(${acme}), audit_log_private.close_organization(${acme})`;
      await sql`insert into public.memberships values (${acme}, ${person.id}, 50)`;
      const { stdout: lost } = await check();
      assertStringIncludes(lost, `public.memberships|23503: an entry has the organization ${acme}`);
      await sql`delete from audit_log_private.logging_failures`;

      assertEquals((await check()).code, 0);
    },
  );
});

describe("the page's commands", () => {
  it("write an entry from outside, and may be repeated. A cast of an entry is refused", async () => {
    const acme = await project.newOrganization();
    await sql`insert into public.memberships values (${acme}, ${person.id}, 30)`;
    const { data: { session } } = await person.client.auth.getSession();
    const { apiUrl, publishableKey, secretKey, databaseUrl } = project.stack;
    const run = async () =>
      await runRecipes({
        API_URL: apiUrl,
        PUBLISHABLE_KEY: publishableKey,
        SECRET_KEY: secretKey,
        DB_URL: databaseUrl,
        ACCESS_TOKEN: session?.access_token ?? "",
        ORGANIZATION_ID: await project.uuidOf(acme),
      }, "adopting.md");
    const [first, second] = [await run(), await run()];
    const answers = [first, second].map((ran) => JSON.parse(ran.outputOf("record_entries")));
    assertEquals(answers, [1, 0]);
    assertEquals((await entriesOf("org_2b")).length, 1);
    assertEquals(second.outputOf("pgrst_scalar"), "true");
  });
});

describe("what happened before", () => {
  const write = (run: Run = sql) => run.unsafe(blockOf("sql", "md5('documents ' || d.id)"));
  const log = () => sql.unsafe(blockOf("sql", "audit_log_private.log_table("));

  it("is written once for each row, by two runs at once, beside a writer, and by a third", async () => {
    const acme = await project.newOrganization();
    await sql`select audit_log_private.unlog_table('public.documents')`;
    await sql`
      insert into public.documents (organization_id, title, created_by, created_at)
      select ${acme}, 'Old', ${person.id}, '2026-03-01 00:30Z'::timestamptz + n * interval '1 minute'
      from generate_series(1, 12000) as n`;
    await log();
    const insertNew = (run: Run) =>
      run`insert into public.documents (organization_id, title, created_at) values (${acme}, 'New', '2020-01-01')`;
    await insertNew(sql);
    await sql`update public.documents set title = 'Changed' where organization_id = ${acme} and title = 'New'`;
    await sql.begin(async (writer) => {
      await insertNew(writer);
      await Promise.all([write(), write()]);
    });
    await insertNew(sql);
    await write();
    const [found] = await sql`
      select count(*)::int, count(distinct e.data ->> 'document_id')::int as documents,
        count(*) filter (where e.data ? 'backfilled')::int as backfilled,
        count(*) filter (where e.created_at = d.created_at and e.user_email = ${person.email})::int as old
      from audit_log.audit_entries e join public.documents d on e.data ->> 'document_id' = d.id::text
      where d.organization_id = ${acme} and e.action = 'document_created'`;
    const [all, old] = [12_003, 12_000];
    assertEquals({ ...found }, { count: all, documents: all, backfilled: old, old });
    await assertCountsExact();
  });

  it("is sealed again if its days are sealed already, and reaches those who follow the log once", async () => {
    const acme = await project.newOrganization();
    const id: string = await valueOf(sql`select audit_log_private.ensure_organization(${acme})`);
    await insertEntry(sql, id, {
      created_at: "2026-03-01T00:00:00Z",
      action: "document_created",
      data: '{"document_id":"other"}',
    });
    await runUpkeep(sql);
    const before = await askFeed(sql, id, "beginning");
    await sql`select audit_log_private.unlog_table('public.documents')`;
    await sql`insert into public.documents (organization_id, created_at) values (${acme}, '2026-03-01')`;
    await log();
    await write();
    await write();
    assertEquals((await askFeed(sql, id, before?.cursor ?? ""))?.items.length, 1);
    await checkSeals(sql, id);
    const seals = await sql`
      select entries::int, added::int from audit_log_private.seals where organization_id = ${id} order by sequence`;
    assertEquals([...seals], [{ entries: 1, added: 0 }, { entries: 2, added: 1 }]);
  });
});
