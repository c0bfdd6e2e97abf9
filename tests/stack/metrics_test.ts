import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  errorOf,
  exhaust,
  getPage,
  insertEntries,
  newOrganization,
  rolledBack,
  type Run,
  runUpkeep,
  signUp,
  sql,
  statusOf,
} from "../helpers.ts";

const admin = await signUp();

const RECIPE = await Deno.readTextFile(
  new URL("../../examples/adopting/monitor.sql", import.meta.url),
);

/** The metrics whose labels have a value, by name and labels but for ids. */
async function metricsOf(id: string): Promise<Record<string, number>> {
  const rows = await sql`
    select concat_ws(' ', name, labels ->> 'status', labels ->> 'day') as name, round(value)::int as value
    from audit_log_private.metrics() where ${id} in (labels ->> 'organization_id', labels ->> 'api_key_id')`;
  return Object.fromEntries(
    rows.map(({ name, value }) => [name.replace("audit_log_", ""), value]),
  );
}

/** The metrics of the whole service. */
async function overall(run: Run): Promise<Record<string, number>> {
  const rows = await run`
    select name, value from audit_log_private.metrics() where labels = '{}'`;
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}

describe("metrics()", () => {
  it("count a key's requests of today by status, its lag, and the entries of the last seven days", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const [row] = await sql`
      select array(select (clock_timestamp() at time zone 'UTC')::date - d from unnest('{0,6,7}'::int[]) as d)::text[] as days`;
    const days: string[] = row?.["days"];
    for (const day of days) await insertEntries(sql, id, day, 3);
    const requests = { "requests 200": 1, "requests 400": 0, "requests 429": 0 };
    const entries = { [`entries ${days[0]}`]: 3, [`entries ${days[1]}`]: 3 };
    await getPage(token);
    assertEquals(await metricsOf(id), { ...requests, ...entries });
    await getPage(token, "start=2026-03-01&end=2026-03-02&after=beginning");
    await statusOf(token, "start=x");
    await exhaust(sql, apiKeyId);
    await statusOf(token);
    await statusOf(token, "start=x");
    await sql`
      update audit_log_private.rate_limits set caught_up_at = clock_timestamp() - interval '1 day'
      where api_key_id = ${apiKeyId}`;
    const { follower_lag_seconds: lag = 0, ...rest } = await metricsOf(apiKeyId);
    assertEquals(rest, { "requests 200": 2, "requests 400": 1, "requests 429": 2 });
    assert(lag >= 86_400 && lag < 86_460, `${lag}`);
    await sql`
      update audit_log_private.rate_limits set day = day - 1, reads = 'pages' where api_key_id = ${apiKeyId}`;
    await sql`update audit_log.organizations set external_id = 'ours ' || id where id = ${id}`;
    assertEquals(await metricsOf(`ours ${id}`), { ...requests, "requests 200": 0, ...entries });
    await sql`update audit_log_private.api_keys set revoked_at = now() where id = ${apiKeyId}`;
    assertEquals(await metricsOf(apiKeyId), {});
  });

  it("say what health() says: the upkeep's age, unsealed, altered and miscounted days, holds", async () => {
    const { id } = await newOrganization(admin);
    await insertEntries(sql, id, "2026-03-01", 1);
    await runUpkeep(sql);
    await rolledBack(sql, async (run) => {
      const before = await overall(run);
      assertEquals(before["audit_log_unsealed_days"], 0);
      await run`update audit_log_private.upkeep_state set last_run_at = null`;
      await run`update audit_log_private.sealed_days set altered_at = now(), miscounted = 1 where organization_id = ${id}`;
      await run`select audit_log_private.hold(${id}, 'Matter 7')`;
      await run`
        insert into audit_log_private.days_to_seal
        values (${id}, (clock_timestamp() at time zone 'UTC')::date - 5)`;
      assertEquals(await overall(run), {
        audit_log_upkeep_age_seconds: Infinity,
        audit_log_unsealed_days: 5,
        audit_log_altered_days: (before["audit_log_altered_days"] ?? 0) + 1,
        audit_log_miscounted_days: (before["audit_log_miscounted_days"] ?? 0) + 1,
        audit_log_holds: (before["audit_log_holds"] ?? 0) + 1,
      });
      await insertEntries(run, id, "2026-03-01", 1);
      const { audit_log_unsealed_days: days = 0 } = await overall(run);
      assert(days > 200, `${days}`);
    });
  });

  it("read no entry, and of the counts only those of the last seven days", async () => {
    const { id } = await newOrganization(admin);
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${id}, timestamptz '2020-01-01Z' + day * interval '1 day', 'agent_added', 'ada@example.com', 'x'
      from generate_series(1, 2000) as day`;
    await runUpkeep(sql);
    await rolledBack(sql, async (run) => {
      const read = async (table: string) => {
        const [row] = await run`
          select seq_tup_read::int + coalesce(idx_tup_fetch, 0)::int as rows, seq_scan::int + idx_scan::int as scans
          from pg_stat_xact_user_tables where relid = ${table}::regclass`;
        return row;
      };
      const tables = ["audit_log.audit_entries", "audit_log_private.entry_counts"] as const;
      const before = await Promise.all(tables.map(read));
      await overall(run);
      const [entries, counts] = await Promise.all(tables.map(read));
      assertEquals(entries, before[0]);
      const rows = counts?.["rows"] - before[1]?.["rows"];
      assert(rows < 1000, `${rows} counts`);
    });
  });
});

describe("the role of examples/adopting/monitor.sql", () => {
  it("reads the metrics, and no entry; the file can be run again", async () => {
    await rolledBack(sql, async (run) => {
      await run.unsafe(RECIPE);
      await run.unsafe(RECIPE);
      // As on the platform, the owner is no superuser, and has to be a member first.
      await run`grant audit_log_monitor to postgres`;
      await run`set local role audit_log_monitor`;
      assert(Object.keys(await overall(run)).length === 5);
      for (
        const statement of [
          "select from audit_log.audit_entries",
          "select from audit_log_private.rate_limits",
          "select audit_log_private.health()",
          "select audit_log.record_entries('[]')",
        ]
      ) {
        await run`savepoint before`;
        assertEquals((await errorOf(run.unsafe(statement))).code, "42501", statement);
        await run`rollback to before`;
      }
    });
  });
});
