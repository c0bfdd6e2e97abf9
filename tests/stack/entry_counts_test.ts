import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  ACTIONS,
  addOrganization,
  assertExactNow,
  connect,
  countMismatches,
  errorOf,
  getPage,
  insertEntry,
  inTokyo,
  MESSAGE_DATA,
  newLog,
  type Organization,
  pick,
  type Random,
  randomFrom,
  rolledBack,
  runUpkeep,
  runUpkeepWithoutWaiting,
  sql,
} from "../helpers.ts";

const DAYS = ["2024-02-28", "2024-02-29", "2024-03-01", "2026-03-29", "2026-03-30"];

/** A past day. */
const NOON = { created_at: "2026-03-01T12:00:00Z" };

/** One statement that writes or deletes entries of several organizations, days and actions. */
async function randomStatement(
  transaction: postgres.TransactionSql,
  random: Random,
  organizations: Organization[],
): Promise<void> {
  if (random(4) === 0) {
    await transaction`
      delete from audit_log.audit_entries
      where organization_id = ${pick(random, organizations).id}
        and (created_at at time zone 'UTC')::date = ${pick(random, DAYS)}
        and action = ${pick(random, ACTIONS)}
        and extract(minute from created_at) < ${random(60)}`;
    return;
  }
  const rows = Array.from({ length: 1 + random(20) }, () => ({
    organization_id: pick(random, organizations).id,
    // A few milliseconds only, so that many entries share one; the edges of the day among them.
    created_at: `${pick(random, DAYS)}T${
      pick(random, ["00:00:00.000", "09:30:00.001", "09:45:00.00", "23:59:59.999"])
    }Z`,
    action: pick(random, ACTIONS),
    user_email: "ada@example.com",
    agent_name: "Assistant",
    data: MESSAGE_DATA,
  }));
  await transaction`insert into audit_log.audit_entries ${transaction(rows)}`;
}

class Rollback extends Error {}

/** A transaction of a few statements, some in savepoints; a third is rolled back. */
async function randomTransaction(random: Random, organizations: Organization[]): Promise<void> {
  await sql.begin(async (transaction) => {
    for (let i = 0; i <= random(3); i++) {
      await randomStatement(transaction, random, organizations);
      await transaction.savepoint(async (savepoint) => {
        await randomStatement(savepoint, random, organizations);
        if (random(2) === 0) throw new Rollback();
      }).catch(ignoreRollback);
    }
    if (random(3) === 0) throw new Rollback();
  }).catch(ignoreRollback);
}

function ignoreRollback(error: unknown): void {
  if (!(error instanceof Rollback)) throw error;
}

/** The parts that an organization's count of a day is made of. */
async function counts(organizationId: string): Promise<postgres.Row[]> {
  const rows = await sql`
    select day::text, action, writer_pid <> 0 as partial, entries::int
    from audit_log_private.entry_counts where organization_id = ${organizationId}
    order by day, action, writer_pid`;
  return [...rows];
}

describe("counts", () => {
  it("stay exact while transactions write, delete, roll back and compact at random", async () => {
    const organizations = [await newLog(), await newLog(), await newLog()];
    const writers = Array.from({ length: 6 }, async (_, seed) => {
      const random = randomFrom(seed);
      for (let i = 0; i < 12; i++) await randomTransaction(random, organizations);
    });
    let writing = true;
    const compactor = (async () => {
      while (writing) await runUpkeep(sql);
    })();
    const reader = (async () => {
      while (writing) await assertExactNow(organizations[0]?.id ?? "");
    })();
    await Promise.all(writers).finally(() => writing = false);
    await Promise.all([compactor, reader]);
    for (const { id } of organizations) assertEquals(await countMismatches(sql, id), []);
  });

  it("are the same, and so are pages, in a session of any time zone", async () => {
    const { id } = await newLog(
      { created_at: "2026-03-01T00:00:00Z" },
      { created_at: "2026-03-01T16:00:00Z" },
      { created_at: "2026-03-01T23:59:59.999Z" },
      { created_at: "2026-03-02T00:00:00Z" },
    );
    await inTokyo(async (session) => {
      // There, it is another day.
      await insertEntry(session, id, { created_at: "2026-03-01T23:30:00Z" });
      const [row] = await session`
        select page::json from audit_log_private.read_page(
          ${id}, ('2026-03-01', '2026-03-01', null, null, 2, 0, true, null)::audit_log.page_query
        )`;
      const { total, items } = row?.["page"];
      const times = items.map(({ created_at }: { created_at: string }) => created_at);
      assertEquals([total, times], [4, ["2026-03-01T23:59:59.999Z", "2026-03-01T23:30:00.000Z"]]);
      assertEquals(await countMismatches(session, id), []);
    });
  });

  it("are found by key, even where the planner would rather read all of them", async () => {
    // As for a table that was small when the plan was made. The plans of a new connection are its own.
    const connection = connect();
    await rolledBack(connection, async (transaction) => {
      for (const scan of ["indexscan", "indexonlyscan", "bitmapscan"]) {
        await transaction.unsafe(`set local enable_${scan} = off`);
      }
      await transaction`
        with organizations as (
          insert into audit_log.organizations (name) select 'Test' from generate_series(1, 20) returning id
        )
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
        select id, timestamptz '2026-03-01 00:30Z' + hour * interval '1 hour', 'agent_added', 'ada@example.com', 'x'
        from organizations, generate_series(0, 2) as hour`;
      const [read] = await transaction`
        select n_tup_ins::int as inserted, n_tup_upd::int as updated, seq_tup_read::int as others
        from pg_stat_xact_user_tables where relid = 'audit_log_private.entry_counts'::regclass`;
      assertEquals({ ...read }, { inserted: 20, updated: 40, others: 0 });
    });
    await connection.end();
  });
});

describe("a page of one action", () => {
  it("reads no entry of another", async () => {
    await rolledBack(sql, async (transaction) => {
      const { id } = await addOrganization(transaction);
      await transaction`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
        select ${id}, timestamptz '2026-03-01Z' + n * interval '1 second',
          case when n % 1000 = 999 then 'agent_added' else 'conversation_created' end, 'ada@example.com', 'x'
        from generate_series(1, 5000) as n`;
      const read = async () => {
        const [row] = await transaction`
          select (idx_tup_fetch + seq_tup_read)::int as entries from pg_stat_xact_user_tables
          where relid = 'audit_log.audit_entries'::regclass`;
        return row?.["entries"];
      };
      const before = await read();
      const [row] = await transaction`
        select entries from audit_log_private.read_page(
          ${id}, ('2026-03-01', '2026-03-31', 'agent_added', null, 100, 0, false, null)
        )`;
      assertEquals([row?.["entries"], await read() - before], [5, 5]);
    });
  });
});

describe("writers", () => {
  it("never wait for one another, even in one organization, day and action", async () => {
    const { id } = await newLog();
    await sql.begin(async (first) => {
      await insertEntry(first, id, NOON);
      await sql.begin(async (second) => {
        await second`set local lock_timeout = '1s'`;
        await insertEntry(second, id, NOON);
      });
      await insertEntry(first, id, NOON);
    });
    assertEquals(await countMismatches(sql, id), []);
    assertEquals((await counts(id)).map((row) => row["entries"]).sort(), [1, 2]);
  });

  it("update no count more than 64 times in one transaction: each update costs more than the one before", async () => {
    const { id } = await newLog();
    await sql.begin(async (transaction) => {
      for (let i = 0; i < 150; i++) await insertEntry(transaction, id, NOON);
    });
    assertEquals((await counts(id)).map((row) => row["entries"]).sort(), [22, 64, 64]);
    await sql.begin((transaction) => insertEntry(transaction, id, NOON));
    assertEquals(await countMismatches(sql, id), []);
    await runUpkeep(sql);
    assertEquals((await counts(id)).map((row) => row["entries"]), [151]);
    assertEquals(await countMismatches(sql, id), []);
  });

  it("are counted and checked the same, whatever their session has set", async () => {
    const { id } = await newLog();
    const connection = connect();
    await rolledBack(connection, async (session) => {
      await session.unsafe(`
        create schema hostile;
        create function hostile.wrong(integer, integer) returns integer language sql as 'select 0';
        create operator hostile.+ (leftarg = integer, rightarg = integer, function = hostile.wrong);
        create function hostile.never(text, text) returns boolean language sql as 'select false';
        create operator hostile.!~~ (leftarg = text, rightarg = text, function = hostile.never);
        create function hostile.date_trunc(text, timestamp) returns timestamp language sql as 'select now()::timestamp';
        create temporary table entry_counts (like audit_log_private.entry_counts);
        create domain pg_temp.integer as pg_catalog.int4 check (value < 0);
        set local search_path = hostile, pg_temp, pg_catalog, audit_log, audit_log_private;
        set local datestyle = 'SQL, DMY';
        set local timezone = 'Pacific/Kiritimati';
        set local audit_log_private.part = 'many'`);
      await insertEntry(session, id, { created_at: "2026-03-01T23:30:00Z" });
      assertEquals(await countMismatches(session, id), []);
      const [row] = await session`
        select day::pg_catalog.text, hours[24] as last_hour from audit_log_private.entry_counts where organization_id = ${id}`;
      assertEquals({ ...row }, { day: "01/03/2026", last_hour: 1 });
      const { message } = await errorOf(insertEntry(session, id, { user_email: "nobody" }));
      assertMatch(message, /user_email_is_address/);
    });
    await connection.end();
  });
});

describe("compact_entry_counts()", () => {
  it("leaves one row for each past day and action, and today as it is", async () => {
    const { id } = await newLog();
    const today = new Date().toISOString();
    const write = (created_at: string) =>
      sql.begin((transaction) => insertEntry(transaction, id, { created_at }));
    // Each connection of the pool is another backend, hence another part.
    await Promise.all(Array.from({ length: 8 }, () => write("2026-03-01T12:00:00Z")));
    await Promise.all(Array.from({ length: 8 }, () => write(today)));
    await runUpkeep(sql);
    const [past, ...rest] = await counts(id);
    assertEquals(past, { day: "2026-03-01", action: "agent_added", partial: false, entries: 8 });
    assert(rest.length > 1 && rest.every((row) => row["partial"]));
    assertEquals(await countMismatches(sql, id), []);
  });

  it("adds later parts to the compacted row, which stays when all is deleted and says how much was", async () => {
    const { id } = await newLog();
    const write = () => sql.begin((transaction) => insertEntry(transaction, id, NOON));
    await write();
    await runUpkeep(sql);
    await write();
    await runUpkeep(sql);
    assertEquals((await counts(id)).map((row) => row["entries"]), [2]);
    await sql`delete from audit_log.audit_entries where organization_id = ${id}`;
    await runUpkeep(sql);
    const rows = await sql`
      select entries, removed from audit_log_private.entry_counts where organization_id = ${id}`;
    assertEquals(rows.map(({ entries, removed }) => [entries, removed]), [[0, 2]]);
  });

  it("passes over an organization that is being deleted", async () => {
    const { id } = await newLog({});
    await sql`delete from audit_log.audit_entries where organization_id = ${id}`;
    await sql.begin(async (deleter) => {
      await deleter`select from audit_log.organizations where id = ${id} for update`;
      await runUpkeepWithoutWaiting();
      await deleter`delete from audit_log_private.entry_counts where organization_id = ${id}`;
      await deleter`delete from audit_log.organizations where id = ${id}`;
    });
    assertEquals(await counts(id), []);
  });
});

describe("entry_count_mismatches() and repair_entry_counts()", () => {
  it("find and mend counts that were changed by hand, while entries are written", async () => {
    const { id, token } = await newLog(
      ...DAYS.flatMap((day) =>
        ["09", "10", "10"].map((hour) => ({ created_at: `${day}T${hour}:00:00Z` }))
      ),
    );
    const [first = "", second = ""] = DAYS;
    await sql`delete from audit_log_private.entry_counts where organization_id = ${id} and day = ${first}`;
    await sql`
      update audit_log_private.entry_counts set entries = entries + 7, hours[11] = hours[11] - 2
      where organization_id = ${id} and day = ${second}`;
    const found = await countMismatches(sql, id);
    assertEquals(found.map(({ hour }) => hour).sort(), [10, 10, 9, null, null]);

    await sql.begin(async (writer) => {
      await insertEntry(writer, id, { created_at: `${second}T10:30:00Z` });
      const [row] = await sql`select audit_log_private.repair_entry_counts(${id})::int as repaired`;
      assertEquals(row?.["repaired"], 2);
    });
    assertEquals(await countMismatches(sql, id), []);
    const [again] = await sql`select audit_log_private.repair_entry_counts(${id})::int as repaired`;
    assertEquals(again?.["repaired"], 0);
    assertEquals((await getPage(token, "start=2024-01-01&end=2026-12-31")).total, 16);
  });

  it("find and mend the sum of a month", async () => {
    const { id } = await newLog({}, {});
    await runUpkeep(sql);
    await sql`
      update audit_log_private.monthly_entry_counts set entries = entries + 7 where organization_id = ${id}`;
    const [mismatch] = await countMismatches(sql, id);
    assertEquals([mismatch?.["hour"], mismatch?.["difference"]], [-1, "-7"]);
    await sql`select audit_log_private.repair_entry_counts(${id})`;
    assertEquals(await countMismatches(sql, id), []);
  });
});
