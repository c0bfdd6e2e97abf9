// Needs a stack.

import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { assertExact, insertEntries, newLog, type Organization, pidOf } from "../helpers/mod.ts";
import { type Run, runUpkeep, somebodyWaitsFor, sql, valueOf } from "../helpers/mod.ts";

/** Does the work that other tests have left, so that the next pieces have rows of a new organization only. */
async function newLogAlone(): Promise<Organization> {
  await runUpkeep(sql);
  return await newLog();
}

/** Writes two entries, of one action each, on each of so many days from the year 2000 on. */
async function write(run: Run, id: string, days: number): Promise<void> {
  for (const action of ["agent_added", "feedback_given"]) {
    await insertEntries(run, id, "2000-01-01", days, { action, every: "1 day" });
  }
}

/** Counts the partial counts and the sealed days of an organization, with the number of its last seal. */
async function left({ id }: Organization) {
  const [row] = await sql`
    select count(distinct day)::int as days, coalesce(max(sequence), 0)::int as "lastSeal", (
      select count(*)::int from audit_log_private.entry_counts where organization_id = ${id} and writer_pid <> 0
    ) as counts
    from audit_log_private.seals where organization_id = ${id}`;
  return { ...row };
}

describe("run_upkeep()", () => {
  it("catches up after three months in pieces that change at most 5000 rows. Totals are exact before and after", async () => {
    const organization = await newLogAlone();
    const ids = [organization.id, ...Array.from({ length: 8 }, () => crypto.randomUUID())];
    // Each connection has counts of its own.
    const connections = await Promise.all([sql.reserve(), sql.reserve(), sql.reserve()]);
    for (const connection of connections) {
      for (const id of ids) await write(connection, id, 92);
      connection.release();
    }
    await assertExact(organization, 3 * 92 * 2);

    const changed: number[] = [];
    for (let more = true; more;) {
      await sql.begin(async (piece) => {
        /** In this transaction, and lately. */
        const changedRows = () =>
          valueOf<number>(piece`
            select sum(n_tup_ins + n_tup_upd + n_tup_del)::int from pg_stat_xact_user_tables`);
        const before = await changedRows();
        more = await valueOf(piece`select audit_log_private.run_upkeep()`);
        changed.push(await changedRows() - before);
      });
    }
    const seals = await valueOf(sql`
      select count(*)::int from audit_log_private.seals where organization_id = any(${ids}::uuid[])`);
    assertEquals(seals, ids.length * 92);
    assert(changed.length > 6 && changed.every((rows) => rows <= 5000), changed.join());
    await assertExact(organization, 3 * 92 * 2);
  });

  it("lets writers write to a day that it is sealing", async () => {
    const organization = await newLogAlone();
    const [writer, holder] = [await sql.reserve(), await sql.reserve()];
    await write(writer, organization.id, 1);
    await runUpkeep(sql);
    await write(writer, organization.id, 1);

    // The sealing of the day has to wait.
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

  it("skips counts that a writer has locked, with their days", async () => {
    const [held, other] = [await newLogAlone(), await newLog()];
    const [writer, upkeep] = [await sql.reserve(), await sql.reserve()];
    await write(writer, held.id, 600);
    await writer`begin`;
    await write(writer, held.id, 250);
    await write(sql, other.id, 10);
    await upkeep`set lock_timeout = '1s'`;
    await runUpkeep(upkeep);
    assertEquals(await left(held), { counts: 500, days: 350, lastSeal: 350 });
    assertEquals(await left(other), { counts: 0, days: 10, lastSeal: 10 });

    await writer`commit`;
    await runUpkeep(upkeep);
    await upkeep`reset lock_timeout`;
    for (const connection of [writer, upkeep]) connection.release();
    assertEquals((await left(held))["counts"], 0);
    await assertExact(held, 1700);
    await assertExact(other, 20);
  });
});
