// Needs stacks of its own.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createClient } from "@supabase/supabase-js";
import { pathToFileURL } from "node:url";
import { afterAll, describe, it } from "@std/testing/bdd";
import { runRecipes } from "../helpers/recipes.ts";
import { askFeed, checkSeals, codeOf, insertEntry, type Run } from "../../dev/harness/project.ts";
import { runUpkeep, valueOf } from "../../dev/harness/project.ts";
import { hasProgram, ROOT, runProgram } from "../helpers/run_program.ts";
import { startEdgeFunction } from "../../dev/local/edge_function.ts";
import { createAuditLog, type ListedApiKey } from "../../docs/examples/audit_log.ts";
import type { NewApiKey, RevokedApiKey } from "../../docs/examples/audit_log.ts";
import { blockOf, ExistingProject, recipe } from "../helpers/existing_project.ts";

// Follows the pages docs/local-and-ci.md and docs/logging.md. tests/logged_tables/log_table_test.ts has what log_table does.

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

type Entry = Record<"action" | "user_email" | "agent_name", string> & {
  data: Record<string, unknown>;
};

/** Reads the entries of an organization of theirs, oldest first. */
async function entriesOf(platformId: string): Promise<Entry[]> {
  return await sql<Entry[]>`
    select action::text, user_email, agent_name, data from audit_log.audit_entries
    where organization_id = audit_log.organization_uuid(${platformId}) order by transaction_id, created_at, id`;
}

const BROWSER = { address: "203.0.113.7", user_agent: "Engine/1 (like Gecko, but older)" };
const ASKED = {
  "X-Forwarded-For": "203.0.113.7:5678, 198.51.100.1",
  "User-Agent": BROWSER.user_agent,
};
const AUDIT_LOG = new URL("../../docs/examples/audit_log.ts", import.meta.url).href;

function moduleOf(code: string): string {
  return `data:text/typescript,${encodeURIComponent(code)}`;
}

/** The page's server actions, for a person whose browser has sent these headers. */
async function serverActions(user: object, asked = new Headers(ASKED)) {
  // Not in the environment, which other tests of this process share.
  const server = blockOf("ts", "export function clientFor")
    .replace("process.env.SUPABASE_URL!", JSON.stringify(project.stack.apiUrl))
    .replace("process.env.SUPABASE_SECRET_KEY!", JSON.stringify(project.stack.secretKey))
    .replace("./audit_log", AUDIT_LOG);
  const next = `export async function headers() {
    return new Headers(${JSON.stringify([...asked])});
  }`;
  const actions = blockOf("ts", '"use server"').replace("./audit_log", AUDIT_LOG)
    .replace("./server", moduleOf(server)).replace("next/headers", moduleOf(next));
  const signedIn = `const signedInUser = () => Promise.resolve(${JSON.stringify(user)});`;
  return await import(moduleOf(actions + signedIn));
}

it("docs/local-and-ci.md has a test that passes, fails once a document is not logged, and leaves nothing; and seeds that make a clone without rows log and follow", async () => {
  const page = await Deno.readTextFile(`${ROOT}docs/local-and-ci.md`);
  const [test = "", seed = ""] = Array.from(
    page.matchAll(/^```sql\n([^]*?)^```$/gm),
    ([, block = ""]) => block,
  );
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

  const rows = ["audit_log.actions", "audit_log_private.cursor_keys"];
  for (const table of [...rows, "audit_log_private.upkeep_state"]) {
    await sql`delete from ${sql(table)}`;
  }
  const acme = await project.newOrganization();
  await sql`insert into public.memberships values (${acme}, ${person.id}, 50)`;
  const write = () =>
    sql`insert into public.documents (organization_id, title) values (${acme}, 'Seeded')`;
  assertEquals(await codeOf(write()), "23503");
  for (const _time of ["the first", "again"]) await sql.unsafe(seed);
  assertEquals((await sql`select from audit_log_private.cursor_keys where epoch = 1`).length, 1);
  await write();
  const token = await project.keyOf(person.client, acme);
  const feed = await project.get(token, "?after=beginning");
  assertStringIncludes(await feed.text(), "Seeded");
  await sql.unsafe(blockOf("sql", "run_upkeep"));
  // The other tests need the actions of docs/logging.md, and nothing that has failed.
  await sql`delete from audit_log_private.logging_failures`;
  const id = await project.uuidOf(acme);
  while (await valueOf(sql`select audit_log_private.delete_organization(${id})`));
  await sql`delete from audit_log.actions`;
  await sql.unsafe(blockOf("sql", "delete from audit_log.actions"));
});

describe("the tables that the page logs", () => {
  it("log people who write over the Data API and have no privilege on the log, and jobs", async () => {
    const acme = await project.newOrganization();
    const { client, id, email } = person;
    const document = { organization_id: acme, title: "Mine", status: "draft", created_by: id };
    assertEquals((await client.from("documents").insert(document)).error, null);
    const forged = { ...document, created_by: crypto.randomUUID() };
    assertEquals((await client.from("documents").insert(forged)).error?.code, "42501");
    await sql`
      update public.documents set title = 'Ours', updated_by = ${id} where organization_id = ${acme}`;
    await sql`delete from public.documents where organization_id = ${acme}`;
    await sql`insert into public.memberships values (${acme}, ${id}, 50)`;
    const [created, changed, deleted, added, ...others] = await entriesOf(acme);
    assertEquals([created?.action, created?.agent_name], ["document_created", "Mine"]);
    const { kind, user_agent } = created?.data["caller"] as Record<string, string>;
    assertEquals([kind, typeof user_agent], ["person", "string"]);
    assertEquals(changed?.data["changes"], { title: ["Mine", "Ours"] });
    const emails = [created, changed, deleted].map((entry) => entry?.user_email);
    assertEquals(emails, [email, email, "unknown@invalid"]);
    assertEquals([added?.agent_name, added?.data["member_id"], others], ["administrator", id, []]);
  });

  it("name the person for whom the page's server writes with the secret key", async () => {
    const acme = await project.newOrganization();
    const user = { id: "łódź", email: "añé+1@example.com" };
    await (await serverActions(user)).create(acme, "Theirs");
    await (await serverActions({ id: "phone" }, new Headers())).create(acme, "Theirs");
    const entries = await entriesOf(acme);
    const callers = entries.map(({ user_email, data }) => {
      const { kind, on_behalf_of } = data["caller"] as Record<string, unknown>;
      return [user_email, kind, on_behalf_of];
    });
    assertEquals(callers, [
      [user.email, "secret_key", { ...user, ...BROWSER }],
      ["unknown@invalid", "secret_key", { id: "phone" }],
    ]);
  });

  const pass =
    "pass the page's check for a CI, which fails once a trigger is disabled or an entry was lost";
  itWithPsql(pass, async () => {
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
  });
});

describe("docs/examples/audit_log.ts", () => {
  // The types of a project, which knows nothing of the schema audit_log.
  type Theirs = Record<"public" | "app", {
    Tables: Record<
      "documents",
      { Row: { id: string }; Insert: { id?: string }; Update: { id?: string }; Relationships: [] }
    >;
    Views: Record<never, never>;
    Functions: Record<never, never>;
  }>;
  const KEY = { id: "", name: "", hint: "", created_at: "", expires_at: null };
  const NEW_KEY: NewApiKey = { ...KEY, organization_id: "", token: "" };
  const { expires_at: _, ...REST } = KEY;
  const REVOKED = { revoked_at: "", revoked_by_email: null };
  const REVOKED_KEY: RevokedApiKey = { ...REST, ...REVOKED, organization_id: "" };
  const TIMES = { ended_at: null, owner_left_at: null, last_used_at: null, caught_up_at: null };
  const USE = { state: "active", read_mode: null, requests_last_minute: 0, quota: 60 } as const;
  const PEOPLE = { created_by_email: null, successor_id: null };
  const LISTED_KEY: ListedApiKey = { ...KEY, ...REVOKED, ...TIMES, ...USE, ...PEOPLE };
  const server = () =>
    createClient<Theirs>(project.stack.apiUrl, project.stack.secretKey, {
      auth: { persistSession: false, autoRefreshToken: false },
    });
  const [target, target_name] = ["d1", "Sketch"];

  it("writes an action of the page's server action and of its Edge Function, with the target and who asked from where", async () => {
    const acme = await project.newOrganization();
    const { id, email, client } = person;
    const { download } = await serverActions({ id, email });
    await download(acme, target, target_name);

    const main = `${project.folder}/download.ts`;
    const code = blockOf("ts", "Deno.serve").replace("../_shared/audit_log.ts", AUDIT_LOG);
    await Deno.writeTextFile(main, code);
    const started = { ...project.stack, main: pathToFileURL(main), log: () => {} };
    await using edge = await startEdgeFunction(started);
    const { data: { session } } = await client.auth.getSession();
    const send = async (token = "") => {
      const headers = { ...ASKED, Authorization: `Bearer ${token}` };
      const body = JSON.stringify({ organization: acme, id: target, name: target_name });
      const request = { method: "POST", headers, body };
      return (await fetch(`http://127.0.0.1:${edge.port}`, request)).status;
    };
    assertEquals([await send(session?.access_token), await send("nobody")], [204, 401]);

    const entries = await entriesOf(acme);
    assertEquals(entries.length, 2);
    for (const { data: { caller, ...data }, ...entry } of entries) {
      const named = { action: "document_downloaded", user_email: email, agent_name: "Sketch" };
      assertEquals<unknown>(entry, named);
      assertEquals(data, { document_id: "d1", title: "Sketch" });
      assertEquals(Object(caller).on_behalf_of, { id, email, ...BROWSER });
    }
  });

  it("repeats an entry once, throws what is refused, and has types for keys and actions in a project with types", async () => {
    const acme = await project.newOrganization();
    const log = createAuditLog<"document_deleted">(server());
    const job = { organization: acme, person: { email: "billing@jobs.example" } };
    const deleted = { ...job, action: "document_deleted", target, target_name } as const;
    const again = { ...deleted, id: crypto.randomUUID(), created_at: "2026-11-20T12:00:00Z" };
    const agent_name = "😀".repeat(300);
    const counts = [await log.record({ ...again, agent_name }), await log.record(again)];
    assertEquals(counts, [1, 0]);
    const [entry, ...others] = await entriesOf(acme);
    const written = [entry?.agent_name, entry?.user_email, others];
    assertEquals(written, ["😀".repeat(200), job.person.email, []]);
    const untargeted = () => log.record({ ...job, action: "document_deleted" });
    await assertRejects(untargeted, Error, "data_has_required: document_id");
    // @ts-expect-error: no such action.
    await assertRejects(() => log.record({ ...deleted, action: "deleted" }), Error, '"deleted"');
    // @ts-expect-error: whose log?
    await assertRejects(() => log.record({ action: "document_deleted", target }));

    const { id: api_key_id, token } = await log.createApiKey({ ...job, name: "SIEM" });
    const successor = await log.rotateApiKey({ ...job, api_key_id, overlap: "0" });
    const revoked = await log.revokeApiKey({ ...job, api_key_id: successor.id });
    const listed = await log.listApiKeys(job);
    assertEquals([token, successor.token].map((text) => text.slice(0, 4)), ["pck_", "pck_"]);
    assertEquals(listed.map(({ state }) => state).sort(), ["expired", "revoked"]);
    const fieldsOf = (answer: object | undefined) => Object.keys(answer ?? {}).sort();
    assertEquals(fieldsOf(successor), fieldsOf(NEW_KEY));
    assertEquals(fieldsOf(revoked), fieldsOf(REVOKED_KEY));
    assertEquals(fieldsOf(listed[0]), fieldsOf(LISTED_KEY));
    assertEquals(revoked.revoked_by_email, job.person.email);
  });
});

it("the page's commands write an entry from outside, and may be repeated. A cast of an entry is refused", async () => {
  const acme = await project.newOrganization();
  await sql`insert into public.memberships values (${acme}, ${person.id}, 30)`;
  const { data: { session } } = await person.client.auth.getSession();
  const { apiUrl, publishableKey, secretKey, databaseUrl } = project.stack;
  const run = async (page: string) =>
    await runRecipes({
      API_URL: apiUrl,
      PUBLISHABLE_KEY: publishableKey,
      SECRET_KEY: secretKey,
      DB_URL: databaseUrl,
      ACCESS_TOKEN: session?.access_token ?? "",
      ORGANIZATION_ID: await project.uuidOf(acme),
    }, page);
  const [first, second] = [await run("logging.md"), await run("logging.md")];
  const answers = [first, second].map((ran) => JSON.parse(ran.outputOf("record_entries")));
  assertEquals(answers, [1, 0]);
  assertEquals((await entriesOf("org_2b")).length, 1);
  assertEquals((await run("going-live.md")).outputOf("pgrst_scalar"), "true");
});

describe("what happened before", () => {
  const write = (run: Run = sql) => run.unsafe(recipe("backfill.sql"));
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
    const mismatches = await sql`
      select m.* from audit_log.organizations o, audit_log_private.entry_count_mismatches(o.id) m`;
    assertEquals([...mismatches], []);
  });

  it("is sealed again if its days are sealed already, and reaches those who follow the log once", async () => {
    const acme = await project.newOrganization();
    const id: string = await valueOf(sql`select audit_log_private.ensure_organization(${acme})`);
    const created = { action: "document_created", data: '{"document_id":"other"}' };
    await insertEntry(sql, id, { ...created, created_at: "2026-03-01T00:00:00Z" });
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
