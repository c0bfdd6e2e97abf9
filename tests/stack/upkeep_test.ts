import { assert, assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import {
  connect,
  getPage,
  newOrganization,
  type Organization,
  runUpkeep,
  signUp,
  sql,
} from "../helpers.ts";

const admin = await signUp();

/** A piece of the upkeep takes at most so many partial counts. */
const PIECE = 1000;
const LOCK = "pg_advisory_xact_lock('private.entry_counts'::regclass::oid::bigint)";

/** An organization of which one connection has written two entries on each of so many days. */
async function organizationWithBacklog(days: number): Promise<Organization> {
  // What other tests have left would go into the pieces that are counted here.
  await runUpkeep(sql);
  const organization = await newOrganization(admin);
  await write(sql, organization, days);
  return organization;
}

/** Writes two entries, of one action each, on each of so many days from the year 2000 on. */
async function write(
  connection: postgres.ISql,
  { id }: Pick<Organization, "id">,
  days: number,
): Promise<void> {
  await connection`
    insert into public.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, timestamptz '2000-01-01 12:00Z' + day * interval '1 day', action, 'ada@example.com', 'Assistant'
    from generate_series(0, ${days}::int - 1) as day,
      unnest('{agent_added,feedback_given}'::public.audit_action[]) as action`;
}

/** How many partial counts an organization has. */
async function partialCounts({ id }: Organization): Promise<number> {
  const [row] = await sql`
    select count(*)::int as rows from private.entry_counts
    where organization_id = ${id} and writer_pid <> 0`;
  return row?.["rows"];
}

/** How many seals an organization has. */
async function seals({ id }: Organization, connection: postgres.ISql = sql): Promise<number> {
  const [row] = await connection`
    select count(*)::int as seals from private.seals where organization_id = ${id}`;
  return row?.["seals"];
}

/** How many partial counts of an organization no transaction holds. */
async function unlockedCounts({ id }: Organization): Promise<number> {
  const rows = await sql`
    select from private.entry_counts
    where organization_id = ${id} and writer_pid <> 0 for update skip locked`;
  return rows.length;
}

/** How many rows a connection has changed of late: its own transaction's, and what is not yet reported. */
async function changedRows(connection: postgres.ISql): Promise<number> {
  const [row] = await connection`
    select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as rows from pg_stat_xact_user_tables`;
  return row?.["rows"];
}

/** Fails unless an organization's counts are those of its entries, so many. */
async function assertExact(organization: Organization, entries: number): Promise<void> {
  const mismatches = await sql`select * from private.entry_count_mismatches(${organization.id})`;
  assertEquals(mismatches.length, 0);
  const page = await getPage(organization.token, "start=2000-01-01&end=2026-12-31&limit=1");
  assertEquals(page.total, entries);
}

async function pidOf(connection: postgres.ISql): Promise<number> {
  const [row] = await connection`select pg_backend_pid() as pid`;
  return row?.["pid"];
}

/** Resolves when a backend waits for a lock. */
async function waitsForLock(pid: number): Promise<void> {
  for (;;) {
    const [waiting] = await sql`select from pg_locks where pid = ${pid} and not granted`;
    if (waiting) return;
  }
}

describe("run_upkeep()", () => {
  it("takes at most 1000 partial counts and seals at most 200 days, until there is no more", async () => {
    const organization = await organizationWithBacklog(750);
    const pieces: { counts: number; seals: number }[] = [];
    for (let more = true; more;) {
      const before = {
        counts: await partialCounts(organization),
        seals: await seals(organization),
      };
      await sql.begin(async (piece) => {
        const [row] = await piece`select private.run_upkeep() as more`;
        more = row?.["more"];
        pieces.push({
          counts: before.counts - await unlockedCounts(organization),
          seals: await seals(organization, piece) - before.seals,
        });
      });
    }
    assertEquals(pieces.map(({ counts }) => counts).filter(Boolean), [PIECE, 500]);
    assert(pieces.every(({ seals }) => seals <= 200), JSON.stringify(pieces));
    assertEquals([await partialCounts(organization), await seals(organization)], [0, 750]);
    await assertExact(organization, 1500);
  });

  it("missed for three months leaves answers exact, and catches up in pieces of at most 5000 rows", async () => {
    const organization = await organizationWithBacklog(0);
    const others = await sql`
      insert into public.organizations (name) select 'Test' from generate_series(1, 14) returning id`;
    const ids = [organization.id, ...others.map(({ id }) => id)];
    // Connections come and go, each with counts of its own.
    const connections = await Promise.all([sql.reserve(), sql.reserve(), sql.reserve()]);
    for (const connection of connections) {
      for (const id of ids) await write(connection, { id }, 92);
      connection.release();
    }
    await assertExact(organization, 3 * 92 * 2);
    const before = await sql`select private.health() ->> 'oldest_unsealed_day' as day`;
    assertEquals(before[0]?.["day"], "2000-01-01");

    const changed: number[] = [];
    for (let more = true; more;) {
      await sql.begin(async (piece) => {
        const before = await changedRows(piece);
        const [row] = await piece`select private.run_upkeep() as more`;
        more = row?.["more"];
        changed.push(await changedRows(piece) - before);
      });
    }
    // As many seals as days.
    const [sealed] = await sql`
      select count(*)::int as seals from private.seals where organization_id in ${sql(ids)}`;
    assertEquals(sealed?.["seals"], ids.length * 92);
    assert(changed.length > 6 && changed.every((rows) => rows <= 5000), changed.join());
    await assertExact(organization, 3 * 92 * 2);
  });

  it("in the documented loop, makes a transaction of each piece", async () => {
    const organization = await organizationWithBacklog(1250);
    await runUpkeep(sql);
    const pieces = await sql`
      select count(*)::int as rows from private.entry_counts
      where organization_id = ${organization.id} and writer_pid = 0
      group by xmin::text order by min(day)`;
    assertEquals(pieces.map(({ rows }) => rows), [PIECE, PIECE, 500]);
    assertEquals(await partialCounts(organization), 0);
    await assertExact(organization, 2500);
  });

  it("twice at once shares the work, and stays exact", async () => {
    const organization = await organizationWithBacklog(1250);
    await Promise.all([runUpkeep(sql), runUpkeep(sql)]);
    assertEquals([await partialCounts(organization), await seals(organization)], [0, 1250]);
    await assertExact(organization, 2500);
  });

  it("killed between two pieces keeps what the first has done, for all to see", async () => {
    const organization = await organizationWithBacklog(1250);
    // A pool of its own: one does not recover from the end of a reserved connection.
    const pool = connect();
    const [first, upkeep, second] = await Promise.all([
      sql.reserve(),
      pool.reserve(),
      sql.reserve(),
    ]);
    // The upkeep waits for its first piece; then, behind it, the one who stops it before its second.
    await first.unsafe(`begin; select ${LOCK}`);
    const pid = await pidOf(upkeep);
    const killed = assertRejects(() => runUpkeep(upkeep));
    await waitsForLock(pid);
    const secondPid = await pidOf(second);
    const stopped = second.unsafe(`begin; select ${LOCK}`).execute();
    await waitsForLock(secondPid);
    await first`commit`;
    await stopped;
    assertEquals(await partialCounts(organization), 1500);
    await assertExact(organization, 2500);

    await second`select pg_terminate_backend(${pid})`;
    await killed;
    assert(await seals(organization) > 0);
    await second`commit`;
    for (const connection of [first, second]) connection.release();
    await pool.end({ timeout: 0 });
    assertEquals(await partialCounts(organization), 1500);
    await runUpkeep(sql);
    assertEquals(await partialCounts(organization), 0);
    await assertExact(organization, 2500);
  });

  it("killed within a piece leaves everything as before it", async () => {
    const organization = await organizationWithBacklog(750);
    const pool = connect();
    const upkeep = await pool.reserve();
    const pid = await pidOf(upkeep);
    await upkeep`begin`;
    await upkeep`select private.run_upkeep()`;
    assertEquals(await unlockedCounts(organization), 500);
    await sql`select pg_terminate_backend(${pid}, 5000)`;
    await pool.end({ timeout: 0 });
    assertEquals([await partialCounts(organization), await seals(organization)], [1500, 0]);
    await runUpkeep(sql);
    await assertExact(organization, 1500);
  });

  it("passes over all that a writer holds, however much, and ends", async () => {
    const [held, other] = [await organizationWithBacklog(0), await newOrganization(admin)];
    const writer = await sql.reserve();
    await write(writer, held, 750);
    await writer`begin`;
    await write(writer, held, 750);
    await write(sql, other, 10);

    const upkeep = await sql.reserve();
    await upkeep`set lock_timeout = '1s'`;
    await runUpkeep(upkeep);
    await upkeep`reset lock_timeout`;
    upkeep.release();
    assertEquals(await partialCounts(held), 1500);
    assertEquals(await partialCounts(other), 0);

    await writer`commit`;
    writer.release();
    await runUpkeep(sql);
    assertEquals(await partialCounts(held), 0);
    await assertExact(held, 3000);
    await assertExact(other, 20);
  });
});
