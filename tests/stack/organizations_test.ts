import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { actAs, ALL_DAYS, assertExact, beside, call, client, codeOf } from "../helpers.ts";
import { deleteEntriesBefore, entriesOf, getPage, getProblem, healthOf } from "../helpers.ts";
import { insertEntries, newLog, newOrganization, type Organization } from "../helpers.ts";
import {
  pageQuery,
  pidOf,
  PIECE,
  refusalOf,
  rolledBack,
  type Run,
  runUpkeep,
  signUp,
} from "../helpers.ts";
import { somebodyWaitsFor, sql, valueOf } from "../helpers.ts";

// Who may change an organization. It can be deleted, unless a hold keeps its entries.

const admin = await signUp();

const SEALED_DAYS = pageQuery("2020-01-01", "2020-01-01");

async function deleteEntries(run: Run, id: string): Promise<void> {
  await deleteEntriesBefore(run, id, "2020-02-01");
}

/** Deletes one piece of an organization, and says whether there is more. */
async function deletePiece(run: Run, id: string): Promise<boolean> {
  return await valueOf(run`select audit_log_private.delete_organization(${id})`);
}

/** Deletes an organization with the loop of docs/operating.md; not within a transaction. */
async function deleteOrganization(run: Run, id: string): Promise<void> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const loop = page.match(/.*do \$\$.*delete_organization.*/)?.[0] ?? "none";
  await run.unsafe(loop.replace("<organization id>", id));
}

async function hold(id: string | null, reason: string | null): Promise<void> {
  await sql`select audit_log_private.hold(${id}, ${reason}, 'Grace, Legal')`;
}

async function release(id: string | null, reason: string | null): Promise<void> {
  await sql`select audit_log_private.release(${id}, ${reason}, 'Hedy, Legal')`;
}

const platform = client("service_role");

describe("the secret key", () => {
  it("adds organizations and renames them, also with an upsert that may be repeated", async () => {
    const external_id = crypto.randomUUID();
    const upsert = async (row: { external_id?: string; id?: string; name: string }) => {
      const onConflict = row.external_id ? "external_id" : "id";
      const written = platform.from("organizations").upsert(row, { onConflict }).select().single();
      const { data: { id, name } } = await written.throwOnError();
      return [id, name];
    };
    const [id = ""] = await upsert({ external_id, name: "Acme" });
    assertEquals(await upsert({ external_id, name: "Acme" }), [id, "Acme"]);
    assertEquals(await upsert({ external_id, name: "Acme Ltd" }), [id, "Acme Ltd"]);
    assertEquals(await upsert({ id, name: "Acme Inc" }), [id, "Acme Inc"]);
    await platform.from("organizations").update({ name: "Acme" }).eq("id", id).throwOnError();
  });

  it("changes nothing else of one that is there, gives none an external_id, and deletes none: the owner may", async () => {
    const [id, external_id] = [crypto.randomUUID(), crypto.randomUUID()];
    const other = crypto.randomUUID();
    await platform.from("organizations").insert([
      { id, external_id, name: "Acme" },
      { id: other, name: "Other" },
    ]).throwOnError();
    const read = async () => [
      ...await sql`select * from audit_log.organizations where id in (${id}, ${other}) order by id`,
    ];
    const before = await read();
    const changes = [
      { id: crypto.randomUUID() },
      { external_id: "another" },
      { external_id: null },
      { logs_key_events: true },
      { created_at: "2020-01-01" },
    ];
    for (const change of changes) {
      const { error } = await platform.from("organizations").update(change).eq("id", id);
      assertEquals(error?.code, "42501", JSON.stringify(change));
      assertStringIncludes(error?.message ?? "", "only the owner of the database may change id");
    }
    const upserts = [
      platform.from("organizations").upsert({ id, external_id: "another", name: "Acme" }),
      platform.from("organizations").upsert(
        { external_id, name: "Acme", logs_key_events: true },
        { onConflict: "external_id" },
      ),
      platform.from("organizations").update({ external_id: "filled" }).eq("id", other),
      platform.from("organizations").delete().eq("id", other),
    ];
    for (const refused of upserts) assertEquals((await refused).error?.code, "42501");
    assertEquals(await read(), before);
    for (const [column, value] of changes.flatMap((change) => Object.entries(change))) {
      await sql`update audit_log.organizations set ${sql({ [column]: value })} where id = ${id}`;
      if (column === "id") {
        await sql`update audit_log.organizations set id = ${id} where id = ${value}`;
      }
    }
    await sql`delete from audit_log.organizations where id in (${id}, ${other})`;
  });
});

describe("a hold", () => {
  it("stops retention and both deletion functions until it is released, and their error names it", async () => {
    const log = await newLog();
    const { id } = log;
    await insertEntries(sql, id, "2020-01-01", 2);
    await sql`update audit_log.organizations set keep_days = 1 where id = ${id}`;
    await hold(id, "Matter 7");
    await hold(id, "Matter 8");
    await release(id, "Matter 7");
    for (const remove of [deleteEntries, deletePiece]) {
      const refusal = await refusalOf(remove(sql, id));
      assertStringIncludes(refusal, `55006 organization ${id} is on hold`);
      assertEquals([refusal.includes("Matter 7"), refusal.includes("Matter 8")], [false, true]);
    }
    await runUpkeep(sql);
    await assertExact(log, 2);
    await release(id, "Matter 8");
    await runUpkeep(sql);
    await assertExact(log, 0);
  });

  it("is shown with who gave it until it is released, and then kept with who released it", async () => {
    const { id } = await newOrganization(admin);
    await hold(id, "Matter 7");
    await sql`select audit_log_private.hold(${id}, 'Matter 8')`;
    const shown = async () => {
      const given = { organization_id: id, query: SEALED_DAYS };
      type Hold = { reason: string; held_by: string };
      const { holds } = await call<{ holds: Hold[] }>(admin, "list_seals", given);
      const listed = await healthOf<Hold>(sql, id, "holds");
      assertEquals(holds.map(({ reason }) => reason), listed.map(({ reason }) => reason));
      return holds.map(({ reason, held_by }) => `${reason}: ${held_by}`);
    };
    assertEquals(await shown(), ["Matter 7: Grace, Legal", "Matter 8: postgres"]);
    await release(id, "Matter 7");
    await hold(id, "Matter 7");
    assertEquals(await shown(), ["Matter 8: postgres", "Matter 7: Grace, Legal"]);
    const kept = await sql`
      select concat_ws(': ', reason, released_by, released_at >= held_at) as hold from audit_log_private.holds
      where organization_id = ${id} order by held_at`;
    const expected = ["Matter 7: Hedy, Legal: t", "Matter 8", "Matter 7"];
    assertEquals(kept.map((row) => row["hold"]), expected);
  });

  it("needs an organization and a new reason, and can be released once", async () => {
    const { id } = await newLog();
    await hold(id, "Matter 7");
    const unknown = crypto.randomUUID();
    const refusals = [
      ["23505", hold, id, "Matter 7"],
      ["23514", hold, id, " "],
      ["23502", hold, id, null],
      ["P0002", hold, unknown, "Matter 7"],
      ["P0002", hold, null, "Matter 7"],
      ["P0002", release, id, "Matter 8"],
      ["P0002", release, id, null],
      ["P0002", release, unknown, "Matter 7"],
    ] as const;
    for (const [code, act, organization, reason] of refusals) {
      assertEquals(await codeOf(act(organization, reason)), code);
    }
    await release(id, "Matter 7");
    const again = await refusalOf(release(id, "Matter 7"));
    assertEquals(again, `P0002 organization ${id} has no standing hold "Matter 7"`);
  });

  it("waits for the piece of a deletion that runs, and prevents the next, also with an older snapshot", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2020-01-01", PIECE + 1);
    const deletion = await sql.reserve();
    await deletion`begin`;
    await deleteEntries(deletion, id);
    const holding = hold(id, "Matter 7");
    await Promise.race([holding, somebodyWaitsFor(sql, await pidOf(deletion))]);
    await deletion`commit`;
    await holding;
    assertEquals(await codeOf(deleteEntries(deletion, id)), "55006");
    await release(id, "Matter 7");

    await deletion`begin isolation level repeatable read`;
    await deletion`select from audit_log_private.holds`;
    await hold(id, "Matter 7");
    assertEquals(await codeOf(deleteEntries(deletion, id)), "40001");
    await deletion`rollback`;
    deletion.release();
    assertEquals(await entriesOf(id), 1);
  });
});

/** Reads what the operator's record says of an organization, oldest first. */
async function settingsOf(id: string): Promise<unknown[]> {
  const rows = await sql`
    select who, what, before, after from audit_log_private.setting_changes where organization_id = ${id} order by id`;
  return rows.map((row) => Object.values(row));
}

describe("the operator's record of settings", () => {
  it("has who changed retention, key events, external_id and holds of an organization, in whatever way, and from what; health() has the last days", async () => {
    const { id } = await newLog();
    const external_id = crypto.randomUUID();
    const update = async (values: Record<string, unknown>) => {
      await sql`update audit_log.organizations set ${sql(values)} where id = ${id}`;
    };
    await update({ keep_days: 365, name: "Not recorded" });
    await update({ keep_days: 30, logs_key_events: true });
    await update({ keep_days: 30, external_id });
    await hold(id, "Matter 7");
    await release(id, "Matter 7");
    await hold(id, "Matter 8");
    await sql`
      update audit_log_private.holds set reason = 'Matter 9' where organization_id = ${id} and released_at is null`;
    await sql`delete from audit_log_private.holds where organization_id = ${id}`;
    const [reason, other, another] = ["Matter 7", "Matter 8", "Matter 9"].map((reason) => ({
      reason,
    }));
    const changes = [
      ["keep_days", null, 365],
      ["keep_days", 365, 30],
      ["logs_key_events", false, true],
      ["external_id", null, external_id],
      ["hold", null, reason],
      ["hold", reason, null],
      ["hold", null, other],
      ["hold", other, null],
      ["hold", null, another],
      ["hold", another, null],
    ];
    assertEquals(await settingsOf(id), changes.map((change) => ["postgres", ...change]));
    const shown = await healthOf<{ what: string }>(sql, id, "setting_changes");
    assertEquals(shown.map(({ what }) => what), changes.map(([what]) => what).toReversed());
  });

  it("has who deleted an organization, how many entries it had, and its last seal, after everything else is gone", async () => {
    const { id } = await fullOrganization();
    const seal = await valueOf<string>(sql`select seal from audit_log_private.chain_end(${id})`);
    await deleteOrganization(sql, id);
    const [, , begun, deleted, ...others] = await settingsOf(id) as [string, string, {
      entries: number;
      last_seal: { seal: string };
    }][];
    const told = [begun?.[0], begun?.[1], deleted?.[1], others];
    assertEquals(told, ["postgres", "deletion begun", "deleted", []]);
    assertEquals([begun?.[2].entries, begun?.[2].last_seal.seal], [90, seal]);
  });

  it("has changes of the catalogue, of a function that platforms replace, and of logged tables, also if only the upkeep finds them", async () => {
    await rolledBack(sql, async (run) => {
      const last = await valueOf<string>(run`
        select coalesce(max(id), 0) from audit_log_private.setting_changes`);
      const logAs = (agentName: string) => `
        select audit_log_private.log_table('public.things', on_failure => 'refuse', organization => 'organization',
          agent_name => '${agentName}', on_insert => 'thing_done');`;
      await run.unsafe(`
        insert into audit_log.actions (code, description) values ('thing_done', 'A thing was done');
        update audit_log.actions set description = 'Done' where code = 'thing_done';
        create table public.things (organization text, name text);
        ${logAs("organization")}
        ${logAs("organization")}
        ${logAs("name")}
        drop function audit_log_private.logged_things() cascade;
        create or replace function audit_log_private.quota() returns integer language sql as 'select 7';
        update audit_log_private.upkeep_state set started_at = null;
        select audit_log_private.run_upkeep();
        delete from audit_log.actions where code = 'thing_done';`);
      const rows = await run`
        select concat_ws(' ', coalesce(who, 'the upkeep'), what, before is not null, after is not null) as change
        from audit_log_private.setting_changes where id > ${last} order by id`;
      assertEquals(rows.map(({ change }) => change), [
        "postgres action thing_done f t",
        "postgres action thing_done t t",
        "postgres logged table logged_things f t",
        "postgres logged table logged_things t t",
        "the upkeep function quota t t",
        "the upkeep logged table logged_things t f",
        "postgres action thing_done t f",
      ]);
    });
  });

  it("cannot be written with the secret key, nor changed or emptied by the owner", async () => {
    const { id } = await newLog();
    await hold(id, "Matter 7");
    const table = "audit_log_private.setting_changes";
    const changes = [`update ${table} set who = 'x'`, `delete from ${table}`, `truncate ${table}`];
    for (const change of [...changes, "truncate audit_log_private.holds"]) {
      assertEquals(await codeOf(sql.unsafe(change)), "42501", change);
    }
    await rolledBack(sql, async (run) => {
      await run`set local role service_role`;
      const forged = run.unsafe(`insert into ${table} (what) values ('x')`);
      assertEquals(await codeOf(forged), "42501");
    });
    assertEquals((await settingsOf(id)).length, 1);
    await release(id, "Matter 7");
  });
});

/** Reads all rows of an organization, by table. */
async function rowsOf(id: string): Promise<Record<string, string[]>> {
  const tables = await sql`
    select a.attrelid::regclass::text as name, a.attname as column
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private')
      -- The operator's: it outlives organizations.
      and c.relname <> 'setting_changes'
      and a.attname = case c.oid when 'audit_log.organizations'::regclass then 'id' else 'organization_id' end`;
  const rows: Record<string, string[]> = {};
  for (const { name, column } of tables) {
    const query = `select t::text as row from ${name} as t where ${column} = $1 order by 1`;
    rows[name] = (await sql.unsafe(query, [id])).map(({ row }) => row);
  }
  return rows;
}

async function assertGone(id: string): Promise<void> {
  for (const [table, rows] of Object.entries(await rowsOf(id))) assertEquals(rows, [], table);
}

/** Makes an organization that has rows in every table. */
async function fullOrganization(): Promise<Organization> {
  const organization = await newOrganization(admin);
  const { id, apiKeyId, token } = organization;
  await insertEntries(sql, id, "2020-01-01", 30);
  await runUpkeep(sql);
  for (const day of ["2020-01-02", "9999-12-31"]) await insertEntries(sql, id, day, 30);
  await getPage(token, ALL_DAYS);
  await call(admin, "rotate_api_key", { organization_id: id, api_key_id: apiKeyId });
  await call(admin, "read_audit_log", { organization_id: id, query: SEALED_DAYS });
  await sql`insert into audit_log_private.days_to_seal values (${id}, '2020-01-02')`;
  await hold(id, "Matter 6");
  await release(id, "Matter 6");
  const stream = { name: "SIEM", destination: { kind: "webhook", url: "https://example.com" } };
  await call(admin, "create_stream", { organization_id: id, stream });
  await sql`
    with stream as (
      update audit_log_private.streams set batch_what = 'test', batch_entries = 1 where organization_id = ${id}
      returning organization_id, id
    )
    insert into audit_log_private.set_aside_entries (organization_id, stream_id, created_at, entry_id, set_aside_at)
    select organization_id, id, now(), id, now() from stream`;
  await sql`
    select audit_log_private.note_attempt(s, '{"decision": "wait"}') from audit_log_private.streams s
    where organization_id = ${id}`;
  return organization;
}

describe("delete_organization()", () => {
  it("empties every table of an organization and of no other, in the loop of docs/operating.md", async () => {
    const [other, { id }] = [await fullOrganization(), await fullOrganization()];
    const before = await rowsOf(id);
    assertEquals(Object.keys(before).length, 18);
    for (const [table, rows] of Object.entries(before)) assert(rows.length > 0, table);
    const others = await rowsOf(other.id);
    await deleteOrganization(sql, id);
    await assertGone(id);
    assertEquals(await rowsOf(other.id), others);
    assertEquals(await refusalOf(deletePiece(sql, id)), `P0002 there is no organization ${id}`);
  });

  it("leaves nothing of a person, an entry or a key in the statistics, which nobody has while it is there either", async () => {
    // Columns with texts, JSON or addresses of the network that Postgres keeps statistics of, also where an index has an
    // expression of them.
    const shown = await sql`
      select concat_ws('.', c.relname, a.attname) as name from pg_attribute a
      join pg_class c on c.oid = a.attrelid
      join pg_type t on t.oid = a.atttypid
      left join pg_index i on i.indexrelid = c.oid
      where c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private') and a.attnum > 0
        and not a.attisdropped and a.attstattarget is distinct from 0
        and (c.relkind = 'r' or c.relkind = 'i' and i.indkey[a.attnum - 1] = 0)
        and (t.typcategory in ('S', 'I') or t.typname = 'jsonb')
        and a.attname not in ('action', 'code')
      order by 1`;
    assertEquals(shown.map(({ name }) => name), []);
  });

  it("ends all access with its first piece, and then deletes 10,000 entries at a time", async () => {
    const { id, token } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 2 * PIECE + 1);
    assert(await deletePiece(sql, id));
    await getProblem(401, token);
    const { error } = await admin.client.rpc("list_api_keys", { organization_id: id });
    assertEquals(error?.code, "42501");
    // As where the platform's own tables say who administers it.
    const code = await rolledBack(sql, async (run) => {
      await run`
        insert into audit_log.organization_members (organization_id, user_id, role)
        values (${id}, ${admin.id}, 'admin')`;
      await actAs(run, { sub: admin.id });
      return await codeOf(run`select audit_log.list_api_keys(${id})`);
    });
    assertEquals(code, "42501");
    const left = [await entriesOf(id)];
    while (await deletePiece(sql, id)) left.push(await entriesOf(id));
    assertEquals(left, [2 * PIECE + 1, PIECE + 1, 1]);
  });

  it("ends even while the upkeep and writers run. The writers' next entries are refused and told why", async () => {
    const { id } = await fullOrganization();
    await beside([() => runUpkeep(sql)], async () => {
      const writers = Array.from({ length: 4 }, async () => {
        for (;;) await insertEntries(sql, id, "2020-01-03", 1);
      });
      const refusals = Promise.all(writers.map(refusalOf));
      while (await deletePiece(sql, id));
      // The second, if a writer slept through all of it.
      const why = new RegExp(`^23503 .*${id}, which is (being deleted|not in the table)`);
      for (const refusal of await refusals) assertMatch(refusal, why);
    });
    await assertGone(id);
  });

  it("gives up after 5 seconds if a writer does not commit, so that the upkeep can go on. The next call deletes what was written", async () => {
    const { id } = await newLog();
    await sql.begin(async (writer) => {
      await insertEntries(writer, id, "2020-01-01", 1);
      assert(await deletePiece(sql, id));
      assertEquals(await codeOf(deletePiece(sql, id)), "55P03");
      await runUpkeep(sql);
    });
    await deleteOrganization(sql, id);
    await assertGone(id);
  });

  it("is the only way to delete an organization with entries or seals, and seals cannot be changed", async () => {
    const { id } = await newLog({});
    const byPlatform = client("service_role").from("organizations").delete().eq("id", id);
    const deletion = "delete from audit_log.organizations where id = $1";
    assertEquals(await codeOf(sql.unsafe(deletion, [id])), "23503");
    await runUpkeep(sql);
    await deleteEntriesBefore(sql, id, "2026-04-01");
    const attempts = [
      ["23503", deletion],
      ["42501", "delete from audit_log_private.seals where organization_id = $1"],
      ["42501", "update audit_log_private.seals set entries = 0 where organization_id = $1"],
    ] as const;
    for (const [code, attempt] of attempts) {
      for (const checked of ["immediate", "deferred"]) {
        const change = sql.begin(async (transaction) => {
          await transaction.unsafe(`set constraints all ${checked}`);
          await transaction.unsafe(attempt, [id]);
        });
        assertEquals(await codeOf(change), code, attempt);
      }
    }
    assertEquals((await byPlatform).error?.code, "42501");
    assertEquals(await codeOf(sql`truncate audit_log_private.seals`), "42501");
  });
});
