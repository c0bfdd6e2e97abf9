import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import postgres from "postgres";
import { runUpkeep } from "../../local/upkeep.ts";
import { runRecipes } from "../clients/recipes.ts";
import { everythingElse } from "../everything_else.ts";
import { runProgram } from "../run_program.ts";
import { type Account, ExistingProject, ROOT } from "./existing_project.ts";

// docs/adopting.md, from the beginning to the end, in a project that was there before. Each test goes on where the
// one before it stopped, as its reader does.

const MIGRATIONS = "supabase/migrations";
const UNKNOWN = "00000000-0000-4000-8000-00000000dead";

/** What the recipes use of it, because this Postgres has no such extension. */
const PG_CRON = `
  create schema cron;
  create table cron.job (jobid bigint generated always as identity, jobname text, schedule text, command text);
  create function cron.schedule(text, text, text) returns bigint language sql as
    'insert into cron.job (jobname, schedule, command) values ($1, $2, $3) returning jobid';
  create function cron.unschedule(bigint) returns boolean language sql as
    'delete from cron.job where jobid = $1 returning true';
  select cron.schedule('theirs', '* * * * *', 'select 1');`;

const project = await ExistingProject.start();
afterAll(() => project[Symbol.asyncDispose]());
const { sql } = project;

const page = await Deno.readTextFile(new URL("../../docs/adopting.md", import.meta.url));

/** The block of the page that has a text in it. */
function blockOf(language: string, part: string): string {
  const blocks = page.matchAll(new RegExp(`^ *\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, "gm"));
  for (const [, block = ""] of blocks) if (block.includes(part)) return block;
  throw new Error(`docs/adopting.md has no ${language} with ${part}`);
}

function recipe(name: string): string {
  return Deno.readTextFileSync(join(ROOT, "examples/adopting", name));
}

/** The entries of an organization of theirs, oldest first. */
async function entriesOf(externalId: string) {
  const { id } = await project.organization(externalId);
  return await sql<{ action: string; user_email: string; agent_name: string; data: unknown }[]>`
    select action::text, user_email, agent_name, data from audit_log.audit_entries
    where organization_id = ${id} order by transaction_id, created_at, id`;
}

async function newOrganization(): Promise<string> {
  const id = `acme-${crypto.randomUUID()}`;
  await sql`insert into public.organizations (id, name) values (${id}, 'Acme')`;
  return id;
}

async function assertCountsExact(): Promise<void> {
  const mismatches = await sql.unsafe(blockOf("sql", "entry_count_mismatches"));
  assertEquals([...mismatches], []);
}

const people = {
  owner: await project.signUp(),
  reader: await project.signUp(),
  stranger: await project.signUp(),
};
let before: Set<string>;

/** What is in the database but for our two schemas. */
async function thingsOutside(): Promise<string[]> {
  // The names of these triggers end with a number that Postgres gives.
  return (await everythingElse(sql)).map((thing) =>
    thing.replace(/(RI_ConstraintTrigger_.)_\d+/, "$1")
  );
}

/** What has changed there since before the installation. */
async function changesOutside(): Promise<{ added: string[]; gone: string[] }> {
  const now = new Set(await thingsOutside());
  return { added: [...now.difference(before)], gone: [...before.difference(now)] };
}

describe("1. Install", () => {
  it("a push that fails in the middle leaves whole files, and the next one goes on", async () => {
    await sql`
      insert into public.organizations (id, name)
      values ('acme', 'Acme'), ('blank', ' '), ('long', repeat('x', 300)), ('none', null)`;
    await sql`
      insert into public.memberships (organization_id, user_id, level)
      values ('acme', ${people.owner.id}, 90), ('acme', ${people.reader.id}, 10)`;
    before = new Set(await thingsOutside());
    assertStringIncludes(await project.install(), "Next, in that project:");

    const files = project.migrations();
    const ours = files.filter((name) => name.includes("_audit_log_"));
    const failing = files.find((name) => name.endsWith("_pages.sql")) ?? "";
    const text = await Deno.readTextFile(join(project.folder, MIGRATIONS, failing));
    project.write(`${MIGRATIONS}/${failing}`, `${text}\nselect 1 / 0;\n`);
    const error = await assertRejects(() => project.push(), Error);
    assertMatch(error.message, /division by zero/);
    assertEquals(await project.pushed(), files.slice(0, files.indexOf(failing)));
    // The first of them is a type, and one has a body in SQL (begin atomic … end), which is no end of a transaction.
    assertMatch(text, /^begin atomic$/m);
    const made = Array.from(
      text.matchAll(/^create (?:type|function) ([\w.]+)/gm),
      ([, name]) => name,
    );
    const left = await sql`
      select name from unnest(${made as string[]}::text[]) as name
      where coalesce(to_regtype(name)::oid, to_regproc(name)::oid) is not null`;
    assertEquals([...left], []);

    project.write(`${MIGRATIONS}/${failing}`, text);
    assertStringIncludes(await project.install(), "nothing to change");
    await project.push();
    assertEquals(await project.pushed(), files);
    assert(ours.length > 10);
  });

  it("changes nothing outside two schemas, and serves audit_log", async () => {
    assertEquals(await changesOutside(), { added: [], gone: [] });
    const config = await Deno.readTextFile(join(project.folder, "supabase/config.toml"));
    assertMatch(config, /schemas = \[.*"audit_log"\]/);
    assertEquals(await project.call(people.owner.client, "list_organizations"), { data: [] });
  });

  it("the first organization's administrator makes a key, which reads the log", async () => {
    await sql.unsafe(blockOf("sql", "'First'").replace("<user id>", people.owner.id));
    const { data } = await project.call(people.owner.client, "list_organizations") as {
      data: { id: string; name: string; is_admin: boolean }[];
    };
    const [{ id = "", name, is_admin } = {}] = data;
    assertEquals([name, is_admin, data.length], ["First", true, 1]);
    const { total } = await project.page(await project.keyOf(people.owner.client, id));
    assertEquals(total, 0);
  });
});

describe("2. Your organizations and people", () => {
  it("a name that was not changed makes the push fail, not their application", async () => {
    const recipes = ["values.sql", "organizations.sql", "people.sql", "entries.sql", "events.sql"];
    const wrong: [string, string, string][] = [
      [
        "organizations.sql",
        "text(c.name, c.id::text) from changed",
        "text(c.title, c.id::text) from changed",
      ],
      ["people.sql", "m.level >= 50", "m.grade >= 50"],
      [
        "entries.sql",
        "text(a.name, 'unnamed'),\n    jsonb_build_object('agent_id'",
        "text(a.title, 'unnamed'),\n    jsonb_build_object('agent_id'",
      ],
      ["entries.sql", "c.agent_id::text", "c.bot_id::text"],
      ["entries.sql", "a.sid", "a.code"],
      ["entries.sql", "f.thumb", "f.rating"],
      ["events.sql", "e.agent,", "e.bot,"],
    ];
    for (const [name, right, other] of wrong) {
      const texts = recipes.slice(0, recipes.indexOf(name) + 1).map(recipe);
      const text = texts.pop() ?? "";
      assertStringIncludes(text, right);
      texts.push(text.replace(right, other));
      const error = await assertRejects(
        () => sql.begin((run) => run.unsafe(texts.join("\n"))),
        postgres.PostgresError,
        undefined,
        `${name}: ${other}`,
      );
      assertEquals(error.code, "42703");
    }
  });

  it("the recipes are pushed as migrations after ours", async () => {
    project.addMigrations({
      audit_log_values: recipe("values.sql"),
      audit_log_organizations: recipe("organizations.sql"),
      audit_log_people: recipe("people.sql"),
      audit_log_entries: recipe("entries.sql"),
      audit_log_events: recipe("events.sql"),
    });
    await project.push();
    assertEquals(await project.pushed(), project.migrations());
  });

  it("the organizations that exist are there, whatever their names", async () => {
    const names = await sql`
      select external_id, name from audit_log.organizations
      where external_id is not null order by external_id`;
    assertEquals(names.map((row) => Object.values(row)), [
      ["acme", "Acme"],
      ["blank", "blank"],
      ["long", "x".repeat(200)],
      ["none", "none"],
    ]);
  });

  it("new ones are added and renamed with theirs, in the same transaction, and none is deleted", async () => {
    await sql`insert into public.organizations (id, name) values ('new', 'New'), ('other', '')`;
    const { id } = await project.organization("new");
    await sql`update public.organizations set name = 'Renamed' where id = 'new'`;
    assertEquals(await project.organization("new"), { id, name: "Renamed" });
    await sql`
      insert into public.organizations (id, name) values ('new', 'Again'), ('newer', 'Newer')
      on conflict (id) do update set name = excluded.name`;
    assertEquals(await project.organization("new"), { id, name: "Again" });
    assertEquals((await project.organization("newer")).name, "Newer");
    await sql`update public.organizations set name = repeat(' ', 300) || 'x' where id = 'new'`;
    assertEquals((await project.organization("new")).name, "new");
    await sql.begin(async (run) => {
      await run`insert into public.organizations (id) values ('undone')`;
      throw new Error("undo");
    }).catch(() => {});
    await assertRejects(() => project.organization("undone"));
    await sql`delete from public.organizations where id = 'new'`;
    assertEquals((await project.organization("new")).id, id);
  });

  it("their memberships say who administers: by level, and with the second factor", async () => {
    const { id } = await project.organization("acme");
    const shown = { id, organization_id: "acme", name: "Acme" };
    const { owner, reader, stranger } = people;
    const list = (account: Account) => project.call(account.client, "list_organizations");
    assertEquals(await list(owner), { data: [{ ...shown, role: "admin", is_admin: true }] });
    assertEquals(await list(reader), { data: [{ ...shown, role: "member", is_admin: false }] });
    assertEquals(await list(stranger), { data: [] });
    for (const { client } of [reader, stranger]) {
      for (const organization_id of [id, UNKNOWN]) {
        const answer = await project.call(client, "create_api_key", { organization_id, name: "x" });
        assertEquals(answer, { code: "42501" });
      }
    }
    const { organization_id } = await project.page(await project.keyOf(owner.client, id));
    assertEquals(organization_id, "acme");

    await sql`
      insert into auth.mfa_factors (user_id, status) values (${owner.id}, 'verified')`;
    const given = { organization_id: id };
    assertEquals(await project.call(owner.client, "list_api_keys", given), { code: "42501" });
    const withFactor = await project.personWith({ sub: owner.id, aal: "aal2" });
    assert("data" in await project.call(withFactor, "list_api_keys", given));
    await sql`delete from auth.mfa_factors`;
    await sql`update public.memberships set level = 10 where user_id = ${owner.id}`;
    assertEquals(await project.call(owner.client, "list_api_keys", given), { code: "42501" });
    await sql`update public.memberships set level = 50 where user_id = ${owner.id}`;
    assert("data" in await project.call(owner.client, "list_api_keys", given));
  });

  it("accounts that were deleted softly or are banned administer nothing, although their JWT is valid", async () => {
    const { id } = await project.organization("acme");
    const { owner } = people;
    const codeAfter = async (change: string) => {
      await sql.unsafe(`update auth.users set ${change} where id = '${owner.id}'`);
      const answer = await project.call(owner.client, "list_api_keys", { organization_id: id });
      return "code" in answer ? answer.code : "accepted";
    };
    assertEquals(await codeAfter("deleted_at = now()"), "42501");
    const banned = "deleted_at = null, banned_until = now()";
    assertEquals(await codeAfter(`${banned} + interval '1 hour'`), "42501");
    assertEquals(await codeAfter(`${banned} - interval '1 hour'`), "accepted");
    const gone = await project.personWith({ sub: crypto.randomUUID() });
    const answer = await project.call(gone, "list_api_keys", { organization_id: id });
    assertEquals(answer, { code: "42501" });
  });

  it("if a function raises an error, the caller gets it, and keys and entries are not affected", async () => {
    const { id } = await project.organization("acme");
    const token = await project.keyOf(people.owner.client, id);
    const { length } = await entriesOf("acme");
    await sql`alter table public.memberships rename to members`;
    for (const organization_id of [id, UNKNOWN]) {
      const given = { organization_id, name: "x" };
      const answer = await project.call(people.owner.client, "create_api_key", given);
      assertEquals(answer, { code: "42P01" });
    }
    await sql`insert into public.agents (organization_id, name) values ('acme', 'Meanwhile')`;
    assertEquals((await entriesOf("acme")).length, length + 1);
    assertEquals((await project.page(token)).total, length + 1);
    await sql`alter table public.members rename to memberships`;
  });

  const PROVIDERS = {
    "Clerk's tokens of version 2": {
      recipe: "people_clerk.sql",
      claims: (id: string, role: string) => ({ v: 2, o: { id, rol: role, slg: "acme" } }),
      email: (email: string) => ({ email }),
    },
    "Clerk's tokens of version 1": {
      recipe: "people_clerk.sql",
      claims: (id: string, role: string) => ({ org_id: id, org_role: `org:${role}` }),
      email: (email: string) => ({ email }),
    },
    "Auth0's tokens": {
      recipe: "people_auth0.sql",
      claims: (id: string, role: string) => ({ org_id: id, "https://example.com/roles": [role] }),
      email: (email: string) => ({ "https://example.com/email": email }),
    },
  };
  for (const [name, provider] of Object.entries(PROVIDERS)) {
    it(`${name} name the organization and the role`, async () => {
      await sql.unsafe(recipe(provider.recipe));
      const [external, otherId] = [`org_${crypto.randomUUID()}`, `org_${crypto.randomUUID()}`];
      await sql`
        insert into audit_log.organizations (name, external_id)
        values ('Theirs', ${external}), ('Others', ${otherId})`;
      const [{ id }, other] = [
        await project.organization(external),
        await project.organization(otherId),
      ];
      const sub = "user_2NNEqL2nrIRdJ194ndJqAHwEfxC";
      const email = provider.email("ada@example.com");
      const admin = await project.personWith({
        sub,
        ...email,
        ...provider.claims(external, "admin"),
      });
      const member = await project.personWith({ sub, ...provider.claims(external, "member") });
      const none = await project.personWith({ sub });
      const list = (client: typeof admin) => project.call(client, "list_organizations");
      const shown = { id, organization_id: external, name: "Theirs" };
      assertEquals(await list(admin), { data: [{ ...shown, role: "admin", is_admin: true }] });
      assertEquals(await list(member), { data: [{ ...shown, role: "member", is_admin: false }] });
      assertEquals(await list(none), { data: [] });

      const { organization_id } = await project.page(await project.keyOf(admin, id));
      assertEquals(organization_id, external);
      const { data } = await project.call(admin, "list_api_keys", { organization_id: id }) as {
        data: { created_by_email: string }[];
      };
      assertEquals(data.map((key) => key.created_by_email), ["ada@example.com"]);
      for (const client of [admin, member, none]) {
        for (const organization_id of [client === admin ? other.id : id, UNKNOWN]) {
          const answer = await project.call(client, "list_api_keys", { organization_id });
          assertEquals(answer, { code: "42501" });
        }
      }
    });
  }

  it("and back to their own tables", async () => {
    await sql.unsafe(recipe("people.sql"));
    await sql.unsafe(`
      create or replace function audit_log_private.caller(out id text, out email text)
      language plpgsql stable set search_path = pg_catalog, pg_temp as $$
      begin
        id := auth.jwt() ->> 'sub';
        email := auth.jwt() ->> 'email';
      end $$`);
  });
});

/** A conversation of the owner with an agent, both new. */
async function newConversation(organizationId: string, run: postgres.ISql = sql) {
  const [agent] = await run`
    insert into public.agents (organization_id, name, sid, created_by)
    values (${organizationId}, 'Assistant', 'AG1', ${people.owner.id}) returning id`;
  const [conversation] = await run`
    insert into public.conversations (organization_id, agent_id, user_id)
    values (${organizationId}, ${agent?.["id"]}, ${people.owner.id}) returning id`;
  return { id: conversation?.["id"] as string, agentId: agent?.["id"] as string };
}

describe("3. Write entries", () => {
  it("their inserts are logged, with what the contract says, and their events with the same data", async () => {
    const [acme, events] = [await newOrganization(), await newOrganization()];
    const { id, agentId } = await newConversation(acme);
    const { email } = people.owner;
    const [message] = await sql`
      insert into public.messages (organization_id, conversation_id, user_id, body)
      values (${acme}, ${id}, ${people.owner.id}, 'Hello'), (${acme}, ${id}, null, 'How can I help?')
      returning id::text`;
    const messageId = message?.["id"];
    await sql`
      insert into public.feedback (organization_id, message_id, user_id, thumb)
      values (${acme}, ${messageId}, ${people.owner.id}, 'up')`;
    const details = {
      agent: agentId,
      sid: "AG1",
      conversation: id,
      message: messageId,
      thumb: "up",
    };
    await sql`
      insert into public.events (organization_id, kind, email, agent, details)
      select ${events}, kind, ${email}, 'Assistant', ${sql.json(details)}
      from unnest(array['agent.created', 'conversation.started', 'message.sent', 'message.rated']) as kind`;
    const agent = { agent_id: agentId, platform_agent_sid: "AG1" };
    const expected = {
      agent_added: agent,
      conversation_created: { conversation_id: id, agent_id: agentId },
      feedback_given: { conversation_id: id, message_id: messageId, feedback: "up" },
      message_created: { conversation_id: id, message_id: messageId, ...agent },
    };
    for (const organization of [acme, events]) {
      const entries = await entriesOf(organization);
      assertEquals(entries.length, 4);
      assertEquals(Object.fromEntries(entries.map(({ action, data }) => [action, data])), expected);
      for (const { user_email, agent_name } of entries) {
        assertEquals([user_email, agent_name], [email, "Assistant"]);
      }
    }
  });

  it("an action is logged if and only if it was committed", async () => {
    const acme = await newOrganization();
    const add = (run: postgres.ISql, name: string) =>
      run`insert into public.agents (organization_id, name) values (${acme}, ${name})`;
    await sql.begin(async (run) => {
      await add(run, "committed");
      await run.savepoint(async (run) => {
        await add(run, "undone");
        throw new Error("undo");
      }).catch(() => {});
      await run.savepoint((run) => add(run, "kept"));
    });
    await sql.begin(async (run) => {
      await add(run, "rolled back");
      throw new Error("undo");
    }).catch(() => {});
    await assertRejects(() => sql`insert into public.agents (organization_id) values ('nobody')`);
    await sql`
      insert into public.agents (organization_id, name)
      select ${acme}, 'many' from generate_series(1, 10000)`;
    await sql`insert into public.agents (organization_id, name) select ${acme}, 'none' where false`;
    const counts = new Map<string, number>();
    for (const { agent_name } of await entriesOf(acme)) {
      counts.set(agent_name, (counts.get(agent_name) ?? 0) + 1);
    }
    assertEquals(Object.fromEntries(counts), { committed: 1, kept: 1, many: 10_000 });
    await assertCountsExact();
  });

  it("people who insert over the Data API need no rights on the log", async () => {
    const acme = await newOrganization();
    const { client, id, email } = people.stranger;
    const agent = { organization_id: acme, name: "Mine", created_by: id };
    const { error } = await client.from("agents").insert(agent);
    assertEquals(error, null);
    const refused = await client.from("agents").insert({ ...agent, created_by: people.owner.id });
    assertEquals(refused.error?.code, "42501");
    const entries = await entriesOf(acme);
    assertEquals(entries.map(({ user_email }) => user_email), [email]);
  });

  it("no value of theirs makes their insert fail", async () => {
    const acme = await newOrganization();
    const long = "\u{1f600}\u0001".repeat(5_000);
    for (const name of [null, "", " ", "\n", long, "{}", '"\\', "\u00a0"]) {
      const [agent] = await sql`
        insert into public.agents (organization_id, name, sid)
        values (${acme}, ${name}, ${name}) returning id`;
      const [conversation] = await sql`
        insert into public.conversations (organization_id, agent_id, user_id)
        values (${acme}, ${agent?.["id"]}, gen_random_uuid()) returning id`;
      const [message] = await sql`
        insert into public.messages (organization_id, conversation_id, user_id, body)
        values (${acme}, ${conversation?.["id"]}, gen_random_uuid(), ${name}) returning id`;
      await sql`
        insert into public.feedback (organization_id, message_id, user_id, thumb)
        values (${acme}, ${message?.["id"]}, null, ${name})`;
      for (const kind of ["agent.created", "message.sent", "message.rated", "unknown"]) {
        await sql`
          insert into public.events (organization_id, kind, email, agent, details)
          values (${acme}, ${kind}, ${name}, ${name}, ${
          sql.json({ message: name, conversation: name, agent: name, sid: name, thumb: name })
        })`;
      }
    }
    await sql`insert into public.conversations (organization_id) values (${acme})`;
    await sql`
      insert into public.messages (organization_id, user_id) values (${acme}, gen_random_uuid())`;
    await sql`insert into public.feedback (organization_id) values (${acme})`;
    for (const email of ["", "@", "x".repeat(400), `a@${"b".repeat(400)}`]) {
      await sql`
        insert into public.events (organization_id, kind, email) values (${acme}, 'agent.created', ${email})`;
    }
    const entries = await entriesOf(acme);
    assertEquals(entries.length, 8 * 7 + 3 + 4);
    assertEquals(
      new Set(entries.map(({ user_email }) => user_email)),
      new Set(["unknown@invalid"]),
    );
    await assertCountsExact();
  });

  it("an organization may be made in the same transaction, and in the same statement", async () => {
    await sql.begin(async (run) => {
      await run`insert into public.organizations (id, name) values ('in-one', 'One')`;
      await newConversation("in-one", run);
    });
    assertEquals((await entriesOf("in-one")).length, 2);
    await sql`
      with organization as (
        insert into public.organizations (id, name) values ('at-once', 'Once') returning id
      )
      insert into public.agents (organization_id, name) select id, 'Agent' from organization`;
    assertEquals((await entriesOf("at-once")).length, 1);
  });

  it("where the organization is missing from the log, the insert fails: nothing happens that is not logged", async () => {
    const acme = await newOrganization();
    await sql`delete from audit_log.organizations where external_id = ${acme}`;
    const insert = sql`insert into public.agents (organization_id, name) values (${acme}, 'Agent')`;
    const error = await assertRejects(() => insert, postgres.PostgresError);
    assertEquals(error.code, "23502");
    assertEquals((await sql`select from public.agents where organization_id = ${acme}`).length, 0);
  });

  it("the page's commands write an organization and an entry from outside, and may be repeated", async () => {
    const { apiUrl, secretKey } = project.stack;
    const environment = { API_URL: apiUrl, SECRET_KEY: secretKey };
    const first = await runRecipes(environment, "adopting.md");
    assertEquals(JSON.parse(first.outputOf("on_conflict=external_id"))[0].external_id, "org_2b");
    assertEquals(JSON.parse(first.outputOf("record_entries")), { recorded: 1 });
    const second = await runRecipes(environment, "adopting.md");
    assertEquals(
      second.outputOf("on_conflict=external_id"),
      first.outputOf("on_conflict=external_id"),
    );
    assertEquals(JSON.parse(second.outputOf("record_entries")), { recorded: 0 });
    assertEquals((await entriesOf("org_2b")).length, 1);
  });

  it("a table of events is written once, in pieces, beside its trigger, whatever was interrupted", async () => {
    const acme = await newOrganization();
    // From before the trigger.
    await sql`alter table public.events disable trigger audit_log_insert`;
    await sql`
      insert into public.events (organization_id, happened_at, kind, email, agent)
      select ${acme}, '2026-01-01Z'::timestamptz + n * interval '2 minutes',
        (array['agent.created', 'conversation.started', 'message.sent', 'message.rated', 'login'])[n % 5 + 1],
        n || '@example.com', 'Assistant'
      from generate_series(1, 25000) as n`;
    await sql`alter table public.events enable trigger audit_log_insert`;
    await sql`
      insert into public.events (organization_id, happened_at, kind)
      select ${acme}, '2026-02-10Z', 'message.sent' from generate_series(1, 10)`;
    assertEquals((await entriesOf(acme)).length, 10);

    const [last] = await sql`select max(id) as id from public.events`;
    const place = Number(last?.["id"]) - 20_000;
    const piece = sql`select recorded::int from audit_log_private.custom_backfill(${place})`;
    assertEquals((await piece)[0]?.["recorded"], 8_000);
    const statement = blockOf("sql", "custom_backfill");
    await sql.unsafe(statement);
    assertEquals((await entriesOf(acme)).length, 20_010);
    await assertCountsExact();
    const [total] = await sql`select count(*)::int as entries from audit_log.audit_entries`;
    await sql.unsafe(statement);
    const [again] = await sql`select count(*)::int as entries from audit_log.audit_entries`;
    assertEquals(again, total);
    await assertCountsExact();

    await runUpkeep(project.stack.databaseUrl);
    const { id } = await project.organization(acme);
    const [seals] = await sql`
      select count(*)::int as days, sum(entries)::int as entries from audit_log_private.seals
      where organization_id = ${id}`;
    assertEquals({ ...seals }, { days: 36, entries: 20_010 });
    await sql.unsafe(statement);
    await runUpkeep(project.stack.databaseUrl);
    const [health] = await sql`select audit_log_private.health() as state`;
    const { altered_days, miscounted_days, oldest_unsealed_day } = health?.["state"];
    assertEquals([altered_days, miscounted_days, oldest_unsealed_day], [[], [], null]);
  });
});

describe("4. Upgrade", () => {
  // upgrade_test.ts upgrades to a newer version.
  it("installing again changes nothing", async () => {
    assertStringIncludes(await project.install(), "nothing to change");
  });
});

describe("5. Leave", () => {
  it("without our migration files, every push stops as the page says", async () => {
    const kept = new Map<string, string>();
    for (const name of project.migrations().filter((name) => /_audit_log_\d\d_/.test(name))) {
      const path = join(project.folder, MIGRATIONS, name);
      kept.set(`${MIGRATIONS}/${name}`, await Deno.readTextFile(path));
      await Deno.remove(path);
    }
    const { message } = await assertRejects(() => project.push(), Error);
    const [, said = ""] = page.match(/`(Remote migration versions [^`]*)`/) ?? [];
    assertStringIncludes(message, said.replace(/\s+/g, " "));
    for (const [path, text] of kept) project.write(path, text);
    await project.push();
  });

  it("the migration leaves nothing behind, and their tables go on working", async () => {
    await Deno.remove(join(project.folder, "supabase/functions/public-audit-log"), {
      recursive: true,
    });
    await sql.unsafe(PG_CRON);
    await sql.unsafe(recipe("upkeep.sql").replace(/^create extension .*/m, ""));
    project.addMigrations({ audit_log_monitor: recipe("monitor.sql") });
    await project.push();
    assertStringIncludes((await changesOutside()).added.join("\n"), "role audit_log_monitor");
    project.addMigrations({ audit_log_leave: recipe("leave.sql") });
    await project.push();
    assertEquals([...await sql`select jobname from cron.job`], [{ jobname: "theirs" }]);
    await sql`drop schema cron cascade`;
    assertEquals(await changesOutside(), { added: [], gone: [] });
    const acme = await newOrganization();
    await sql`update public.organizations set name = 'Still here' where id = ${acme}`;
    await newConversation(acme);
    await sql`insert into public.events (organization_id, kind) values (${acme}, 'agent.created')`;
    const { client, id } = people.stranger;
    const agent = { organization_id: acme, created_by: id };
    assertEquals((await client.from("agents").insert(agent)).error, null);
  });

  it("installing again works once the files have other names, also from an empty database", async () => {
    const { code, stderr } = await runProgram("bash", {
      args: ["-euc", blockOf("bash", "former")],
      cwd: project.folder,
    });
    assertEquals(code, 0, stderr);
    assertStringIncludes(await project.install(), "Next, in that project:");
    project.addMigrations({
      audit_log_values_again: recipe("values.sql"),
      audit_log_organizations_again: recipe("organizations.sql"),
      audit_log_people_again: recipe("people.sql"),
    });
    await project.push();
    assertEquals((await project.pushed()).length, project.migrations().length);
    const { id } = await project.organization("acme");
    const { total } = await project.page(await project.keyOf(people.owner.client, id));
    assertEquals(total, 0);

    // As a colleague, or a preview branch, gets it.
    await sql.unsafe(`
      drop schema audit_log, audit_log_private, supabase_migrations, private cascade;
      drop table public.organizations, public.memberships, public.agents, public.conversations,
        public.messages, public.feedback, public.events, public.audit_entries cascade;
      drop type public.audit_action;
      drop function public.create_api_key`);
    await project.push();
    const { added, gone } = await changesOutside();
    assertEquals([added, gone], [
      ["trigger organizationsaudit_log_insertO", "trigger organizationsaudit_log_updateO"],
      [],
    ]);
  });
});
