import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  assertExact,
  killWithin,
  newLog,
  type Organization,
  pidOf,
  type Run,
  runUpkeep,
  runUpkeepWithoutWaiting,
  somebodyWaitsFor,
  sql,
} from "../helpers.ts";

/** An organization of which one connection has written two entries on each of so many days. */
async function organizationWithBacklog(days: number): Promise<Organization> {
  // What other tests have left would go into the pieces that are counted here.
  await runUpkeep(sql);
  const organization = await newLog();
  await write(sql, organization.id, days);
  return organization;
}

/** Writes two entries, of one action each, on each of so many days from the year 2000 on. */
async function write(run: Run, id: string, days: number): Promise<void> {
  await run`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, timestamptz '2000-01-01 12:00Z' + day * interval '1 day', action, 'ada@example.com', 'Assistant'
    from generate_series(0, ${days}::int - 1) as day,
      unnest('{agent_added,feedback_given}'::text[]) as action`;
}

/** How many partial counts and sealed days an organization has, and its last seal's number. */
async function left({ id }: Organization) {
  const [row] = await sql`
    select count(distinct day)::int as days, coalesce(max(sequence), 0)::int as "lastSeal", (
      select count(*)::int from audit_log_private.entry_counts where organization_id = ${id} and writer_pid <> 0
    ) as counts
    from audit_log_private.seals where organization_id = ${id}`;
  return { ...row };
}

/** How many rows a connection has changed of late: its own transaction's, and what is not yet reported. */
async function changedRows(run: Run): Promise<number> {
  const [row] = await run`
    select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as rows from pg_stat_xact_user_tables`;
  return row?.["rows"];
}

describe("run_upkeep()", () => {
  it("missed for three months leaves answers exact, and catches up in pieces of at most 5000 rows", async () => {
    const organization = await organizationWithBacklog(0);
    const others = await sql`
      insert into audit_log.organizations (name) select 'Test' from generate_series(1, 14) returning id`;
    const ids = [organization.id, ...others.map(({ id }) => id)];
    // Connections come and go, each with counts of its own.
    const connections = await Promise.all([sql.reserve(), sql.reserve(), sql.reserve()]);
    for (const connection of connections) {
      for (const id of ids) await write(connection, id, 92);
      connection.release();
    }
    await assertExact(organization, 3 * 92 * 2);
    const before = await sql`select audit_log_private.health() ->> 'oldest_unsealed_day' as day`;
    assertEquals(before[0]?.["day"], "2000-01-01");

    const changed: number[] = [];
    for (let more = true; more;) {
      await sql.begin(async (piece) => {
        const before = await changedRows(piece);
        const [row] = await piece`select audit_log_private.run_upkeep() as more`;
        more = row?.["more"];
        changed.push(await changedRows(piece) - before);
      });
    }
    // As many seals as days.
    const [sealed] = await sql`
      select count(*)::int as seals from audit_log_private.seals where organization_id in ${
      sql(ids)
    }`;
    assertEquals(sealed?.["seals"], ids.length * 92);
    assert(changed.length > 6 && changed.every((rows) => rows <= 5000), changed.join());
    await assertExact(organization, 3 * 92 * 2);
  });

  it("runs in a transaction for each piece, and twice at once shares the work and makes each seal once", async () => {
    const organization = await organizationWithBacklog(1250);
    await runUpkeep(sql);
    const transactions = async (table: string, where: string) => {
      const rows = await sql.unsafe(`
        select count(*)::int as rows from audit_log_private.${table}
        where organization_id = '${organization.id}' and ${where} group by xmin::text order by min(day)`);
      return rows.map(({ rows }) => rows as number);
    };
    assertEquals(await transactions("entry_counts", "writer_pid = 0"), [1000, 1000, 500]);
    assert((await transactions("seals", "true")).every((seals) => seals <= 200));
    const shared = await organizationWithBacklog(1250);
    await Promise.all([runUpkeep(sql), runUpkeep(sql)]);
    for (const each of [organization, shared]) {
      assertEquals(await left(each), { counts: 0, days: 1250, lastSeal: 1250 });
      await assertExact(each, 2500);
    }
  });

  it("killed within a piece leaves everything as before it, and goes on from there", async () => {
    const organization = await organizationWithBacklog(750);
    await killWithin(async (piece) => {
      const before = await changedRows(piece);
      await piece`select audit_log_private.run_upkeep()`;
      assert(await changedRows(piece) - before >= 1000);
    });
    assertEquals(await left(organization), { counts: 1500, days: 0, lastSeal: 0 });
    await runUpkeep(sql);
    assertEquals(await left(organization), { counts: 0, days: 750, lastSeal: 750 });
    await assertExact(organization, 1500);
  });

  it("keeps no late entry waiting while it seals a day, however long that takes", async () => {
    const organization = await organizationWithBacklog(0);
    const [writer, holder] = [await sql.reserve(), await sql.reserve()];
    await write(writer, organization.id, 1);
    await runUpkeep(sql);
    await write(writer, organization.id, 1);

    // As if the day took long to seal.
    await holder`begin`;
    await holder`select from audit_log_private.sealed_days where organization_id = ${organization.id} for update`;
    const upkeep = runUpkeep(sql);
    await somebodyWaitsFor(sql, await pidOf(holder));
    await writer`set lock_timeout = '1s'`;
    await write(writer, organization.id, 1).finally(() => holder`rollback`);
    await upkeep;

    await runUpkeep(sql);
    assertEquals(await left(organization), { counts: 0, days: 1, lastSeal: 3 });
    await assertExact(organization, 6);
    await writer`reset lock_timeout`;
    for (const connection of [writer, holder]) connection.release();
  });

  it("passes over all that a writer holds, however much, and ends", async () => {
    const [held, other] = [await organizationWithBacklog(0), await newLog()];
    const writer = await sql.reserve();
    await write(writer, held.id, 750);
    await writer`begin`;
    await write(writer, held.id, 750);
    await write(sql, other.id, 10);

    await runUpkeepWithoutWaiting();
    assertEquals([(await left(held))["counts"], (await left(other))["counts"]], [1500, 0]);

    await writer`commit`;
    writer.release();
    await runUpkeep(sql);
    assertEquals((await left(held))["counts"], 0);
    await assertExact(held, 3000);
    await assertExact(other, 20);
  });
});
