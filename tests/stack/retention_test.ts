import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  assertExact,
  assertExactNow,
  client,
  entriesOf,
  errorOf,
  getPage,
  getProblem,
  insertEntries,
  inTokyo,
  killWithin,
  letChecksGrowOld,
  newOrganization,
  type Organization,
  pageQuery,
  pidOf,
  type Run,
  runUpkeep,
  signUp,
  somebodyWaitsFor,
  sql,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

/** A piece deletes at most so many entries. */
const PIECE = 10_000;
const ALL_DAYS = "start=0001-01-01&end=9999-12-31&limit=1";

/** One piece of retention; whether there may be more. */
async function deleteEntriesBefore(run: Run, id: string, day: string): Promise<boolean> {
  const [row] =
    await run`select audit_log_private.delete_entries_before(${id}, ${day}::text::date) as more`;
  return row?.["more"];
}

/** Resolves when a backend sleeps: delete_organization does so between two attempts. */
async function sleeps(pid: number): Promise<void> {
  for (let rows = 0; rows === 0;) {
    const asleep = await sql`
      select from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep'`;
    rows = asleep.length;
  }
}

/** One piece of the deletion of an organization; whether there is more. */
async function deleteOrganization(run: Run, id: string): Promise<boolean> {
  const [row] = await run`select audit_log_private.delete_organization(${id}) as more`;
  return row?.["more"];
}

/** Runs a loop of docs/operating.md for an organization; not within a transaction. */
async function runDocumented(run: Run, call: string, id: string): Promise<void> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const statement = page.split("\n").find((line) => line.includes(`do $$`) && line.includes(call));
  if (!statement) throw new Error(`docs/operating.md has no loop of ${call}`);
  await run.unsafe(statement.replace("<organization id>", id));
}

/** What the seals of an organization declare, and its altered days, however often they are checked. */
async function sealed(id: string) {
  await runUpkeep(sql);
  await letChecksGrowOld(id);
  await runUpkeep(sql);
  const seals = await sql`
    select day::text, entries::int, added::int, removed::int from audit_log_private.seals
    where organization_id = ${id} order by sequence`;
  const altered = await sql`
    select day from audit_log_private.sealed_days where organization_id = ${id} and altered_at is not null`;
  assertEquals([...altered], []);
  return seals.map(({ day, entries, added, removed }) =>
    `${day}: ${entries} +${added} -${removed}`
  );
}

describe("delete_entries_before()", () => {
  it("deletes whole days, 10,000 entries at a time or of a longer day; totals are exact after each piece", async () => {
    const organization = await newOrganization(admin);
    const days = {
      "2020-01-01": 4000,
      "2020-01-05": 4000,
      "2020-02-01": 4000,
      "2020-02-02": 12000,
    };
    for (const [day, entries] of Object.entries(days)) {
      await insertEntries(sql, organization.id, day, entries);
    }
    await insertEntries(sql, organization.id, "2020-03-01", 10);
    const left: number[] = [];
    await inTokyo(async (session) => {
      for (let more = true; more;) {
        more = await deleteEntriesBefore(session, organization.id, "2020-03-01");
        left.push(await entriesOf(organization.id));
        await assertExact(organization, left.at(-1) ?? 0);
      }
    });
    assertEquals(left, [16010, 12010, 2010, 10, 10]);
    assertEquals(
      (await getPage(organization.token, ALL_DAYS)).items[0]?.created_at.slice(0, 10),
      "2020-03-01",
    );
  });

  it("in the documented loop, deletes of one organization all there is before the day", async () => {
    const [organization, other] = [await newOrganization(admin), await newOrganization(admin)];
    for (const { id } of [organization, other]) {
      await insertEntries(sql, id, "2019-12-31", PIECE + 1);
      await insertEntries(sql, id, "2020-01-01", 1);
    }
    await runDocumented(sql, "delete_entries_before", organization.id);
    await assertExact(organization, 1);
    await assertExact(other, PIECE + 2);
  });

  it("is declared by a new seal of each day", async () => {
    const { id } = await newOrganization(admin);
    for (const day of ["2020-01-01", "2020-01-02", "2020-01-03"]) {
      await insertEntries(sql, id, day, 3);
    }
    const first = ["2020-01-01: 3 +0 -0", "2020-01-02: 3 +0 -0", "2020-01-03: 3 +0 -0"];
    assertEquals(await sealed(id), first);
    await deleteEntriesBefore(sql, id, "2020-01-03");
    assertEquals(await sealed(id), [...first, "2020-01-01: 0 +0 -3", "2020-01-02: 0 +0 -3"]);
  });

  it("of half a day is declared as such, with late entries, and the day is never altered", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", PIECE + 5);
    await sealed(id);
    await deleteEntriesBefore(sql, id, "2020-02-01");
    await insertEntries(sql, id, "2020-01-01", 2);
    await sealed(id);
    await deleteEntriesBefore(sql, id, "2020-02-01");
    assertEquals(await sealed(id), [
      `2020-01-01: ${PIECE + 5} +0 -0`,
      `2020-01-01: 7 +2 -${PIECE}`,
      "2020-01-01: 0 +0 -7",
    ]);
  });

  it("of late entries, before a seal has them, is declared with as many added as removed", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 3);
    await sealed(id);
    await insertEntries(sql, id, "2020-01-01", 1);
    await deleteEntriesBefore(sql, id, "2020-02-01");
    assertEquals((await sealed(id)).at(-1), "2020-01-01: 0 +1 -4");
  });

  it("not yet committed is none to the seal of the same day; it is declared by the next", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 3);
    await sealed(id);
    await insertEntries(sql, id, "2020-01-01", 1);
    await sql.begin(async (piece) => {
      await deleteEntriesBefore(piece, id, "2020-02-01");
      assertEquals((await sealed(id)).at(-1), "2020-01-01: 4 +1 -0");
    });
    assertEquals((await sealed(id)).at(-1), "2020-01-01: 0 +0 -4");
  });

  it("beside writers, readers and the upkeep keeps every total exact and alters no day", async () => {
    const { id, token } = await newOrganization(admin);
    const days = Array.from({ length: 30 }, (_, n) => `2020-01-${String(n + 1).padStart(2, "0")}`);
    for (const day of days) await insertEntries(sql, id, day, 1000);
    await runUpkeep(sql);
    let deleting = true;
    const whileDeleting = async (run: () => Promise<void>) => {
      do await run(); while (deleting);
    };
    const snapshots = whileDeleting(() => assertExactNow(id));
    let written = 0;
    const writer = whileDeleting(async () => {
      await insertEntries(sql, id, "2020-02-01", 1);
      await insertEntries(sql, id, days[written++ % 30] ?? "", 1);
    });
    const upkeep = whileDeleting(() => runUpkeep(sql));
    // Two at once.
    await Promise.all([1, 2].map(async () => {
      while (await deleteEntriesBefore(sql, id, "2020-02-01"));
    }));
    deleting = false;
    await Promise.all([snapshots, writer, upkeep]);
    while (await deleteEntriesBefore(sql, id, "2020-02-01"));
    await assertExact({ id, token, apiKeyId: "" }, written);
    await sealed(id);
    assertEquals([...await sql`select * from audit_log_private.entry_count_mismatches(${id})`], []);
  });

  it("deletes what wrong counts do not know of, and ends where they know too much", async () => {
    const organization = await newOrganization(admin);
    await insertEntries(sql, organization.id, "2020-01-01", 3);
    await insertEntries(sql, organization.id, "2020-01-02", 3);
    await sql`
      update audit_log_private.entry_counts set entries = case day when '2020-01-01' then 0 else entries + 5 end
      where organization_id = ${organization.id}`;
    while (await deleteEntriesBefore(sql, organization.id, "2020-02-01"));
    assertEquals(await entriesOf(organization.id), 0);
  });

  it("reaches the year 0001, and leaves days that are still to come", async () => {
    const organization = await newOrganization(admin);
    await writeEntries(organization.id, [
      { created_at: "0001-01-01T00:00:00Z" },
      { created_at: "9999-12-31T23:59:59Z" },
    ]);
    assertEquals(await sealed(organization.id), ["0001-01-01: 1 +0 -0"]);
    const [today] = await sql`select (clock_timestamp() at time zone 'UTC')::date::text as day`;
    while (await deleteEntriesBefore(sql, organization.id, today?.["day"]));
    await assertExact(organization, 1);
    assertEquals(await sealed(organization.id), ["0001-01-01: 1 +0 -0", "0001-01-01: 0 +0 -1"]);
  });

  it("refuses no day, a day in the future and an unknown organization, and deletes nothing", async () => {
    const organization = await newOrganization(admin);
    await insertEntries(sql, organization.id, "2020-01-01", 1);
    const unknown = crypto.randomUUID();
    for (
      const [id, day, code, message] of [
        [organization.id, null, "22023", "entries before null cannot be deleted: give a day"],
        [organization.id, "9999-12-31", "22023", "entries before 9999-12-31 cannot be deleted"],
        [organization.id, "infinity", "22023", "entries before infinity cannot be deleted"],
        [unknown, "2020-02-01", "P0002", `there is no organization ${unknown}`],
        [null, "2020-02-01", "P0002", "there is no organization null: give its id"],
      ] as const
    ) {
      const error = await errorOf(
        sql`select audit_log_private.delete_entries_before(${id}, ${day}::text::date)`,
      );
      assertEquals(error.code, code);
      assertStringIncludes(error.message, message);
    }
    assertEquals(await deleteEntriesBefore(sql, organization.id, "-infinity"), false);
    await assertExact(organization, 1);
  });

  it("leaves its space to what is written next: ten rounds take that of one", async () => {
    const { id } = await newOrganization(admin);
    const size = async () => {
      await sql`vacuum audit_log.audit_entries`;
      const [row] =
        await sql`select pg_total_relation_size('audit_log.audit_entries')::int as bytes`;
      return row?.["bytes"];
    };
    const empty = await size();
    const sizes: number[] = [];
    for (let round = 1; round <= 10; round++) {
      await insertEntries(sql, id, `2020-01-${String(round).padStart(2, "0")}`, PIECE);
      sizes.push(await size() - empty);
      while (await deleteEntriesBefore(sql, id, "2020-02-01"));
    }
    const [first = 0, last = 0] = [sizes[0], sizes.at(-1)];
    assert(last <= 1.5 * first, `${sizes} bytes after each round`);
  });
});

/** Says after how many days the upkeep deletes an organization's entries, as the owner does. */
async function keepDays(id: string, days: number | null): Promise<void> {
  await sql`update audit_log.organizations set keep_days = ${days} where id = ${id}`;
}

/** The UTC day so many days ago. */
async function daysAgo(days: number): Promise<string> {
  const [row] =
    await sql`select ((clock_timestamp() at time zone 'UTC')::date - ${days}::int)::text as day`;
  return row?.["day"];
}

describe("scheduled retention", () => {
  it("deletes what is more than keep_days old, and one run of the upkeep declares it with seals", async () => {
    const [organization, other] = [await newOrganization(admin), await newOrganization(admin)];
    const [kept, expired] = [await daysAgo(30), await daysAgo(31)];
    for (const { id } of [organization, other]) {
      await insertEntries(sql, id, "2020-01-01", PIECE + 1);
      await insertEntries(sql, id, expired, 2);
      await insertEntries(sql, id, kept, 3);
    }
    const first = [`2020-01-01: ${PIECE + 1} +0 -0`, `${expired}: 2 +0 -0`, `${kept}: 3 +0 -0`];
    assertEquals(await sealed(organization.id), first);
    await keepDays(organization.id, 30);
    await runUpkeep(sql);
    await assertExact(organization, 3);
    const declared = [`2020-01-01: 0 +0 -${PIECE + 1}`, `${expired}: 0 +0 -2`];
    assertEquals(await sealed(organization.id), [...first, ...declared]);
    await assertExact(other, PIECE + 6);
  });

  it("takes neither 0 nor -1 days; null, which is the default, keeps all", async () => {
    const organization = await newOrganization(admin);
    await insertEntries(sql, organization.id, "0001-01-01", 1);
    for (const days of [0, -1, 36_501]) {
      assertEquals((await errorOf(keepDays(organization.id, days))).code, "23514");
    }
    await keepDays(organization.id, 1);
    await keepDays(organization.id, null);
    await runUpkeep(sql);
    await assertExact(organization, 1);
  });

  it("cannot be set with the secret key, which must not be able to delete entries", async () => {
    const { id } = await newOrganization(admin);
    const organizations = client("service_role").from("organizations");
    const { error } = await organizations.update({ keep_days: 1 }).eq("id", id);
    const inserted = await organizations.insert({ name: "Test", keep_days: 1 });
    assertEquals([error?.code, inserted.error?.code], ["42501", "42501"]);
  });

  it("waits for no other deletion in the organization", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 1);
    await keepDays(id, 1);
    await sql.begin(async (deletion) => {
      await deleteEntriesBefore(deletion, id, "2019-01-01");
      await runUpkeep(sql);
      assertEquals(await entriesOf(id), 1);
    });
    await runUpkeep(sql);
    assertEquals(await entriesOf(id), 0);
  });
});

async function hold(id: string | null, reason: string | null): Promise<void> {
  await sql`select audit_log_private.hold(${id}, ${reason}, 'Grace, Legal')`;
}

async function release(id: string | null, reason: string | null): Promise<void> {
  await sql`select audit_log_private.release(${id}, ${reason}, 'Hedy, Legal')`;
}

describe("a hold", () => {
  it("refuses every deletion, naming itself, until the last one is released", async () => {
    const organization = await newOrganization(admin);
    const { id } = organization;
    await insertEntries(sql, id, "2020-01-01", 2);
    await keepDays(id, 1);
    await hold(id, "Matter 7");
    await hold(id, "Matter 8");
    await release(id, "Matter 7");
    const deletions = [
      () => deleteEntriesBefore(sql, id, "2020-02-01"),
      () => deleteOrganization(sql, id),
    ];
    for (const run of deletions) {
      const error = await errorOf(run());
      assertEquals(error.code, "55006");
      assertStringIncludes(error.message, `organization ${id} is on hold`);
      assertStringIncludes(error.message, "Matter 8");
      assert(!error.message.includes("Matter 7"));
    }
    const { error } = await client("service_role").from("organizations").delete().eq("id", id);
    assertEquals(error?.code, "23503");
    await runUpkeep(sql);
    await assertExact(organization, 2);
    await release(id, "Matter 8");
    await runUpkeep(sql);
    await assertExact(organization, 0);
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
    const { id } = await newOrganization(admin);
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
    ) {
      assertEquals((await errorOf(call(organization, reason))).code, code);
    }
    await release(id, "Matter 7");
    const error = await errorOf(release(id, "Matter 7"));
    assertEquals(error.code, "P0002");
    assertEquals(error.message, `organization ${id} has no standing hold "Matter 7"`);
  });

  it("waits for the piece of a deletion, and stops the next, also one with an older snapshot", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", PIECE + 1);
    const deletion = await sql.reserve();
    await deletion`begin`;
    await deleteEntriesBefore(deletion, id, "2020-02-01");
    const holding = hold(id, "Matter 7");
    await Promise.race([holding, somebodyWaitsFor(sql, await pidOf(deletion))]);
    await deletion`commit`;
    await holding;
    assertEquals((await errorOf(deleteEntriesBefore(deletion, id, "2020-02-01"))).code, "55006");
    await release(id, "Matter 7");

    await deletion`begin isolation level repeatable read`;
    await deletion`select from audit_log_private.holds`;
    await hold(id, "Matter 7");
    assertEquals((await errorOf(deleteEntriesBefore(deletion, id, "2020-02-01"))).code, "40001");
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

/** An organization that has rows in every table. */
async function fullOrganization(): Promise<Organization> {
  const organization = await newOrganization(admin);
  const { id, apiKeyId, token } = organization;
  await insertEntries(sql, id, "2020-01-01", 30);
  await runUpkeep(sql);
  await insertEntries(sql, id, "2020-01-02", 30);
  await insertEntries(sql, id, "9999-12-31", 30);
  await getPage(token, ALL_DAYS);
  await admin.client.rpc("rotate_api_key", { organization_id: id, api_key_id: apiKeyId })
    .throwOnError();
  await admin.client.rpc("read_audit_log", {
    organization_id: id,
    query: pageQuery("2020-01-01", "2020-01-01"),
  }).throwOnError();
  await sql`insert into audit_log_private.days_to_seal values (${id}, '2020-01-02')`;
  await sql`select audit_log_private.hold(${id}, 'Matter 6'), audit_log_private.release(${id}, 'Matter 6')`;
  return organization;
}

describe("delete_organization()", () => {
  it("in the documented loop, leaves nothing in any table, and every row of others", async () => {
    const [other, { id }] = [await fullOrganization(), await fullOrganization()];
    const before = await rowsOf(id);
    assertEquals(Object.keys(before).length, 13);
    for (const [table, rows] of Object.entries(before)) {
      assert(rows.length > 0, `no row in ${table}`);
    }
    const others = await rowsOf(other.id);
    await runDocumented(sql, "delete_organization", id);
    for (const [table, rows] of Object.entries(await rowsOf(id))) assertEquals(rows, [], table);
    assertEquals(await rowsOf(other.id), others);
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

  it("killed within any piece leaves what is left to the same statement", async () => {
    const { id, token } = await fullOrganization();
    const piece = (connection: Run) => deleteOrganization(connection, id);
    await killWithin(piece);
    assertEquals((await getPage(token, ALL_DAYS)).total, 90);
    await piece(sql);
    await killWithin(piece);
    assertEquals(await entriesOf(id), 90);
    assert((await rowsOf(id))["audit_log_private.seals"]?.length);
    await runDocumented(sql, "delete_organization", id);
    assertEquals(Object.values(await rowsOf(id)).flat(), []);
  });

  it("beside a writer and the upkeep ends, and the writer is refused from then on", async () => {
    const { id } = await fullOrganization();
    let deleting = true;
    const upkeep = (async () => {
      do await runUpkeep(sql); while (deleting);
    })();
    const writer = (async () => {
      for (;;) await insertEntries(sql, id, "2020-01-03", 2);
    })();
    const refused = errorOf(writer);
    while (await deleteOrganization(sql, id));
    deleting = false;
    assertEquals((await refused).code, "23503");
    await upkeep;
    assertEquals(Object.values(await rowsOf(id)).flat(), []);
  });

  it("waits for a writer that has not committed, and deletes what it wrote", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 1);
    const writer = await sql.reserve();
    await writer`begin`;
    await insertEntries(writer, id, "2020-01-01", 1);
    const deletion = await sql.reserve();
    const pid = await pidOf(deletion);
    const deleted = runDocumented(deletion, "delete_organization", id);
    await Promise.race([deleted, sleeps(pid)]);
    await writer`commit`;
    await deleted;
    for (const connection of [writer, deletion]) connection.release();
    assertEquals(Object.values(await rowsOf(id)).flat(), []);
  });

  it("ends beside writers that go on, whose next entries are refused", async () => {
    const { id } = await newOrganization(admin);
    let isWriting = true;
    const writers = Array.from({ length: 4 }, async () => {
      while (isWriting) {
        await insertEntries(sql, id, "2020-01-01", 1).catch(() => isWriting = false);
      }
    });
    while (await deleteOrganization(sql, id));
    await Promise.all(writers);
    assertEquals(Object.values(await rowsOf(id)).flat(), []);
  });

  it("gives up after 5 seconds if a writer does not commit, because the upkeep waits for it", async () => {
    const { id } = await newOrganization(admin);
    assert(await deleteOrganization(sql, id));
    const writer = await sql.reserve();
    await writer`begin`;
    await insertEntries(writer, id, "2020-01-01", 1);
    assertEquals((await errorOf(deleteOrganization(sql, id))).code, "55P03");
    await runUpkeep(sql);
    await writer`rollback`;
    writer.release();
    assertEquals(await deleteOrganization(sql, id), false);
  });

  it("is the only way for seals to go: neither one, nor the organization alone", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 1);
    await runUpkeep(sql);
    await deleteEntriesBefore(sql, id, "2020-02-01");
    const one =
      sql`delete from audit_log_private.seals where organization_id = ${id} and sequence = 1`;
    assertEquals((await errorOf(one)).code, "42501");
    const atTheEnd = sql.begin(async (transaction) => {
      await transaction`set constraints all deferred`;
      await transaction`delete from audit_log_private.seals where organization_id = ${id}`;
    });
    assertEquals((await errorOf(atTheEnd)).code, "42501");
    const organization = sql`delete from audit_log.organizations where id = ${id}`;
    assertEquals((await errorOf(organization)).code, "23503");
    assertEquals((await rowsOf(id))["audit_log_private.seals"]?.length, 1);
  });

  it("says so when there is no such organization, as after its last piece", async () => {
    const { id } = await newOrganization(admin);
    while (await deleteOrganization(sql, id));
    const error = await errorOf(deleteOrganization(sql, id));
    assertEquals([error.code, error.message], ["P0002", `there is no organization ${id}`]);
  });
});
