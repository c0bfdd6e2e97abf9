// Needs a stack.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  actAs,
  addOrganization,
  ALL_DAYS,
  assertExact,
  beside,
  call,
  client,
  codeOf,
} from "../helpers/mod.ts";
import { deleteEntriesBefore, entriesOf, getPage, getProblem } from "../helpers/mod.ts";
import { insertEntries, newLog, newOrganization, type Organization } from "../helpers/mod.ts";
import {
  pageQuery,
  pidOf,
  PIECE,
  refusalOf,
  rolledBack,
  type Run,
  runUpkeep,
  signUp,
} from "../helpers/mod.ts";
import { somebodyWaitsFor, sql, valueOf } from "../helpers/mod.ts";

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

async function hold(id: string, reason: string | null): Promise<void> {
  await sql`update audit_log.organizations set hold_reason = ${reason} where id = ${id}`;
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
  it("stops retention and both deletion functions until its reason is null, and their error has the reason", async () => {
    const log = await newLog();
    const { id } = log;
    await insertEntries(sql, id, "2020-01-01", 2);
    await hold(id, "Matter 7");
    await sql`update audit_log.organizations set keep_days = 1 where id = ${id}`;
    for (const remove of [deleteEntries, deletePiece]) {
      const refusal =
        `55006 organization ${id} is on hold, so nothing of it may be deleted: Matter 7`;
      assertEquals(await refusalOf(remove(sql, id)), refusal);
    }
    await runUpkeep(sql);
    await assertExact(log, 4);
    await hold(id, null);
    await runUpkeep(sql);
    await assertExact(log, 3);
  });

  it("also stops a deletion that has begun, and is not logged then, because nobody reads the log any more", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2020-01-01", 2);
    assert(await deletePiece(sql, id));
    await hold(id, "Matter 7");
    assertEquals(await codeOf(deletePiece(sql, id)), "55006");
    assertEquals(await entriesOf(id), 2);
    await hold(id, null);
    await deleteOrganization(sql, id);
    await assertGone(id);
  });

  it("is shown to administrators and auditors beside the seals", async () => {
    const { id } = await newOrganization(admin);
    const shown = async () => {
      const given = { organization_id: id, query: SEALED_DAYS };
      return (await call<{ hold_reason: string | null }>(admin, "list_seals", given)).hold_reason;
    };
    assertEquals(await shown(), null);
    await hold(id, "Matter 7");
    assertEquals(await shown(), "Matter 7");
  });

  it("has a reason of at most 200 characters that can be seen. The secret key can neither set nor end it, nor set keep_days", async () => {
    const { id } = await newLog();
    for (const reason of ["", " ", "x".repeat(201)]) {
      assertEquals(await codeOf(hold(id, reason)), "23514");
    }
    await hold(id, "Matter 7");
    for (const change of [{ hold_reason: "x" }, { hold_reason: null }, { keep_days: 1 }]) {
      const table = platform.from("organizations");
      const external_id = crypto.randomUUID();
      for (
        const refused of [
          table.update(change).eq("id", id),
          table.upsert({ id, name: "Acme", ...change }),
          table.insert({ external_id, name: "Acme", ...change }),
        ]
      ) assertEquals((await refused).error?.code, "42501", JSON.stringify(change));
    }
    assertEquals(await codeOf(deleteEntries(sql, id)), "55006");
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
    await hold(id, null);

    await deletion`begin isolation level repeatable read`;
    await deletion`select from audit_log.organizations`;
    await hold(id, "Matter 7");
    assertEquals(await codeOf(deleteEntries(deletion, id)), "40001");
    await deletion`rollback`;
    deletion.release();
    const left = await sql`
      select action, count(*)::int as entries from audit_log.audit_entries where organization_id = ${id}
      group by action order by action`;
    assertEquals(left.map((row) => Object.values(row)), [["agent_added", 1], ["hold_changed", 3]]);
  });
});

describe("a change of retention or of a hold", () => {
  it("is an entry of the organization's own log, which says what it was before, and the role in the database or the person who changed it", async () => {
    const [{ id }, other] = [await newOrganization(admin), await newLog()];
    const update = async (values: Record<string, unknown>) => {
      await sql`update audit_log.organizations set ${sql(values)} where id = ${id}`;
    };
    await update({ keep_days: 365, name: "Not logged" });
    await update({ keep_days: 30, hold_reason: "Matter 7" });
    await update({ keep_days: 30, hold_reason: "Matter 8", logs_key_events: true });
    await update({ hold_reason: null });
    await sql.begin(async (run) => {
      const headers = JSON.stringify({ "x-forwarded-for": "203.0.113.7" });
      await run`select set_config('request.headers', ${headers}, true)`;
      await run`select set_config('request.jwt.claims', ${
        JSON.stringify({ sub: admin.id, email: admin.email })
      }, true)`;
      await run`update audit_log.organizations set keep_days = null where id = ${id}`;
    });
    const entries = await sql`
      select action, user_email, agent_name, data from audit_log.audit_entries
      where organization_id in (${id}, ${other.id}) order by created_at, id`;
    const owner = "unknown@invalid";
    const byOwner = { database_role: "postgres" };
    const caller = { id: admin.id, kind: "person", address: "203.0.113.7" };
    const changed = (action: string, user_email: string, changes: unknown, who: unknown) => ({
      ...{ action, user_email, agent_name: "Audit log settings" },
      data: { changes, ...Object(who) },
    });
    assertEquals(entries.map((entry) => ({ ...entry })), [
      changed("retention_changed", owner, { keep_days: [null, 365] }, byOwner),
      changed("retention_changed", owner, { keep_days: [365, 30] }, byOwner),
      changed("hold_changed", owner, { hold_reason: [null, "Matter 7"] }, byOwner),
      changed("hold_changed", owner, { hold_reason: ["Matter 7", "Matter 8"] }, byOwner),
      changed("hold_changed", owner, { hold_reason: ["Matter 8", null] }, byOwner),
      changed("retention_changed", admin.email, { keep_days: [30, null] }, { ...byOwner, caller }),
    ]);
  });

  it("adds its actions to the catalogue when it first happens, and fits into an entry whatever the reason is", async () => {
    await rolledBack(sql, async (run) => {
      const { id } = await addOrganization(run);
      // As in a database that has had none.
      const settings = ["hold_changed", "retention_changed"];
      await run`alter table audit_log.actions disable trigger change_action`;
      await run`delete from audit_log.actions where code = any (${settings})`;
      const codes = async () =>
        [
          ...await run`select code from audit_log.actions where code = any (${settings}) order by 1`,
        ].map(({ code }) => code);
      await run`update audit_log.organizations set name = 'Acme', hold_reason = null where id = ${id}`;
      assertEquals(await codes(), []);
      for (const reason of ["\u0001", "\u0002"].map((text) => `x${text.repeat(199)}`)) {
        await run`update audit_log.organizations set hold_reason = ${reason} where id = ${id}`;
      }
      assertEquals(await codes(), settings);
    });
  });
});

/** Reads all rows of an organization, by table. */
async function rowsOf(id: string): Promise<Record<string, string[]>> {
  const tables = await sql`
    select a.attrelid::regclass::text as name, a.attname as column
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private')
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
  await sql`delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2020-01-02'`;
  const stream = { name: "SIEM", destination: { kind: "webhook", url: "https://example.com" } };
  await call(admin, "create_stream", { organization_id: id, stream });
  await sql`
    with stream as (
      update audit_log_private.streams set batch_what = 'test', batch_entries = 1 where organization_id = ${id}
      returning organization_id, id
    )
    insert into audit_log_private.rejected_entries (organization_id, stream_id, created_at, entry_id, rejected_at)
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
