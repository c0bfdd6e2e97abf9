import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import {
  addOrganization,
  errorOf,
  newLog,
  rolledBack,
  type Run,
  sql,
  valueOf,
} from "../helpers.ts";
import { hasProgram, runProgram } from "../run_program.ts";

const EXAMPLES = fileURLToPath(new URL("../../examples/", import.meta.url));
const MONITOR = await Deno.readTextFile(`${EXAMPLES}adopting/monitoring_role.sql`);
const STAGING = await Deno.readTextFile(`${EXAMPLES}operating/staging.sql`);

const hasPromtool = await hasProgram("promtool", "Debian's package prometheus");
const itWithPromtool = hasPromtool ? it : it.skip;

async function promtool(command: string, cwd: string): Promise<void> {
  const { code, stdout, stderr } = await runProgram("sh", { args: ["-c", command], cwd });
  assertEquals([code, stderr.trim()], [0, ""], stdout);
}

/** Undoes within a transaction what other tests have done. */
const SOUND = `
  set local search_path = audit_log_private;
  update sealed_days set altered_at = null, miscounted = 0;
  delete from days_to_seal;
  delete from holds;
  delete from streams;
  delete from logging_failures;
  update api_keys set owner_left_at = null;
  update rate_limits set read_mode = null;
  update audit_log.organizations set gone_at = null;
  update upkeep_state set last_run_at = now();
  delete from entry_counts where writer_pid <> 0;
  savepoint sound`;

/** Runs the query for a kind of alert that docs/operating.md has. */
async function alerts(run: Run, kind: "page" | "workday"): Promise<string> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const query = page.match(/select field from .*'page'.*;/)?.[0] ?? "";
  const rows = await run.unsafe(query.replace("page", kind));
  return rows.map(({ field }) => field).sort().join();
}

/** A fault, the fields of health() that wake somebody, those for a workday, and the metrics that are then not 0. */
type Fault = [statement: string, page: string, workday: string, metrics: Record<string, number>];

it("the alerts in docs/operating.md are silent about a sound log, name each thing that is wrong, and metrics() has its number", async () => {
  const [{ id }, other] = [await newLog(), await newLog()];
  const ran = "update upkeep_state set last_run_at =";
  const unsealed = `insert into days_to_seal values ('${id}', current_date - 5,`;
  const sealed = `insert into sealed_days values ('${id}', '2026-03-01', now()`;
  const stream = (host: number, more: string, organization = id) => `
    insert into streams (organization_id, name, destination, includes_seals, test_asked_at,
      due_at, failures, failing_since, delivered_at)
    values ('${organization}', '${host}', '{"url": "https://${host}.example/"}', false, null, ${more});`;
  const fails = (host: number, since = "1 hour") =>
    stream(host, `now(), 9, now() - interval '${since}', '2026-01-01'`);
  const two = fails(1) + fails(2);
  const three = two + fails(3);
  const another = (failingSince: string) =>
    stream(4, `now(), 0, ${failingSince}, '2026-01-01'`, other.id);
  const noted = "select note_failure('public.t', 'x');";
  const down = { troubled_streams: 3, streams_down: 1 };
  const leased = "update streams set leased_until = now() + interval '1 minute'";
  const faults: Fault[] = [
    ["select 1", "", "", {}],
    [`${ran} now() - interval '29 hours'`, "", "", { upkeep_age_seconds: 104_400 }],
    [`${ran} now() - interval '31 hours'`, "last_upkeep_at", "", { upkeep_age_seconds: 111_600 }],
    // The first night is still to come.
    [`${ran} null`, "", "", { upkeep_age_seconds: Infinity }],
    [
      `${ran} null; insert into setting_changes (id, at, what) overriding system value
        values (-1, now() - interval '8 days', 'function installed')`,
      "last_upkeep_at",
      "",
      { upkeep_age_seconds: Infinity },
    ],
    // The clock was wrong.
    [`${ran} now() + interval '2 days'`, "last_upkeep_at", "", { upkeep_age_seconds: -172_800 }],
    // Late entries, whose day waits for the next night.
    [`${unsealed} now() - interval '3 hours')`, "", "", {
      oldest_unsealed_age_seconds: 432_000,
      unsealed_age_seconds: 10_800,
    }],
    [`${unsealed} now() - interval '2 days')`, "unsealed_since", "", {
      oldest_unsealed_age_seconds: 432_000,
      unsealed_age_seconds: 172_800,
    }],
    [`${sealed}, now(), 0)`, "altered_days", "altered_days", { altered_dates: 1 }],
    [`${sealed}, now() - interval '8 days', 0)`, "", "altered_days", { altered_dates: 1 }],
    [`${sealed}, null, 1)`, "miscounted_days", "", { miscounted_dates: 1 }],
    ["update cursor_keys set system_identifier = 1", "is_adopted", "", { is_adopted: 0 }],
    ["update stream_home set home = 'another'", "", "", { is_copy: 1 }],
    ["alter table seals disable trigger refuse_change", "disabled_triggers", "", {
      disabled_triggers: 1,
    }],
    [noted + noted, "logging_failures", "", { logging_failures: 2 }],
    [`select hold('${id}', 'Matter 7')`, "", "", { holds: 1, setting_changes: 1 }],
    // Of one customer, at the same host.
    [two + fails(2), "", "troubled_streams", { troubled_streams: 3 }],
    // The others have nothing to deliver.
    [three + stream(4, "now(), 0, null, '2026-01-01'"), "streams_down", "troubled_streams", down],
    [three + stream(4, "now(), 0, null, now()"), "", "troubled_streams", { troubled_streams: 3 }],
    // One of several customers cannot wake anybody.
    [three + another("null"), "", "troubled_streams", { troubled_streams: 3 }],
    [two + another("now() - interval '1 hour'"), "streams_down", "troubled_streams", down],
    // Destinations that are gone, where nobody else has a stream.
    [two + fails(3, "8 days"), "", "troubled_streams", { troubled_streams: 3 }],
    // The Edge Function comes, and ends each time before it tells the result.
    [stream(1, "now() - interval '19 minutes', 0, null, '2026-01-01'") + leased, "", "", {}],
    [
      stream(1, "now() - interval '21 minutes', 0, null, '2026-01-01'") + leased,
      "streams_down",
      "troubled_streams",
      { troubled_streams: 1, streams_down: 1 },
    ],
    // It does not come.
    [
      stream(1, "now() - interval '6 minutes', 0, null, now()") +
      stream(2, "now(), 0, null, now()"),
      "streams_down",
      "troubled_streams",
      { troubled_streams: 1, streams_down: 1 },
    ],
  ];
  await rolledBack(sql, async (transaction) => {
    await transaction.unsafe(SOUND);
    const numbers = async () => {
      const rows = await transaction`
        select substr(name, 11) as name, case when name ~ 'age' then round(value / 60) * 60 else value end as value
        from metrics() where labels = '{}'`;
      return rows.map(({ name, value }) => [String(name), Number(value)] as const);
    };
    // Others have changed settings, too.
    const before = Object.fromEntries(await numbers());
    for (const [statement, page, workday, metrics] of faults) {
      await transaction.unsafe(statement);
      assertEquals(await alerts(transaction, "page"), page, statement);
      assertEquals(await alerts(transaction, "workday"), workday, statement);
      const changed = (await numbers()).filter(([name, value]) => value !== before[name]);
      const seen = Object.fromEntries(changed);
      if (seen.setting_changes) seen.setting_changes -= before["setting_changes"] ?? 0;
      assertEquals(seen, metrics, statement);
      await transaction`rollback to sound`;
    }
  });
});

/**
 * Writes what 500 customers have done until a weekday (0: Monday): followers that read all the time, each day, on
 * workdays or once a week, keys that were tried on three days and forgotten, readers of pages, some of them new;
 * leavers, streams that were paused or whose destination is down, late entries; and an upkeep that takes its time.
 */
const ordinaryWeek = (weekday: number) => `
  create temporary table customers on commit drop as
    select n, gen_random_uuid() as id, gen_random_uuid() as key,
      (array['always', 'daily', 'workdays', 'weekly', 'tried', 'pages'])[n % 6 + 1] as habit
    from generate_series(1, 500) as n;
  create temporary table reads on commit drop as
    select c.*, (now() at time zone 'UTC')::date - ago as day
    from customers c, generate_series(0, 75) as ago, lateral (select (${weekday} - ago + 77) % 7) as d (weekday)
    where ago <= n % 76 and (ago > 0 or habit = 'always') and case habit
      -- Has stopped.
      when 'always' then n <> 300 or ago > 4
      when 'workdays' then d.weekday < 5
      when 'weekly' then d.weekday = n % 7
      when 'tried' then ago between n % 40 + 5 and n % 40 + 7
      else true
    end;
  insert into audit_log.organizations (id, name) select id, 'Customer ' || n from customers;
  insert into api_keys (organization_id, id, name, hint, owner_left_at, created_at)
    select id, key, n, '', case when n % 10 = 0 then now() - n * interval '1 hour' end, now() - n % 76 * interval '1 day'
    from customers;
  insert into rate_limits (organization_id, api_key_id, day, read_mode, caught_up_at)
    select id, key, max(day), case habit when 'pages' then 'pages' else 'feed' end,
      case
        when n = 282 or habit = 'tried' and n % 12 = 4 then null -- It has never got there.
        when n = 294 then now() - interval '5 days' -- It reads, and does not get to the end any more.
        when habit = 'always' and n <> 300 then now()
        else max(day)::timestamp at time zone 'UTC' + n % 24 * interval '1 hour'
      end
    from reads group by id, key, n, habit;
  insert into log_reads (organization_id, is_person, reader_id, day, requests, invalid_requests, entries,
      first_at, last_at)
    select id, false, key, day, 24, 0, 100, day, day from reads
    where (key, day) not in (select api_key_id, r.day from rate_limits r where r.day is not null);
  insert into streams (organization_id, name, destination, includes_seals, test_asked_at, caught_up_at,
      batch_has_more, paused_at, failures, failing_since, delivered_at)
    select id, 'SIEM', jsonb_build_object('url', format('https://%s.example/', n)), true, null, now(), false,
      case when n % 50 = 0 then now() - interval '3 days' end,
      case when n in (25, 75, 125) then 99 else 0 end, case when n in (25, 75, 125) then now() - interval '2 days' end,
      now() - case when n in (25, 75, 125) then interval '2 days' else interval '1 hour' end
    from customers where n % 25 = 0;
  insert into days_to_seal select id, '2026-01-01', now() - interval '5 hours' from customers where n <= 20;
  update upkeep_state set last_run_at = now() - interval '5 hours' - ${weekday} * interval '4 hours'`;

describe("health()", () => {
  it("wakes nobody in an ordinary week of 500 customers. Late are only followers that stopped, fall behind or never get to the end", async () => {
    await rolledBack(sql, async (transaction) => {
      await transaction.unsafe(SOUND);
      for (let weekday = 0; weekday < 7; weekday++) {
        await transaction.unsafe(ordinaryWeek(weekday));
        assertEquals(await alerts(transaction, "page"), "");
        const workday = "keys_whose_owner_left,late_followers,troubled_streams";
        assertEquals(await alerts(transaction, "workday"), workday);
        const late = await valueOf(transaction`
          select json_agg(f ->> 'name' order by f ->> 'name')
          from json_array_elements(health() -> 'late_followers') as f`);
        assertEquals(late, ["282", "294", "300"], `${weekday}`);
        await transaction`rollback to sound`;
      }
    });
  });

  it("tells the role for monitoring all of it, and so does metrics(); nothing else may be called", async () => {
    await rolledBack(sql, async (transaction) => {
      await transaction.unsafe(MONITOR);
      await transaction`grant audit_log_monitor to current_user`;
      await transaction`set local role audit_log_monitor`;
      const [row] = await transaction`
        select audit_log_private.health() as health,
          (select array_agg(substr(name, 11)) from audit_log_private.metrics()) as metrics`;
      const { last_upkeep_at, oldest_unsealed_day, unsealed_since, page, workday, ...counted } =
        row?.["health"] ?? {};
      const names = Object.keys(counted).map((field) => field.replace("_days", "_dates"));
      assertEquals(names.filter((name) => !row?.["metrics"].includes(name)), []);
      assert(page && workday && last_upkeep_at !== undefined && oldest_unsealed_day !== undefined);
      assert(unsealed_since !== undefined);
      const refused = await errorOf(transaction`select audit_log_private.findings()`);
      assertEquals(refused.code, "42501");
    });
  });
});

it("metrics() counts rows of append-only tables that somebody has changed past the triggers, at once and also if they undid it", async () => {
  const { id } = await newLog({});
  const updated = () =>
    valueOf<number>(sql`
      select value from audit_log_private.metrics()
      where name = 'audit_log_updated_rows_total' and labels = '{"table": "audit_entries"}'`);
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

it("metrics_text() says of each metric what it is, whatever a platform calls an organization", async () => {
  await rolledBack(sql, async (transaction) => {
    const { id, apiKeyId } = await addOrganization(transaction);
    await transaction`
      update audit_log.organizations set external_id = ${'a"b\\c\nd\te{}, ' + id} where id = ${id}`;
    await transaction`
      update audit_log_private.rate_limits set read_mode = 'feed' where api_key_id = ${apiKeyId}`;
    const text: string = await valueOf(transaction`select audit_log_private.metrics_text()`);
    assert(text.includes(`organization_id="a\\"b\\\\c\\nd\te{}, ${id}"}`), text);
    const metric = /^# HELP (audit_log_\w+) .+\n# TYPE \1 (gauge|counter)\n(\1\{.*\} (\S+)\n)+$/;
    for (const block of text.split(/^(?=# HELP)/m)) assertMatch(block, metric);
    if (!hasPromtool) return;
    const file = await Deno.makeTempFile();
    await Deno.writeTextFile(file, text);
    await promtool(`promtool check metrics < ${file}`, EXAMPLES);
    await Deno.remove(file);
  });
});

describe("examples/operating/alerts.yml", () => {
  itWithPromtool("is silent, wakes or waits as alerts_test.yml says", async () => {
    await promtool(
      "promtool check rules alerts.yml && promtool test rules alerts_test.yml",
      `${EXAMPLES}operating`,
    );
  });
});

it("examples/operating/staging.sql refuses to run in the original. In a copy, keys end, and streams are paused without their secrets, also if it is run again", async () => {
  await rolledBack(sql, async (transaction) => {
    const { id } = await addOrganization(transaction);
    await transaction`
      insert into audit_log_private.streams (organization_id, name, destination, sealed, includes_seals)
      values (${id}, 'SIEM', '{"url": "https://siem.example/"}', 'secret', true)`;
    await transaction`savepoint original`;
    assertEquals((await errorOf(transaction.unsafe(STAGING))).code, "55000");
    await transaction`rollback to original`;
    await transaction`update audit_log_private.stream_home set home = 'another', bell_address = 'http://x', bell_word = 'x'`;
    for (let n = 0; n < 2; n++) await transaction.unsafe(STAGING);
    const [row] = await transaction`
      select audit_log_private.health() ->> 'is_copy' as "isCopy", audit_log_private.rings_due(),
        (select count(*)::int from audit_log_private.api_keys where audit_log_private.is_live(revoked_at, expires_at))
          as keys,
        (select count(*)::int from audit_log_private.streams where paused_at is null or sealed is not null) as sending,
        (select count(*)::int from audit_log_private.stream_home where bell_word is not null) as bells`;
    assertEquals({ ...row }, { isCopy: "true", rings_due: 0, keys: 0, sending: 0, bells: 0 });
  });
});
