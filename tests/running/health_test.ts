// Needs a stack.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { it as itAlone } from "@std/testing/bdd";
import type { ReservedSql } from "postgres";
import { addOrganization, codeOf, HAS_STREAMS, valueOf } from "../../dev/harness/project.ts";
import { newLog, rolledBack, type Run, sql } from "../helpers/mod.ts";
import { hasProgram, ROOT, runProgram } from "../helpers/run_program.ts";

const EXAMPLES = `${ROOT}docs/examples/`;

const hasPromtool = await hasProgram("promtool", "Debian's package prometheus");

async function promtool(command: string, cwd: string): Promise<void> {
  const { code, stdout, stderr } = await runProgram("sh", { args: ["-c", command], cwd });
  assertEquals([code, stderr.trim()], [0, ""], stdout);
}

/** Long names. */
const [LEFT, UNUSED] = ["keys_whose_owner_left", "unused_organizations"];
const [DOWN, TROUBLED, DISABLED] = ["streams_down", "troubled_streams", "disabled_triggers"];

/** Undoes within a transaction what other tests have done. */
const SOUND = `
  set local search_path = audit_log_private;
  update sealed_days set altered_at = null, miscounted = 0, reduced_at = null;
  delete from days_to_seal;
  ${HAS_STREAMS ? "delete from streams;" : ""}
  delete from logging_failures;
  update api_keys set owner_left_at = null;
  update audit_log.organizations set created_at = now();
  update upkeep_state set last_run_at = now();
  delete from entry_counts where writer_pid <> 0;
  savepoint sound`;

/** A test in a transaction that is undone, and begins with a sound log. */
function it(name: string, test: (run: ReservedSql) => Promise<void>): void {
  itAlone(name, () =>
    rolledBack(sql, async (run) => {
      await run.unsafe(SOUND);
      await test(run);
    }));
}

/** Runs the query for a kind of alert that docs/operating.md has. */
async function alerts(run: Run, kind: "page" | "workday"): Promise<string> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const query = page.match(/select field from .*'page'.*;/)?.[0] ?? "";
  const rows = await run.unsafe(query.replace("page", kind));
  return rows.map(({ field }) => field).sort().join();
}

const DROPS = await valueOf<string[]>(sql`
  select array_agg(format('drop trigger %I on %s', tgname, tgrelid::regclass))
  from pg_trigger join pg_class c on c.oid = tgrelid
  where not tgisinternal and c.relnamespace in ('audit_log'::regnamespace, 'audit_log_private'::regnamespace)`);

/** A fault, the fields of health() that wake somebody, and those for a workday. */
type Fault = [statement: string, page: string, workday: string];

it("the alerts in docs/operating.md are silent about a sound log, and name each thing that is wrong; the metrics have the same alerts", async (run) => {
  const [{ id }, other] = [await newLog({}), await newLog()];
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
  const delivers = (host: number) => stream(host, "now(), 0, null, now()");
  const leased = (ago: string) =>
    stream(1, `now() - interval '${ago}', 0, null, '2026-01-01'`) +
    "update streams set lease = gen_random_uuid(), leased_until = now() + interval '1 minute'";
  const waits = stream(1, "now() - interval '6 minutes', 0, null, now()");
  const copied = "update stream_home set home = 'another'";
  const problem =
    `create or replace function logging_problems() returns table (logged text, problem text)
    language sql as $$ values`;
  const week = `update audit_log.organizations set created_at = now() - interval '1 day' * 8
    where id = '${id}'`;
  const readAt = (ago: string) => `
    insert into log_reads (organization_id, is_person, reader_id, day, user_id, requests, invalid_requests, entries,
      first_at, last_at)
    select '${id}', true, gen_random_uuid(), at at time zone 'UTC', 'ada', 1, 0, 1, at, at
    from (select now() - interval '${ago}' as at) as read`;
  const faults: Fault[] = [
    ["select 1", "", ""],
    [`${ran} now() - interval '29 hours'`, "", ""],
    [`${ran} now() - interval '31 hours'`, "last_upkeep_at", ""],
    // The clock was wrong.
    [`${ran} now() + interval '2 days'`, "last_upkeep_at", ""],
    // Late entries, whose day waits for the next night.
    [`${unsealed} now() - interval '3 hours')`, "", ""],
    [`${unsealed} now() - interval '2 days')`, "unsealed_since", ""],
    [`${sealed}, now(), 0)`, "altered_days", "altered_days"],
    [`${sealed}, now() - interval '8 days', 0)`, "", "altered_days"],
    [`${sealed}, null, 1)`, "miscounted_days", ""],
    [`${sealed}, null, 0, now())`, "", "reduced_days"],
    ["update cursor_keys set system_identifier = 1", "is_adopted", ""],
    ["alter table seals disable trigger refuse_change", DISABLED, ""],
    ["create rule lost as on insert to seals do instead nothing", DISABLED, ""],
    ["create rule lost as on delete to audit_log.audit_entries do also select 1", DISABLED, ""],
    ...DROPS.map((drop): Fault => [drop, DISABLED, ""]),
    ["select note_failure('public.t', 'x')", "logging_failures", ""],
    [`update api_keys set owner_left_at = now() where organization_id = '${id}'`, "", LEFT],
    [`update api_keys set owner_left_at = now(), revoked_at = now()`, "", ""],
    [week, "", UNUSED],
    ...["* 6", "* 15"].map((days): Fault => [week.replace("* 8", days), "", ""]),
    [week.replace(id, other.id), "", ""],
    [`${week}; update audit_log.organizations set closed_at = now()`, "", ""],
    [`${week}; ${readAt("8 days")}`, "", UNUSED],
    [`${week}; ${readAt("6 days")}`, "", ""],
    [`${week}; update rate_limits set last_at = now() - interval '6 days'`, "", ""],
    [`${problem} ('public.t', 'the secret key wrote 3') $$`, "", "logging_problems"],
    [`${problem} ('public.t', 'a trigger is gone') $$`, "logging_problems", ""],
  ];
  const faultsOfStreams: Fault[] = [
    [`${week}; ${delivers(1)}`, "", ""],
    // Of one customer, at the same host.
    [two + fails(2), "", TROUBLED],
    // The others have nothing to deliver.
    [three + stream(4, "now(), 0, null, '2026-01-01'"), DOWN, TROUBLED],
    [three + delivers(4), "", TROUBLED],
    // One of several customers cannot wake anybody.
    [three + another("null"), "", TROUBLED],
    [two + another("now() - interval '1 hour'"), DOWN, TROUBLED],
    // Destinations that are gone, where nobody else has a stream.
    [two + fails(3, "8 days"), "", TROUBLED],
    // The Edge Function comes, and ends each time before it tells the result.
    [leased("19 minutes"), "", ""],
    [leased("21 minutes"), DOWN, TROUBLED],
    // It does not come.
    [waits + delivers(2), DOWN, TROUBLED],
    // Some have failed for long, one delivered an hour ago, and somebody has paused one.
    [
      fails(1, "2 days") + fails(2, "2 days") + another("now() - interval '2 days'") +
      stream(5, "now(), 0, null, now() - interval '1 hour'") +
      stream(6, "now() - interval '1 day', 0, null, now() - interval '1 hour'") +
      "update streams set paused_at = now() - interval '3 days' where name = '6'",
      "",
      TROUBLED,
    ],
    // In a copy of the database.
    [copied, "", ""],
    [delivers(1) + copied, DOWN, TROUBLED],
  ];
  if (HAS_STREAMS) faults.push(...faultsOfStreams);
  for (const [statement, page, workday] of faults) {
    await run.unsafe(statement);
    assertEquals(await alerts(run, "page"), page, statement);
    assertEquals(await alerts(run, "workday"), workday, statement);
    const metrics = await valueOf(run`
      select array(
        select concat_ws(' ', labels ->> 'severity', labels ->> 'field') from metrics()
        where name = 'audit_log_alert' and value = 1
      )`);
    const named = [page && `page ${page}`, workday && `workday ${workday}`];
    assertEquals(metrics, named.filter(Boolean), statement);
    await run`rollback to sound`;
  }
});

it("metrics() has the age of the last upkeep, and of the longest wait for a seal", async (run) => {
  const { id } = await newLog();
  const ages = () =>
    valueOf(run`
      select array(
        select round(value / 60)::integer from metrics() where name ~ 'age_seconds' order by name
      )`);
  assertEquals(await ages(), [0, 0]);
  await run`insert into days_to_seal values (${id}, current_date - 5, now() - interval '3 hours')`;
  await run`update upkeep_state set last_run_at = now() - interval '29 hours'`;
  assertEquals(await ages(), [180, 29 * 60]);
});

it("health() and metrics_text() tell the role for monitoring; nothing else may be called", async (run) => {
  await run.unsafe(await Deno.readTextFile(`${EXAMPLES}adopting/monitoring_role.sql`));
  await run`grant audit_log_monitor to current_user`;
  await run`set local role audit_log_monitor`;
  const [row] = await run`
    select audit_log_private.health() as health, audit_log_private.metrics_text() as metrics`;
  const { page, workday } = row?.["health"] ?? {};
  assert(page && workday);
  assertMatch(row?.["metrics"], /^audit_log_alert\{field="is_adopted",severity="page"\} 0$/m);
  for (const name of ["findings", "metrics"]) {
    await run`savepoint called`;
    const call = run.unsafe(`select audit_log_private.${name}()`);
    assertEquals(await codeOf(call), "42501", name);
    await run`rollback to called`;
  }
});

it("metrics() counts rows of append-only tables that somebody has changed past the triggers, at once and also if they undid it", async (run) => {
  const { id } = await newLog({});
  const updated = () =>
    valueOf<number>(sql`
      select value from audit_log_private.metrics()
      where name = 'audit_log_updated_rows_total' and labels = '{"table": "audit_entries"}'`);
  const before = await updated();
  await run`alter table audit_log.audit_entries disable trigger refuse_change`;
  const changed = await run`
    update audit_log.audit_entries set agent_name = 'x' where organization_id = ${id}`;
  assertEquals(changed.count, 1);
  await run`select pg_stat_force_next_flush()`;
  await run`rollback`;
  assert(await updated() > before);
});

it("metrics_text() says of each metric what it is, whatever a platform calls an organization", async (run) => {
  const id = crypto.randomUUID();
  const { apiKeyId } = await addOrganization(run, 'a"b\\c\nd\te{}, ' + id);
  await run`
    update audit_log_private.rate_limits set read_mode = 'feed' where api_key_id = ${apiKeyId}`;
  const text: string = await valueOf(run`select audit_log_private.metrics_text()`);
  assert(text.includes(`organization_id="a\\"b\\\\c\\nd\te{}, ${id}"}`), text);
  const metric = /^# HELP (audit_log_\w+) .+\n# TYPE \1 (gauge|counter)\n(\1\{.*\} (\S+)\n)+$/;
  for (const block of text.split(/^(?=# HELP)/m)) assertMatch(block, metric);
  if (!hasPromtool) return;
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, text);
  await promtool(`promtool check metrics < ${file}`, EXAMPLES);
  await Deno.remove(file);
});

it("metrics_text() has at most 1,000 series of a kind: those with the highest values, and how many it leaves out", async (run) => {
  const { id } = await addOrganization(run);
  await run`update rate_limits set read_mode = null`;
  const leftOut = async () => {
    const text = await valueOf<string>(run`select metrics_text()`);
    return [Number(/^audit_log_series_left_out\{\} (\d+)$/m.exec(text)?.[1]), text] as const;
  };
  const [before] = await leftOut();
  await run`
    with made as (
      insert into api_keys (organization_id, name, hint)
      select ${id}, n, '' from generate_series(1, 3000) as n returning organization_id, id, name
    )
    insert into rate_limits (organization_id, api_key_id, read_mode, caught_up_at, day, refused_requests)
    select organization_id, id, 'feed', now() - interval '1 day' - interval '1 minute' * name::integer,
      (now() at time zone 'UTC')::date, case name when '7' then 3 else 0 end
    from made`;
  const [after, text] = await leftOut();
  const lags = text.match(/(?<=^audit_log_follower_lag_seconds\{.*\} )\d+/gm)!.map(Number);
  assertEquals([lags.length, Math.min(...lags) > 86400 + 60 * 2000], [1000, true]);
  assertMatch(text, /^audit_log_requests\{.*status="429"\} 3$/m);
  assert(after >= before + 8000 && text.length < 1_000_000, `${after} ${text.length}`);
});

(hasPromtool ? itAlone : itAlone.skip)(
  "docs/examples/operating/alerts.yml is silent, wakes or waits as alerts_test.yml says",
  async () => {
    const command = "promtool check rules alerts.yml && promtool test rules alerts_test.yml";
    await promtool(command, `${EXAMPLES}operating`);
  },
);
