import { assertEquals, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { runRecipes } from "../clients/recipes.ts";
import { codeOf, runUpkeep, valueOf } from "../project.ts";
import { blockOf, ExistingProject } from "./existing_project.ts";

// Follows the section "Write entries" of docs/adopting.md, with the recipes entries.sql and events.sql.

const project = await ExistingProject.start();
afterAll(() => project[Symbol.asyncDispose]());
const { sql } = project;
project.install();
project.addRecipes("values", "organizations", "entries", "events");
await project.push();
const person = await project.signUp();

/** Reads the entries of an organization of theirs, oldest first. */
async function entriesOf(externalId: string) {
  const { id } = await project.organization(externalId);
  return await sql<{ action: string; user_email: string; agent_name: string; data: unknown }[]>`
    select action::text, user_email, agent_name, data from audit_log.audit_entries
    where organization_id = ${id} order by transaction_id, created_at, id`;
}

async function assertCountsExact(): Promise<void> {
  const mismatches = await sql.unsafe(blockOf("sql", "entry_count_mismatches"));
  assertEquals([...mismatches], []);
}

describe("a trigger on their tables", () => {
  it("logs inserts with the contract's data, and so does a trigger on events", async () => {
    const [acme, events] = [await project.newOrganization(), await project.newOrganization()];
    const { id, agentId } = await project.newConversation(acme, person.id);
    const [message] = await sql`
      insert into public.messages (organization_id, conversation_id, user_id, body)
      values (${acme}, ${id}, ${person.id}, 'Hello'), (${acme}, ${id}, null, 'How can I help?')
      returning id::text`;
    const messageId = message?.["id"];
    await sql`
      insert into public.feedback (organization_id, message_id, user_id, thumb)
      values (${acme}, ${messageId}, ${person.id}, 'up')`;
    const details = { agent: agentId, sid: "AG1", conversation: id, message: messageId };
    await sql`
      insert into public.events (organization_id, kind, email, agent, details)
      select ${events}, kind, ${person.email}, 'Assistant', ${sql.json({ ...details, thumb: "up" })}
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
        assertEquals([user_email, agent_name], [person.email, "Assistant"]);
      }
    }
  });

  it("logs an action if and only if it is committed", async () => {
    const acme = await project.newOrganization();
    const add = (run: postgres.ISql, name: string) =>
      run`insert into public.agents (organization_id, name) values (${acme}, ${name})`;
    const undone = async (run: postgres.ISql) => {
      await add(run, "undone");
      throw new Error("undo");
    };
    await sql.begin(async (run) => {
      await add(run, "committed");
      await run.savepoint(undone).catch(() => {});
      await run.savepoint((run) => add(run, "kept"));
    });
    await sql.begin(undone).catch(() => {});
    await assertRejects(() => sql`insert into public.agents (organization_id) values ('nobody')`);
    await sql`
      insert into public.agents (organization_id, name)
      select ${acme}, 'many' from generate_series(1, 10000)`;
    await sql`insert into public.agents (organization_id, name) select ${acme}, 'none' where false`;
    const names = Map.groupBy(await entriesOf(acme), ({ agent_name }) => agent_name);
    const counts = Array.from(names, ([name, entries]) => [name, entries.length]);
    assertEquals(Object.fromEntries(counts), { committed: 1, kept: 1, many: 10_000 });
    await assertCountsExact();
  });

  it("needs no privilege for the people who insert over the Data API", async () => {
    const acme = await project.newOrganization();
    const { client, id, email } = person;
    const agent = { organization_id: acme, name: "Mine", created_by: id };
    assertEquals((await client.from("agents").insert(agent)).error, null);
    const another = { ...agent, created_by: crypto.randomUUID() };
    assertEquals((await client.from("agents").insert(another)).error?.code, "42501");
    assertEquals((await entriesOf(acme)).map(({ user_email }) => user_email), [email]);
  });

  it("makes no insert of theirs fail, whatever the values", async () => {
    const acme = await project.newOrganization();
    const stranger = crypto.randomUUID();
    const long = "\u{1f600}\u0001".repeat(5_000);
    for (const name of [null, "", " ", "\n", long, "{}", '"\\', "\u00a0"]) {
      const { id } = await project.newConversation(acme, stranger, { name, sid: name });
      const [message] = await sql`
        insert into public.messages (organization_id, conversation_id, user_id)
        values (${acme}, ${id}, ${stranger}) returning id`;
      await sql`
        insert into public.feedback (organization_id, message_id, user_id, thumb)
        values (${acme}, ${message?.["id"]}, null, ${name})`;
      const details = { message: name, conversation: name, agent: name, sid: name, thumb: name };
      await sql`
        insert into public.events (organization_id, kind, email, agent, details)
        select ${acme}, kind, ${name}, ${name}, ${sql.json(details)}
        from unnest(array['agent.created', 'message.sent', 'message.rated', 'unknown']) as kind`;
    }
    await sql`insert into public.conversations (organization_id) values (${acme})`;
    await sql`insert into public.messages (organization_id, user_id) values (${acme}, ${stranger})`;
    await sql`insert into public.feedback (organization_id) values (${acme})`;
    await sql`
      insert into public.events (organization_id, kind, email)
      select ${acme}, 'agent.created', email
      from unnest(array['', '@', repeat('x', 400), 'a@' || repeat('b', 400)]) as email`;
    const entries = await entriesOf(acme);
    assertEquals(entries.length, 8 * 7 + 3 + 4);
    const emails = new Set(entries.map(({ user_email }) => user_email));
    assertEquals(emails, new Set(["unknown@invalid"]));
    await assertCountsExact();
  });

  it("finds an organization that was made in the same transaction, or the same statement", async () => {
    await sql.begin(async (run) => {
      await run`insert into public.organizations (id, name) values ('in-one', 'One')`;
      await project.newConversation("in-one", person.id, { run });
    });
    assertEquals((await entriesOf("in-one")).length, 2);
    await sql`
      with organization as (
        insert into public.organizations (id, name) values ('at-once', 'Once') returning id
      )
      insert into public.agents (organization_id, name) select id, 'Agent' from organization`;
    assertEquals((await entriesOf("at-once")).length, 1);
  });

  it("logs an action of theirs with who is signed in, as the page shows", async () => {
    const acme = await project.newOrganization();
    await project.newConversation(acme, person.id);
    await project.newConversation(acme, person.id);
    await sql.unsafe(blockOf("sql", "audit_log_private.log_table("));
    const claims = JSON.stringify({ sub: person.id, email: person.email });
    await sql.begin(async (run) => {
      await run`select set_config('request.jwt.claims', ${claims}, true)`;
      await run`
        delete from public.agents
        where id = (select id from public.agents where organization_id = ${acme} limit 1)`;
    });
    await sql`delete from public.agents where organization_id = ${acme}`;
    const removals = (await entriesOf(acme)).filter(({ action }) => action === "agent_removed");
    const emails = removals.map(({ user_email }) => user_email);
    assertEquals(emails, [person.email, "unknown@invalid"]);
    assertEquals([...await sql`select * from audit_log_private.logging_problems()`], []);

    // An organization that the log does not know is added when it is needed.
    await sql.unsafe(blockOf("sql", "organization_of(external_id text)"));
    await sql.begin(async (run) => {
      await run`set local session_replication_role = replica`;
      await run`insert into public.organizations (id, name) values ('late', 'Late')`;
    });
    const found = await valueOf(sql`select audit_log_private.organization_of('late')`);
    assertEquals(await project.organization("late"), { id: found, name: "Late" });
    assertEquals(await valueOf(sql`select audit_log_private.organization_of('none')`), null);
  });

  it("refuses the insert if the log has no such organization, so that no action goes unlogged", async () => {
    const acme = await project.newOrganization();
    await sql`delete from audit_log.organizations where external_id = ${acme}`;
    const insert = sql`insert into public.agents (organization_id, name) values (${acme}, 'Agent')`;
    assertEquals(await codeOf(insert), "23502");
    assertEquals((await sql`select from public.agents where organization_id = ${acme}`).length, 0);
  });
});

describe("the page's commands", () => {
  it("write an organization and an entry from outside, and may be repeated", async () => {
    const { apiUrl, secretKey } = project.stack;
    const run = () => runRecipes({ API_URL: apiUrl, SECRET_KEY: secretKey }, "adopting.md");
    const [first, second] = [await run(), await run()];
    const organization = first.outputOf("on_conflict=external_id");
    assertEquals(JSON.parse(organization)[0].external_id, "org_2b");
    assertEquals(second.outputOf("on_conflict=external_id"), organization);
    assertEquals(JSON.parse(first.outputOf("record_entries")), { recorded: 1 });
    assertEquals(JSON.parse(second.outputOf("record_entries")), { recorded: 0 });
    assertEquals((await entriesOf("org_2b")).length, 1);
  });
});

describe("a table of events", () => {
  it("is logged in pieces, beside its trigger. Each event of a mapped kind becomes one entry, also after an interruption", async () => {
    const acme = await project.newOrganization();
    // These events are older than the trigger.
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

    // One piece is written, as if the backfill had been interrupted.
    const piece = valueOf(sql`
      select recorded::int
      from audit_log_private.custom_backfill((select max(id) - 20000 from public.events))`);
    assertEquals(await piece, 8_000);
    const backfill = blockOf("sql", "custom_backfill");
    for (let run = 0; run < 2; run++) {
      await sql.unsafe(backfill);
      assertEquals((await entriesOf(acme)).length, 20_010);
    }
    await assertCountsExact();

    await runUpkeep(sql);
    const { id } = await project.organization(acme);
    const [seals] = await sql`
      select count(*)::int as days, sum(entries)::int as entries from audit_log_private.seals
      where organization_id = ${id}`;
    assertEquals({ ...seals }, { days: 36, entries: 20_010 });
    await sql.unsafe(backfill);
    await runUpkeep(sql);
    const health = await valueOf<Record<string, unknown>>(sql`select audit_log_private.health()`);
    const { altered_days, miscounted_days, oldest_unsealed_day } = health;
    assertEquals([altered_days, miscounted_days, oldest_unsealed_day], [[], [], null]);
  });
});
