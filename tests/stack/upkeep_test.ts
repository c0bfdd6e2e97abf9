import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { assertExact, insertEntries, newLog, type Organization, pidOf } from "../helpers.ts";
import { rolledBack, type Run, runUpkeep, somebodyWaitsFor, sql, valueOf } from "../helpers.ts";

/** Makes an organization in which one connection has written two entries on each of so many days. */
async function organizationWithBacklog(days: number): Promise<Organization> {
  // Does the work that other tests have left, so that the pieces have rows of this organization only.
  await runUpkeep(sql);
  const organization = await newLog();
  await write(sql, organization.id, days);
  return organization;
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

/** Counts the rows that a connection has changed in this transaction, and lately. */
async function changedRows(run: Run): Promise<number> {
  return await valueOf(run`
    select sum(n_tup_ins + n_tup_upd + n_tup_del)::int from pg_stat_xact_user_tables`);
}

describe("run_upkeep()", () => {
  it("catches up after three months in pieces that change at most 5000 rows. Totals are exact before and after", async () => {
    const organization = await organizationWithBacklog(0);
    const others = await sql`
      insert into audit_log.organizations (name) select 'Test' from generate_series(1, 8) returning id`;
    const ids = [organization.id, ...others.map(({ id }) => id)];
    // Each connection has counts of its own.
    const connections = await Promise.all([sql.reserve(), sql.reserve(), sql.reserve()]);
    for (const connection of connections) {
      for (const id of ids) await write(connection, id, 92);
      connection.release();
    }
    await assertExact(organization, 3 * 92 * 2);
    const oldest = await valueOf(sql`select audit_log_private.health() ->> 'oldest_unsealed_day'`);
    assertEquals(oldest, "2000-01-01");

    const changed: number[] = [];
    for (let more = true; more;) {
      await sql.begin(async (piece) => {
        const before = await changedRows(piece);
        more = await valueOf(piece`select audit_log_private.run_upkeep()`);
        changed.push(await changedRows(piece) - before);
      });
    }
    const seals = await valueOf(sql`
      select count(*)::int from audit_log_private.seals where organization_id = any(${ids}::uuid[])`);
    assertEquals(seals, ids.length * 92);
    assert(changed.length > 6 && changed.every((rows) => rows <= 5000), changed.join());
    await assertExact(organization, 3 * 92 * 2);
  });

  it("lets writers write to a day that it is sealing", async () => {
    const organization = await organizationWithBacklog(0);
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
    const [held, other] = [await organizationWithBacklog(0), await newLog()];
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

/** A fault, the field of health() that the alert names, and the metrics that are then not 0. */
type Fault = [statement: string, field: string, metrics: Record<string, number>];

describe("metrics()", () => {
  it("counts rows of append-only tables that somebody has changed past the triggers, at once and also if they undid it", async () => {
    const { id } = await newLog({});
    const updated = () =>
      valueOf<number>(sql`
        select value from audit_log_private.metrics()
        where name = 'audit_log_updated_rows' and labels = '{"table": "audit_entries"}'`);
    const before = await updated();
    await rolledBack(sql, async (run) => {
      await run`alter table audit_log.audit_entries disable trigger refuse_change`;
      const changed = await run`
        update audit_log.audit_entries set agent_name = 'x' where organization_id = ${id}`;
      assertEquals(changed.count, 1);
      await run`select pg_stat_force_next_flush()`;
    });
    assert(await updated() > before);
  });
});

describe("the alert in docs/operating.md", () => {
  it("is silent about a sound log, names each thing that is wrong, and metrics() has its number", async () => {
    const { id } = await newLog();
    const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
    const alert = page.match(/select h\.key, h\.value\n[^]*?;/)?.[0] ?? "";
    const ran = "update upkeep_state set last_run_at =";
    const unsealed = `insert into days_to_seal values ('${id}',`;
    const sealed = `insert into sealed_days values ('${id}', '2026-03-01', now()`;
    const faults: Fault[] = [
      ["select 1", "", {}],
      [`${ran} now() - interval '2 days'`, "last_upkeep_at", { upkeep_age_seconds: 172_800 }],
      [`${ran} null`, "last_upkeep_at", { upkeep_age_seconds: Infinity }],
      [`${unsealed} (clock_timestamp() at time zone 'UTC')::date - 5)`, "oldest_unsealed_day", {
        unsealed_days: 5,
      }],
      [`${sealed}, now(), 0)`, "altered_days", { altered_days: 1 }],
      [`${sealed}, null, 1)`, "miscounted_days", { miscounted_days: 1 }],
      ["update cursor_keys set system_identifier = 1", "is_adopted", {}],
      [
        "update installed_functions set md5 = '' where name ~ 'run_upkeep'",
        "replaced_functions",
        {},
      ],
      ["alter table audit_log.audit_entries disable trigger user", "disabled_triggers", {}],
      ["alter table seals disable trigger refuse_change", "disabled_triggers", {}],
      [`select hold('${id}', 'Matter 7')`, "", { holds: 1 }],
    ];
    await rolledBack(sql, async (transaction) => {
      // First, what other tests have done is undone.
      await transaction.unsafe(`
        set local search_path = audit_log_private;
        update sealed_days set altered_at = null, miscounted = 0;
        delete from days_to_seal;
        delete from holds;
        update api_keys set maker_left_at = null;
        update upkeep_state set last_run_at = now();
        delete from entry_counts where writer_pid <> 0;
        savepoint sound`);
      for (const [statement, field, metrics] of faults) {
        await transaction.unsafe(statement);
        const rows = await transaction.unsafe(alert);
        assertEquals(rows.map(({ key }) => key).join(), field);
        // An age by the minute: the test takes a moment.
        const notZero = await transaction`
          select substr(name, 11) as name, value from (
            select name, case when name ~ 'age' then round(value / 60) * 60 else round(value) end as value
            from metrics() where labels = '{}'
          ) as m where value <> 0`;
        assertEquals(Object.fromEntries(notZero.map((row) => Object.values(row))), metrics);
        await transaction`rollback to sound`;
      }
    });
  });
});
