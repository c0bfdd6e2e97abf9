import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  assertExact,
  client,
  codeOf,
  entriesOf,
  errorOf,
  getPage,
  getProblem,
  insertEntries,
  killWithin,
  newLog,
  newOrganization,
  type Organization,
  pageQuery,
  pidOf,
  type Run,
  runUpkeep,
  signUp,
  somebodyWaitsFor,
  sql,
} from "../helpers.ts";

// The end of an organization, and what keeps its entries: holds.

const admin = await signUp();

/** A piece deletes at most so many entries. */
const PIECE = 10_000;
const ALL_DAYS = "start=0001-01-01&end=9999-12-31&limit=1";

/** One piece of retention, of all before February 2020. */
async function deleteEntries(run: Run, id: string): Promise<void> {
  await run`select audit_log_private.delete_entries_before(${id}, '2020-02-01')`;
}

/** One piece of the deletion of an organization; whether there is more. */
async function deleteOrganization(run: Run, id: string): Promise<boolean> {
  const [row] = await run`select audit_log_private.delete_organization(${id}) as more`;
  return row?.["more"];
}

/** Runs the loop of docs/operating.md that deletes an organization; not within a transaction. */
async function deleteAsDocumented(run: Run, id: string): Promise<void> {
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

describe("a hold", () => {
  it("refuses every deletion, naming itself, until the last one is released", async () => {
    const log = await newLog();
    const { id } = log;
    await insertEntries(sql, id, "2020-01-01", 2);
    await sql`update audit_log.organizations set keep_days = 1 where id = ${id}`;
    await hold(id, "Matter 7");
    await hold(id, "Matter 8");
    await release(id, "Matter 7");
    for (const remove of [deleteEntries, deleteOrganization]) {
      const { code, message } = await errorOf(remove(sql, id));
      assertEquals(code, "55006");
      assertStringIncludes(message, `organization ${id} is on hold`);
      assertEquals([message.includes("Matter 7"), message.includes("Matter 8")], [false, true]);
    }
    await runUpkeep(sql);
    await assertExact(log, 2);
    await release(id, "Matter 8");
    await runUpkeep(sql);
    await assertExact(log, 0);
  });

  it("is kept with who gave and who released it, and shown while it stands", async () => {
    const { id } = await newOrganization(admin);
    await hold(id, "Matter 7");
    await sql`select audit_log_private.hold(${id}, 'Matter 8')`;
    const shown = async () => {
      const query = pageQuery("2020-01-01", "2020-01-01");
      const { data } = await admin.client.rpc("list_seals", { organization_id: id, query })
        .throwOnError();
      const [row] = await sql`
        select array(
          select h ->> 'reason' from json_array_elements(audit_log_private.health() -> 'holds') as h
          where h ->> 'organization_id' = ${id}
        ) as reasons`;
      const { holds } = data as unknown as { holds: { reason: string; held_by: string }[] };
      assertEquals(holds.map(({ reason }) => reason), row?.["reasons"]);
      return holds.map(({ reason, held_by }) => `${reason}: ${held_by}`);
    };
    assertEquals(await shown(), ["Matter 7: Grace, Legal", "Matter 8: postgres"]);
    await release(id, "Matter 7");
    await hold(id, "Matter 7");
    assertEquals(await shown(), ["Matter 8: postgres", "Matter 7: Grace, Legal"]);
    const kept = await sql`
      select reason, released_by, released_at >= held_at as released from audit_log_private.holds
      where organization_id = ${id} order by held_at`;
    assertEquals(kept.map((row) => Object.values(row)), [
      ["Matter 7", "Hedy, Legal", true],
      ["Matter 8", null, null],
      ["Matter 7", null, null],
    ]);
  });

  it("is refused twice for one reason, without a reason, for no organization; and released twice", async () => {
    const { id } = await newLog();
    await hold(id, "Matter 7");
    const unknown = crypto.randomUUID();
    for (
      const [code, call, organization, reason] of [
        ["23505", hold, id, "Matter 7"],
        ["23514", hold, id, " "],
        ["23502", hold, id, null],
        ["P0002", hold, unknown, "Matter 7"],
        ["P0002", hold, null, "Matter 7"],
        ["P0002", release, id, "Matter 8"],
        ["P0002", release, id, null],
        ["P0002", release, unknown, "Matter 7"],
      ] as const
    ) assertEquals(await codeOf(call(organization, reason)), code);
    await release(id, "Matter 7");
    const { code, message } = await errorOf(release(id, "Matter 7"));
    assertEquals([code, message], ["P0002", `organization ${id} has no standing hold "Matter 7"`]);
  });

  it("waits for the piece of a deletion, and stops the next, also one with an older snapshot", async () => {
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

/** All rows of an organization, in every table that has rows of organizations. */
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

/** An organization that has rows in every table. */
async function fullOrganization(): Promise<Organization> {
  const organization = await newOrganization(admin);
  const { id, apiKeyId, token } = organization;
  await insertEntries(sql, id, "2020-01-01", 30);
  await runUpkeep(sql);
  for (const day of ["2020-01-02", "9999-12-31"]) await insertEntries(sql, id, day, 30);
  await getPage(token, ALL_DAYS);
  await admin.client.rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId })
    .throwOnError();
  const query = pageQuery("2020-01-01", "2020-01-01");
  await admin.client.rpc("read_audit_log", { organization_id: id, query }).throwOnError();
  await sql`insert into audit_log_private.days_to_seal values (${id}, '2020-01-02')`;
  await hold(id, "Matter 6");
  await release(id, "Matter 6");
  return organization;
}

describe("delete_organization()", () => {
  it("leaves nothing in any table and every row of others, in the loop of docs/operating.md", async () => {
    const [other, { id }] = [await fullOrganization(), await fullOrganization()];
    const before = await rowsOf(id);
    assertEquals(Object.keys(before).length, 13);
    for (const [table, rows] of Object.entries(before)) assert(rows.length > 0, table);
    const others = await rowsOf(other.id);
    await deleteAsDocumented(sql, id);
    await assertGone(id);
    assertEquals(await rowsOf(other.id), others);
    const { code, message } = await errorOf(deleteOrganization(sql, id));
    assertEquals([code, message], ["P0002", `there is no organization ${id}`]);
  });

  it("ends all access with its first piece, and then deletes 10,000 entries at a time", async () => {
    const { id, token } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 2 * PIECE + 1);
    assert(await deleteOrganization(sql, id));
    await getProblem(401, token);
    const { error } = await admin.client.rpc("list_api_keys", { organization_id: id });
    assertEquals(error?.code, "42501");
    const left = [await entriesOf(id)];
    while (await deleteOrganization(sql, id)) left.push(await entriesOf(id));
    assertEquals(left, [2 * PIECE + 1, PIECE + 1, 1]);
  });

  it("can be killed within any piece: the same statement deletes what is left", async () => {
    const { id, token } = await fullOrganization();
    const piece = (connection: Run) => deleteOrganization(connection, id);
    await killWithin(piece);
    assertEquals((await getPage(token, ALL_DAYS)).total, 90);
    await piece(sql);
    await killWithin(piece);
    assertEquals(await entriesOf(id), 90);
    assert((await rowsOf(id))["audit_log_private.seals"]?.length);
    await deleteAsDocumented(sql, id);
    await assertGone(id);
  });

  it("ends beside the upkeep and writers that go on, whose next entries are refused", async () => {
    const { id } = await fullOrganization();
    let deleting = true;
    const upkeep = (async () => {
      do await runUpkeep(sql); while (deleting);
    })();
    const writers = Array.from({ length: 4 }, async () => {
      for (;;) await insertEntries(sql, id, "2020-01-03", 1);
    });
    const refusals = Promise.all(writers.map(codeOf));
    while (await deleteOrganization(sql, id));
    deleting = false;
    assertEquals(await refusals, Array(4).fill("23503"));
    await upkeep;
    await assertGone(id);
  });

  it("waits for a writer that has not committed, and deletes what it wrote", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2020-01-01", 1);
    const [writer, deletion] = [await sql.reserve(), await sql.reserve()];
    await writer`begin`;
    await insertEntries(writer, id, "2020-01-01", 1);
    const pid = await pidOf(deletion);
    const deleted = deleteAsDocumented(deletion, id);
    // It sleeps between two attempts.
    const sleeps = async () => {
      while (
        !(await sql`select from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`)
          .length
      );
    };
    await Promise.race([deleted, sleeps()]);
    await writer`commit`;
    await deleted;
    for (const connection of [writer, deletion]) connection.release();
    await assertGone(id);
  });

  it("gives up after 5 seconds if a writer does not commit, because the upkeep waits for it", async () => {
    const { id } = await newLog();
    assert(await deleteOrganization(sql, id));
    const writer = await sql.reserve();
    await writer`begin`;
    await insertEntries(writer, id, "2020-01-01", 1);
    assertEquals(await codeOf(deleteOrganization(sql, id)), "55P03");
    await runUpkeep(sql);
    await writer`rollback`;
    writer.release();
    assertEquals(await deleteOrganization(sql, id), false);
  });

  it("is the only way for seals to go: neither one, nor the organization alone", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2020-01-01", 1);
    await runUpkeep(sql);
    await deleteEntries(sql, id);
    const one =
      sql`delete from audit_log_private.seals where organization_id = ${id} and sequence = 1`;
    assertEquals(await codeOf(one), "42501");
    const atTheEnd = sql.begin(async (transaction) => {
      await transaction`set constraints all deferred`;
      await transaction`delete from audit_log_private.seals where organization_id = ${id}`;
    });
    assertEquals(await codeOf(atTheEnd), "42501");
    const organizations = client("service_role").from("organizations");
    const { error } = await organizations.delete().eq("id", id);
    const byOwner = sql`delete from audit_log.organizations where id = ${id}`;
    assertEquals([error?.code, await codeOf(byOwner)], ["23503", "23503"]);
    assertEquals((await rowsOf(id))["audit_log_private.seals"]?.length, 1);
  });
});
