// Needs stacks of its own.

import { assertEquals, assertMatch, assertObjectMatch, assertRejects } from "@std/assert";
import { assertStringIncludes } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { planSchemaFiles } from "npm:@supabase/pg-delta@1.0.0-alpha.34/frontends";
import { supabaseProfile } from "npm:@supabase/pg-delta@1.0.0-alpha.34/integrations";
import { globSync } from "node:fs";
import { join } from "node:path";
import pg from "npm:pg@8.23.1";
import { codeOf, rolledBack, valueOf } from "../../dev/harness/project.ts";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import { PG_CRON, RUNS, RUNS_LEFT } from "../helpers/pg_cron.ts";
import { type Account, blockOf, ExistingProject, recipe } from "../helpers/existing_project.ts";

// Follows docs/install.md and docs/people.md from the beginning to the end, in a project that was there before, and that has
// declarative schemas. Each test goes on where the one before it stopped. adopting_entries_test.ts follows docs/logging.md.

const UNKNOWN = "00000000-0000-4000-8000-00000000dead";

/** Everything in the database outside our two schemas, one line of text for each thing. */
const THINGS = `
  with s as (
    select oid, nspname, nspacl from pg_namespace
    where nspname not in ('audit_log', 'audit_log_private') and nspname !~ '^pg_(toast|temp)'
  ), r as (select c.* from pg_class c join s on s.oid = c.relnamespace)
  select concat('schema ', nspname, nspacl) as thing from s
  union all select concat('relation ', oid::regclass, relkind, relacl, relowner, relrowsecurity, reloptions) from r
  union all select concat('column ', attrelid::regclass, '.', attname, attacl, atttypid, attnotnull)
    from pg_attribute join r on r.oid = attrelid
  union all select concat('function ', p.oid::regprocedure, proacl, prosecdef, proconfig, md5(prosrc))
    from pg_proc p join s on s.oid = pronamespace
  union all select concat('type ', t.oid::regtype, typacl) from pg_type t join s on s.oid = typnamespace
  union all select concat('trigger ', tgrelid::regclass, tgname, tgenabled) from pg_trigger join r on r.oid = tgrelid
  union all select concat('constraint ', conname, conrelid::regclass) from pg_constraint join s on s.oid = connamespace
  union all select concat('policy ', polname, polrelid::regclass) from pg_policy join r on r.oid = polrelid
  union all select concat('event trigger ', evtname, evtenabled) from pg_event_trigger
  union all select concat('default privileges ', defaclrole, defaclnamespace, defaclobjtype, defaclacl) from pg_default_acl
  union all select concat('role ', rolname, rolconfig, rolsuper, rolinherit, rolbypassrls) from pg_roles
  union all select concat('membership ', roleid, member, admin_option) from pg_auth_members
  union all select concat('extension ', extname, extnamespace, extversion) from pg_extension
  union all select concat('setting ', setdatabase, setrole, setconfig) from pg_db_role_setting
  union all select concat('database ', datname, datacl) from pg_database`;

const SCHEMAS = "supabase/schemas";
const project = await ExistingProject.start();
afterAll(() => project[Symbol.asyncDispose]());
const { sql } = project;
for (const migration of project.migrations()) copyToSchemas(migration);
await project.push();

const people = {
  owner: await project.signUp(),
  reader: await project.signUp(),
  stranger: await project.signUp(),
};
let before: Set<string>;

async function thingsOutside(): Promise<Set<string>> {
  const things = (await sql.unsafe(THINGS)).map(({ thing }) => String(thing));
  // The names of these triggers end with a number that Postgres gives.
  return new Set(things.map((thing) => thing.replace(/(RI_ConstraintTrigger_.)_\d+/, "$1")));
}

/** Lists what has changed there since before the installation. */
async function changesOutside(): Promise<{ added: string[]; gone: string[] }> {
  const now = await thingsOutside();
  return { added: [...now.difference(before)], gone: [...before.difference(now)] };
}

function copyToSchemas(migration: string): void {
  const text = Deno.readTextFileSync(join(project.folder, "supabase/migrations", migration));
  project.write(`${SCHEMAS}/${migration}`, text);
}

/**
 * Loads the schema files into a new database, and returns the statements that make the pushed one the same. These are what
 * `supabase db schema declarative sync` would write: it has the same engine, but wants Docker for its two databases.
 */
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

const REFUSED = { code: "42501" };
const ADMIN = { role: "admin", is_admin: true, may_read: true };
const AUDITOR = { role: "auditor", is_admin: false, may_read: true };
const MEMBER = { role: "member", is_admin: false, may_read: false };

describe("1. Install", () => {
  it("says what to do next. Its migrations apply after theirs, and change nothing outside two schemas", async () => {
    await sql`
      insert into public.organizations (id, name)
      values ('acme', 'Acme'), ('blank', ' '), ('long', repeat('x', 300)), ('none', null)`;
    await sql`
      insert into public.memberships (organization_id, user_id, level)
      values ('acme', ${people.owner.id}, 90), ('acme', ${people.reader.id}, 10)`;
    before = await thingsOutside();
    assertMatch(project.install(), /db push.*functions deploy.*in docs\/install.md/s);
    await project.push();
    assertEquals(await project.pushed(), project.migrations());
    assertEquals(await changesOutside(), { added: [], gone: [] });
  });

  it("the first organization's administrator makes a key, which reads the log", async () => {
    await project.expose();
    await sql.unsafe(blockOf("sql", "'First'").replace("<user id>", people.owner.id));
    const listed = await project.call(people.owner.client, "list_organizations");
    const id = await project.uuidOf("first");
    const organization = { id, organization_id: "first", name: "First", ...ADMIN };
    assertEquals(listed, { data: [organization] });
    assertEquals((await project.page(await project.keyOf(people.owner.client, id))).total, 0);
  });
});

describe("2. Your organizations and people", () => {
  it("a push fails if a recipe names a column that they do not have", async () => {
    const text = recipe("people.sql");
    const renamed = {
      "o.name::text": "o.title::text",
      "o on o.id =": "o on o.key =",
      "m.level >= 50": "m.grade >= 50",
      "of organization_id, user_id,": "of organization_id, person_id,",
      "user_id, level": "user_id, grade",
    };
    for (const [right, wrong] of Object.entries(renamed)) {
      assertStringIncludes(text, right);
      const push = sql.begin((run) => run.unsafe(text.replace(right, wrong)));
      assertEquals(await codeOf(push), "42703", wrong);
    }
  });

  it("the recipes are pushed as migrations after ours. The next sync of declarative schemas takes back these and what log_table made, and nothing once they are copied into the schemas", async () => {
    const earlier = project.migrations();
    project.addRecipes();
    project.addMigration("monitoring", recipe("monitoring_role.sql"));
    await project.push();
    assertEquals(await project.pushed(), project.migrations());
    const statements = (await sync()).join("\n");
    assertStringIncludes(statements, 'DROP TRIGGER "audit_log_on_insert" ON "public"."documents"');
    const recreated = "CREATE OR REPLACE FUNCTION audit_log_private.my_organizations(";
    assertStringIncludes(statements, recreated);
    assertEquals(statements.includes("DROP TABLE"), false);
    const recipes = project.migrations().filter((name) => !earlier.includes(name));
    for (const name of recipes) copyToSchemas(name);
    assertEquals(await sync(), []);
  });

  it("an id that is given up and used again opens nobody's log: its last entries are in it, and later ones are refused, until the owner opens or deletes it", async () => {
    const { owner: ada, reader: grace } = people;
    const id = await project.uuidOf("store");
    const add = async (person: Account) => {
      await sql`insert into public.organizations (id, name) values ('store', 'Store')`;
      await sql`insert into public.memberships values ('store', ${person.id}, 90)`;
    };
    const write = () => {
      const [created_at, data] = [new Date().toISOString(), { member_id: "1" }];
      const entry = { organization: "store", created_at, action: "member_added", data };
      const entries = JSON.stringify([{ ...entry, user_email: "x@x", agent_name: "x" }]);
      return sql`select audit_log.record_entries(${entries}::text::jsonb)`;
    };
    const actions = () =>
      valueOf<string[]>(sql`
        select array(
          select action from audit_log.audit_entries where organization_id = ${id}
          order by transaction_id, created_at, id
        )`);
    const listed = async (person: Account) =>
      JSON.stringify(await project.call(person.client, "list_organizations")).includes("store");
    const ways: [giveUp: string, ...last: string[]][] = [
      ["delete from public.organizations", "member_removed"],
      ["update public.organizations set id = 'shop'"],
    ];
    for (const [giveUp, ...last] of ways) {
      const log = ["member_added", "member_added", ...last];
      await add(ada);
      await write();
      const key = await project.keyOf(ada.client, id);
      assertEquals((await project.page(key)).organization_id, "store");
      await sql.unsafe(`${giveUp} where id = 'store'`);
      assertEquals(await actions(), log);
      assertEquals(await listed(ada), false);
      await assertRejects(() => project.page(key));

      // Grace gets the id. Nothing of hers fails but what must be logged.
      await add(grace);
      assertEquals(await actions(), log);
      assertEquals(await listed(grace), false);
      for (const name of ["list_api_keys", "list_actions"]) {
        assertEquals(await project.call(grace.client, name, { organization_id: id }), REFUSED);
      }
      assertEquals(await codeOf(write()), "23503");
      while (await valueOf(sql`select audit_log_private.delete_organization(${id})`));
      assertEquals(await listed(grace), true);
      await write();
      assertEquals(await actions(), ["member_added"]);
      await sql`delete from public.memberships where organization_id in ('store', 'shop')`;
      await sql`delete from public.organizations where id in ('store', 'shop')`;
      while (await valueOf(sql`select audit_log_private.delete_organization(${id})`));
      await sql`delete from audit_log_private.logging_failures`;
    }
  });

  it("their memberships say by level who administers and who reads", async () => {
    const id = await project.uuidOf("acme");
    const shown = { id, organization_id: "acme", name: "Acme" };
    const { owner, reader, stranger } = people;
    const list = (account: Account) => project.call(account.client, "list_organizations");
    assertEquals(await list(owner), { data: [{ ...shown, ...ADMIN }] });
    assertEquals(await list(reader), { data: [{ ...shown, ...MEMBER }] });
    assertEquals(await list(stranger), { data: [] });
    const actions = () => project.call(reader.client, "list_actions", { organization_id: id });
    assertEquals(await actions(), REFUSED);
    await sql`update public.memberships set level = 30 where user_id = ${reader.id}`;
    assertEquals(await list(reader), { data: [{ ...shown, ...AUDITOR }] });
    assertEquals(Object.keys(await actions()), ["data"]);
    for (const { client } of [reader, stranger]) {
      for (const organization_id of [id, UNKNOWN]) {
        const given = { organization_id, name: "x" };
        assertEquals(await project.call(client, "create_api_key", given), REFUSED);
      }
    }
    const { organization_id } = await project.page(await project.keyOf(owner.client, id));
    assertEquals(organization_id, "acme");
    // An application that the owner authorized, until the platform writes its id into the recipe.
    const [session] = await sql`select id from auth.sessions where user_id = ${owner.id}`;
    const application = await project.personWith({
      sub: owner.id,
      session_id: session?.["id"],
      exp: Math.floor(Date.now() / 1000) + 600,
      client_id: "app_1",
    });
    const listKeys = () => project.call(application, "list_api_keys", { organization_id: id });
    assertEquals(await listKeys(), REFUSED);
    await sql.unsafe(recipe("people.sql").replace("'{}'", "'{app_1}'"));
    assertEquals(Object.keys(await listKeys()), ["data"]);
    await sql.unsafe(recipe("people.sql"));
    assertEquals(await listKeys(), REFUSED);
    // Whoever leaves, or administers no more, is no owner of a key.
    const changes = {
      "delete from public.memberships": [owner.id],
      "update public.memberships set level = 49": [owner.id],
      "update public.memberships set organization_id = 'blank'": [owner.id],
      "update public.memberships set level = 60": [],
    };
    for (const [change, expected] of Object.entries(changes)) {
      const marked = await rolledBack(sql, async (run) => {
        await run.unsafe(`${change} where organization_id = 'acme' and user_id = $1`, [owner.id]);
        return await valueOf(run`
          select array(
            select distinct created_by from audit_log_private.api_keys
            where owner_left_at is not null and organization_id = ${id}
          )`);
      });
      assertEquals(marked, expected, change);
    }
  });

  const [email, sub] = ["ada@example.com", "user_2NNEqL2nrIRdJ194ndJqAHwEfxC"];
  const url = "https://example.com";
  type Claims = (id: string, role: string) => Record<string, unknown>;
  const providers: [tokens: string, file: string, claims: Claims][] = [
    ["Clerk's tokens of version 2", "clerk.sql", (id, rol) => {
      return { email, o: { id, rol, slg: "Theirs" } };
    }],
    ["Clerk's tokens of version 1", "clerk.sql", (id, role) => {
      return { email, org_name: "Theirs", org_id: id, org_role: `org:${role}` };
    }],
    ["Auth0's tokens", "auth0.sql", (id, role) => {
      const more = { [`${url}/org_name`]: "Theirs", [`${url}/roles`]: [role] };
      return { org_id: id, [`${url}/email`]: email, ...more };
    }],
  ];
  for (const [tokens, file, claims] of providers) {
    it(`${tokens} name the organization and the role`, async () => {
      await sql.unsafe(recipe(file));
      const [mine, other] = [`org_${crypto.randomUUID()}`, `org_${crypto.randomUUID()}`];
      const id = await project.uuidOf(mine);
      const as = (role: string) => project.personWith({ sub, ...claims(mine, role) });
      const [admin, auditor, member] = [await as("admin"), await as("auditor"), await as("member")];
      const none = await project.personWith({ sub });
      const list = (client: typeof admin) => project.call(client, "list_organizations");
      const shown = { id, organization_id: mine, name: "Theirs" };
      assertEquals(await list(admin), { data: [{ ...shown, ...ADMIN }] });
      assertEquals(await list(auditor), { data: [{ ...shown, ...AUDITOR }] });
      assertEquals(await list(member), { data: [{ ...shown, ...MEMBER }] });
      assertEquals(await list(none), { data: [] });

      const { organization_id } = await project.page(await project.keyOf(admin, id));
      assertEquals(organization_id, mine);
      const keys = await project.call(admin, "list_api_keys", { organization_id: id });
      assertObjectMatch(keys, { data: [{ created_by_email: email }] });
      const actions = await project.call(auditor, "list_actions", { organization_id: id });
      assertEquals(Object.keys(actions), ["data"]);
      for (const client of [admin, auditor, member, none]) {
        const refused = client === admin ? await project.uuidOf(other) : id;
        for (const organization_id of [refused, UNKNOWN]) {
          assertEquals(await project.call(client, "list_api_keys", { organization_id }), REFUSED);
        }
      }
    });
  }
});

it("5. Leave: the migration leaves nothing behind, and their tables go on working", async () => {
  const ours = join(project.folder, "supabase/functions/public-audit-log");
  await Deno.remove(ours, { recursive: true });
  await sql.unsafe(PG_CRON);
  await sql.unsafe(recipe("upkeep.sql").replace(/^create extension .*/m, ""));
  await sql.unsafe(RUNS);
  await sql.unsafe(
    await valueOf(sql`select command from cron.job where jobname = 'audit_log_upkeep_history'`),
  );
  assertEquals([...await sql.unsafe(RUNS_LEFT)], [{ ours: 4, theirs: 5 }]);
  assertStringIncludes((await changesOutside()).added.join("\n"), "role audit_log_monitor");
  await project.expose(false);
  project.addMigration("leave", recipe("leave.sql"));
  await project.push();
  assertEquals([...await sql`select jobname from cron.job`], [{ jobname: "theirs" }]);
  assertEquals([...await sql.unsafe(RUNS_LEFT)], [{ ours: 0, theirs: 5 }]);
  // The function that log_table was given as `computed` is theirs.
  await sql`drop schema cron cascade`;
  await sql`drop function public.membership_facts`;
  assertEquals(await changesOutside(), { added: [], gone: [] });
  const acme = await project.newOrganization();
  await sql`update public.organizations set name = 'Still here' where id = ${acme}`;
  await sql`delete from public.memberships where user_id = ${people.reader.id}`;
  const { client, id } = people.stranger;
  const document = { organization_id: acme, created_by: id };
  assertEquals((await client.from("documents").insert(document)).error, null);
});
