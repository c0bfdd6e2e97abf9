// Needs a stack.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addMember, call, callAs, client, insertEntries, insertEntry } from "../helpers/mod.ts";
import { healthOf, newLog, serverFor, signUp } from "../helpers/mod.ts";
import { refusalOf, rolledBack, type Run, runUpkeep, sql, valueOf } from "../helpers/mod.ts";
import { PG_CRON, RUNS, RUNS_LEFT } from "../helpers/pg_cron.ts";
import type { Leased } from "../../supabase/functions/audit-log-streams/queue.ts";

const PROJECT_URL = "https://project.example.com";
const FUNCTION_URL = `${PROJECT_URL}/functions/v1/audit-log-streams`;
const DELIVERED = { decision: "delivered", rejected: [], status: 200, ms: 5, bytes: 100 };
const LIMITS = { seconds: 40, bytes: 900_000, entries: { slack: 25 } };
const REJECTED = { decision: "rejected", rejected: [], status: 400, error: "status 400" };
const WAIT = { decision: "wait", rejected: [], status: 503, error: "status 503" };

interface Stream {
  id: string;
  state: string;
  paused_by: string | null;
  paused_why: string | null;
  loses_entries_at: string | null;
  owner_email: string | null;
  owner_left_at: string | null;
  entries: number;
  entries_rejected: number;
  failures: number;
  last_error: string | null;
  last_status: number | null;
}

interface Own {
  log: string;
  id: string;
}

const TRIGGER_SECRET = "the-secret-that-triggers";

function setUp(run: Run, every = 10, url = FUNCTION_URL) {
  return run`select audit_log_private.set_up_streams(${url}, ${TRIGGER_SECRET}, ${every})`;
}

/** Stands in for what we use of pg_net. */
const PG_NET = `
  create schema net;
  create table net.http_request_queue (url text, headers jsonb);
  create function net.http_post(url text, headers jsonb) returns void language sql as
    'insert into net.http_request_queue values (url, headers)';`;

const SETTINGS = {
  name: "SIEM",
  destination: { kind: "webhook", url: "https://siem.example.com/in" },
  sealed: "k1.secret",
  hint: "…x9Qa",
};

function json(value: unknown): string {
  return `'${JSON.stringify(value).replaceAll("'", "''")}'::jsonb`;
}

function addAs(role: string, log: string, who = role) {
  return sql`
    insert into audit_log.organization_members (organization_id, user_id, role) values (${log}, ${who}, ${role})`;
}

/** Makes a log that `admin` administers and `auditor` may read. */
async function newAdministered(): Promise<string> {
  const { id } = await newLog();
  for (const role of ["admin", "auditor", "member"]) await addAs(role, id);
  return id;
}

function create(log: string, given: object = {}): Promise<Stream> {
  return callAs(sql, "admin", `create_stream('${log}', ${json({ ...SETTINGS, ...given })})`);
}

/** Makes a stream that has passed its test. All other streams pause, because everybody takes from one queue. */
async function newStream(given: { log?: string } & Record<string, unknown> = {}): Promise<Own> {
  await sql`update audit_log_private.streams set paused_at = now() where paused_at is null`;
  await sql`update audit_log_private.stream_home set project_url = null`;
  const log = given.log ?? await newAdministered();
  const { id } = await create(log, { start: "beginning", ...given, log: undefined });
  assertEquals((await deliver()).map(({ what }) => what).slice(0, 1), ["test"]);
  return { log, id };
}

/** Calls a function of the console for a stream. */
function manage(own: Own, name: string, more = "", who = "admin"): Promise<Stream> {
  return callAs(sql, who, `${name}('${own.log}', '${own.id}'${more})`);
}

function change(own: Own, given: object): Promise<Stream> {
  return manage(own, "change_stream", `, ${json(given)}`);
}

async function stateOf(own: Own, who = "admin"): Promise<Stream> {
  const streams: Stream[] = await callAs(sql, who, `list_streams('${own.log}')`);
  return streams.find(({ id }) => id === own.id)!;
}

function batchIn(text: string): Leased | null {
  return JSON.parse(text).batch ?? null;
}

/** Asks for a batch, as the function of a project does. */
function ask(
  { mostBytes = LIMITS.bytes, withTroubled = true, run = sql as Run } = {},
  url: string | null = PROJECT_URL,
) {
  const limits = JSON.stringify({ ...LIMITS, bytes: mostBytes });
  return valueOf<string>(
    run`select audit_log.take_batch(${url}, ${limits}::text::jsonb, ${withTroubled})::text`,
  );
}

const due = () => sql`update audit_log_private.streams set due_at = now() where failures = 0`;
const dueSince = ({ id }: Pick<Own, "id">, ago = "0") =>
  sql`update audit_log_private.streams set due_at = now() - ${ago}::interval where id = ${id}`;

async function take(mostBytes = LIMITS.bytes): Promise<Leased | null> {
  for (;;) {
    await due();
    const text = await ask({ mostBytes });
    if (text !== '{"more": true}') return batchIn(text);
  }
}

async function mustTake(): Promise<Leased> {
  const batch = await take();
  if (!batch) throw new Error("nothing is due");
  return batch;
}

function settle(batch: Leased, outcome: object, wantsMore = false, run: Run = sql) {
  const { organization_id, stream_id, lease } = batch;
  const [ending, limits] = [JSON.stringify(outcome), JSON.stringify(LIMITS)];
  return valueOf<string>(run`
    select audit_log.settle_batch(
      ${organization_id}, ${stream_id}, ${lease}, ${ending}::text::jsonb, ${limits}::text::jsonb, ${wantsMore}
    )::text`);
}

/** Delivers everything that is due, and returns the batches. */
async function deliver(): Promise<Leased[]> {
  const batches: Leased[] = [];
  for (let batch = await take(); batch; batch = await take()) {
    batches.push(batch);
    assertEquals(await settle(batch, DELIVERED), "{}");
  }
  return batches;
}

function namesIn(batches: (Leased | null)[]): string[] {
  return batches.flatMap((batch) => batch!.lines).map((line) => JSON.parse(line).agent_name);
}

async function write(id: string, agent_name: string, run: Run = sql): Promise<void> {
  await insertEntry(run, id, { agent_name });
}

/** Rejects a batch, and with it its entry if that is alone. */
async function reject(batch: Leased): Promise<void> {
  await settle(batch, {
    ...REJECTED,
    rejected: batch.lines.length === 1 ? [rejectionIn(batch)] : [],
  });
}

function rejectionIn({ lines }: Leased) {
  const { id, created_at } = JSON.parse(lines.at(-1)!);
  return { id, created_at, answer: "too long" };
}

/** Has the database raise an error, as at "update on a table" of certain rows. */
async function failAt(run: Run, event: string, when: string, code: string): Promise<void> {
  await run.unsafe(`
    create or replace function pg_temp.fail() returns trigger language plpgsql as
      'begin raise ''broken'' using errcode = ''${code}''; end';
    create trigger fail before ${event} for each row when (${when}) execute function pg_temp.fail()`);
}

async function eventsOf(id: string): Promise<string[]> {
  const rows = await sql`
    select action || ' ' || user_email as event from audit_log.audit_entries
    where organization_id = ${id} and action like 'stream%' order by id`;
  return rows.map(({ event }) => event);
}

async function fail(own: Own, since: string): Promise<void> {
  await sql`
    update audit_log_private.streams set due_at = now(), failing_since = now() - ${since}::interval
    where id = ${own.id}`;
  await settle(batchIn(await ask())!, WAIT);
}

describe("a stream", () => {
  it("gets each entry of its own log once, in the order of commits, also those committed late", async () => {
    const own = await newStream();
    const other = await newLog();
    await write(own.log, "first");
    await write(other.id, "foreign");
    const late = await sql.reserve();
    await late`begin`;
    await write(own.log, "late", late);
    await write(own.log, "second");
    assertEquals(namesIn(await deliver()), ["first", "second"]);
    await late`commit`;
    late.release();
    await write(own.log, "third");
    assertEquals(namesIn(await deliver()), ["late", "third"]);
    assertEquals(await deliver(), []);
    assertEquals((await stateOf(own)).state, "up_to_date");
  });

  it("gets a backlog in batches of bounded entries and bytes, however it ends between them", async () => {
    const own = await newStream();
    await insertEntries(sql, own.log, "2026-03-01", 2500);
    const ids: string[] = [];
    const sizes: number[] = [];
    for (let batch = await take(200_000); batch; batch = await take(200_000)) {
      assert(batch.lines.join("\n").length <= 200_000);
      sizes.push(batch.lines.length);
      ids.push(...batch.lines.map((line) => JSON.parse(line).id));
      await settle(batch, DELIVERED);
    }
    assertEquals([ids.length, new Set(ids).size], [2500, 2500]);
    assertEquals(sizes.slice(0, 2), [sizes[1], sizes[0]]);
    assertEquals((await stateOf(own)).entries, 2500);
    await write(own.log, "x".repeat(200));
    assertEquals(namesIn([await take(100)]), ["x".repeat(200)]);
  });

  it("starts now, at the beginning, or with the entries of a day; resumes so, or where it was", async () => {
    const log = await newAdministered();
    await insertEntry(sql, log, { agent_name: "old", created_at: "2026-03-01T10:00Z" });
    await insertEntry(sql, log, { agent_name: "new", created_at: "2026-03-02T00:00Z" });
    const own = await newStream({ start: "now", log });
    assertEquals(await deliver(), []);
    await write(log, "1");
    await manage(own, "pause_stream");
    assertEquals([await take(), (await stateOf(own)).state], [null, "paused"]);
    await manage(own, "resume_stream");
    assertEquals(namesIn(await deliver()), ["1"]);
    await manage(own, "pause_stream");
    await write(log, "2");
    await manage(own, "resume_stream", ", 'now'");
    assertEquals(await deliver(), []);
    await manage(own, "resume_stream", ", '2026-03-02'");
    assertEquals((await stateOf(own)).state, "catching_up");
    assertEquals(namesIn(await deliver()), ["new", "1", "2"]);
    for (const start of ["2999-01-01", "infinity"]) {
      await sql`update audit_log_private.stream_limits set backfilled_at = null`;
      assertMatch(await refusalOf(manage(own, "resume_stream", `, '${start}'`)), /^22023 .* past/);
    }
  });

  it("gets the entries of its actions only, and an idle log calls nobody", async () => {
    const runs = () => valueOf<number>(sql`select audit_log_private.runs_due()`);
    const own = await newStream({ actions: ["feedback_given"] });
    await insertEntries(sql, own.log, "2026-03-01", 20);
    assertEquals((await deliver()).flatMap(({ lines }) => lines).length, 10);
    await due();
    assertEquals(await runs(), 0);
    await write(own.log, "agent_added");
    await due();
    assertEquals(await runs(), 0);
    await insertEntry(sql, own.log, { action: "feedback_given", agent_name: "it" });
    assertEquals(await runs(), 0, "it was looked at less than 4 seconds ago");
    await due();
    assertEquals(await runs(), 1);
    assertEquals(namesIn(await deliver()), ["it"]);
  });

  it("gets a seal after all entries that it covers, and the chain without a gap", async () => {
    const own = await newStream({ includes_seals: true });
    await insertEntries(sql, own.log, "2026-03-01", 1200);
    await insertEntries(sql, own.log, "2026-03-02", 10);
    await runUpkeep(sql);
    const order = async () => (await deliver()).map(({ what, lines }) => `${what} ${lines.length}`);
    assertEquals(await order(), ["entries 1000", "entries 210", "seals 2"]);
    await insertEntry(sql, own.log, { created_at: "2026-03-01T12:00Z" });
    await runUpkeep(sql);
    const [late, seal, ...rest] = await deliver();
    assertEquals([late?.what, seal?.what, rest], ["entries", "seals", []]);
    const { day, added, sequence } = JSON.parse(seal?.lines[0] ?? "");
    assertEquals([day, added, sequence], ["2026-03-01", 1, 3]);
  });

  it("gets every seal again if one of them is rejected", async () => {
    const own = await newStream({ includes_seals: true });
    await insertEntry(sql, own.log, { created_at: "2026-03-01T12:00Z" });
    await runUpkeep(sql);
    await settle(await mustTake(), DELIVERED);
    const seals = await mustTake();
    assertEquals(seals.what, "seals");
    const rejected = [{ id: "x", created_at: "x", answer: "no mapping" }];
    await settle(seals, { ...DELIVERED, rejected });
    assertEquals((await stateOf(own)).failures, 1);
    await dueSince(own);
    assertEquals((await take())?.lines, seals.lines);
  });

  it("gets no seal before its entries behind very many that it does not get", async () => {
    const own = await newStream({ includes_seals: true, actions: ["feedback_given"] });
    await insertEntries(sql, own.log, "2026-03-01", 10_500, { action: "agent_added" });
    await insertEntry(sql, own.log, { created_at: "2026-03-01T23:59Z", action: "feedback_given" });
    await runUpkeep(sql);
    // A step that examines 10,000 entries without one for it sends nothing.
    assertEquals((await deliver()).map(({ what }) => what), ["entries", "seals"]);
  });
});

describe("a lease", () => {
  it("fences: who comes back after its end moves nothing, and the batch is delivered by the next one", async () => {
    const own = await newStream();
    await write(own.log, "1");
    const slow = await mustTake();
    assertEquals(await take(), null);
    await sql`update audit_log_private.streams set leased_until = now() where id = ${own.id}`;
    const next = await mustTake();
    assertEquals([next.lines, next.name], [slow.lines, slow.name]);
    assertEquals(await settle(slow, DELIVERED), '{"lost": true}');
    assertEquals((await stateOf(own)).entries, 0);
    assertEquals(await settle(next, DELIVERED), "{}");
    assertEquals(await settle(next, DELIVERED), '{"lost": true}');
    assertEquals([(await stateOf(own)).entries, await deliver()], [1, []]);
  });

  it("that ends twice in a row without a word makes its stream wait, so that it ends no function for ever", async () => {
    const own = await newStream();
    await write(own.log, "1");
    await due();
    const waits = [];
    for (let n = 0; n < 3; n++) {
      waits.push(await ask() === "{}");
      await sql`update audit_log_private.streams set leased_until = now() where lease is not null`;
    }
    assertEquals(waits, [false, false, true]);
    await dueSince(own);
    assertEquals(namesIn(await deliver()), ["1"]);
    assertEquals((await stateOf(own)).failures, 0);
  });

  it("names a batch by its lines: it never has the name of one with other lines", async () => {
    const own = await newStream();
    await write(own.log, "1");
    const first = await mustTake();
    await settle(first, WAIT);
    await write(own.log, "2");
    await manage(own, "retry_stream");
    await sql`update audit_log_private.streams set failures = 0`;
    const second = await mustTake();
    assertEquals(namesIn([second]), ["1", "2"]);
    assert(second.name !== first.name);
  });

  it("settles what was delivered, also when the next batch or an event about it cannot be made", async () => {
    const own = await newStream();
    await insertEntries(sql, own.log, "2026-03-01", 1001);
    for (const code of ["P0001", "57014"]) {
      await rolledBack(sql, async (run) => {
        await run`update audit_log.organizations set logs_key_events = true where id = ${own.log}`;
        await run`update audit_log_private.streams set due_at = now(), told_at = now() where id = ${own.id}`;
        const batch = batchIn(await ask({ run }))!;
        const leased = "old.lease is null and new.lease is not null";
        await failAt(run, "update on audit_log_private.streams", leased, code);
        await failAt(run, "insert on audit_log.audit_entries", "true", code);
        assertEquals(await settle(batch, DELIVERED, true, run), "{}");
        const [stream] = await run`
          select entries::int, lease from audit_log_private.streams where id = ${own.id}`;
        assertEquals(stream, { entries: 1000, lease: null });
      });
    }
  });

  it("hands out the next batch at once to who wants it, while the stream is not paused", async () => {
    const own = await newStream();
    await insertEntries(sql, own.log, "2026-03-01", 2500);
    const second = batchIn(await settle(await mustTake(), DELIVERED, true));
    assertEquals(second?.lines.length, 1000);
    await manage(own, "pause_stream");
    assertEquals(await settle(second!, DELIVERED, true), "{}");
    assertEquals((await stateOf(own)).entries, 2000);
  });

  it("ends when the stream is deleted, changed or started elsewhere, or its organization leaves", async () => {
    const ends: ((own: Own) => Promise<unknown>)[] = [
      (own) => manage(own, "delete_stream"),
      (own) =>
        change(own, { destination: { kind: "webhook", url: "https://siem.example.com/other" } }),
      (own) => manage(own, "resume_stream", ", 'now'"),
      ({ log }) => sql`select audit_log_private.delete_organization(${log})`,
    ];
    for (const end of ends) {
      const own = await newStream();
      await write(own.log, "1");
      const batch = await mustTake();
      await end(own);
      assertEquals(await settle(batch, DELIVERED, true), '{"lost": true}');
    }
  });
});

describe("a destination that rejects", () => {
  it("gets half as many at once, also in the next run, and more again when it accepts", async () => {
    const own = await newStream();
    await insertEntries(sql, own.log, "2026-03-01", 1000);
    const first = await mustTake();
    const half = batchIn(await settle(first, REJECTED, true));
    assertEquals(half?.lines, first.lines.slice(0, 500));
    await settle(half!, REJECTED);
    const quarter = await mustTake();
    assertEquals(quarter.lines, first.lines.slice(0, 250));
    await settle(quarter, DELIVERED);
    assertEquals((await mustTake()).lines, first.lines.slice(250, 750));
  });

  it("ten entries in a row and the newest rejects all: none of them is left out, no seal passes them, and another secret brings them back at once", async () => {
    for (const more of [0, 2]) {
      const own = await newStream({ includes_seals: true });
      await insertEntries(sql, own.log, "2026-03-01", 10 + more);
      await runUpkeep(sql);
      const rejectNext = async () => {
        await dueSince(own);
        await reject(batchIn(await ask())!);
      };
      await sql`update audit_log_private.streams set at_once = 1 where id = ${own.id}`;
      for (let n = 0; n < 10; n++) await rejectNext();
      await dueSince(own);
      assertEquals(await valueOf(sql`select audit_log_private.runs_due()`), 1);
      await rejectNext();
      const { state, failures, entries_rejected, last_error } = await stateOf(own);
      assertEquals([state, failures, entries_rejected], ["retrying", 1, 0]);
      assertMatch(last_error ?? "", /^every entry is rejected: /);
      for (let n = 0; n < 3; n++) await rejectNext();
      assertEquals((await stateOf(own)).entries_rejected, 3);
      await change(own, { sealed: "k1.new" });
      assertEquals((await stateOf(own)).entries_rejected, 0);
      const batches = await deliver();
      assertEquals([batches[0]?.what, batches.at(-1)?.what], ["test", "seals"]);
      const ids = batches.flatMap(({ lines }) => lines).map((line) => JSON.parse(line).id);
      assertEquals(new Set(ids.slice(1, -1)).size, 10 + more);
    }
  });

  it("the last entries of a log has no seal pass them, and is told as failing", async () => {
    const own = await newStream({ includes_seals: true });
    await insertEntry(sql, own.log, { created_at: "2026-03-01T12:00Z" });
    await runUpkeep(sql);
    await reject(await mustTake());
    assertEquals(await take(), null);
    const { state, last_error, last_status } = await stateOf(own);
    assertEquals([state, last_error, last_status], ["retrying", "status 400", 400]);
    await sql`
      update audit_log_private.streams set failing_since = now() - interval '20 minutes' where id = ${own.id}`;
    assertEquals((await stateOf(own)).state, "failing");
    await write(own.log, "2");
    assertEquals((await deliver()).map(({ what }) => what), ["entries", "seals"]);
    assertEquals((await stateOf(own)).state, "up_to_date");
  });

  it("more than 1,000 entries gets no more", async () => {
    const own = await newStream();
    await sql`
      insert into audit_log_private.rejected_entries (organization_id, stream_id, created_at, entry_id, rejected_at)
      select ${own.log}, ${own.id}, now(), gen_random_uuid(), now() from generate_series(1, 1000)`;
    await write(own.log, "1");
    await write(own.log, "2");
    const batch = await mustTake();
    await settle(batch, { ...DELIVERED, rejected: [rejectionIn(batch)] });
    const { state, entries, entries_rejected } = await stateOf(own);
    assertEquals([state, entries, entries_rejected], ["retrying", 0, 1000]);
  });
});

describe("a destination that does not answer", () => {
  it("is tried after 10 seconds, then twice as long each time, up to an hour, or when it says", async () => {
    const own = await newStream();
    await write(own.log, "1");
    const waits = async (failures: number, outcome: object) => {
      await sql`
        update audit_log_private.streams set failures = 0, paused_at = null, due_at = now() where id = ${own.id}`;
      const batch = await mustTake();
      await sql`update audit_log_private.streams set failures = ${failures} where id = ${own.id}`;
      await settle(batch, outcome);
      return await valueOf<number>(sql`
        select extract(epoch from s.due_at - max(a.at))::float8
        from audit_log_private.streams s join audit_log_private.stream_attempts a on a.stream_id = s.id
        where s.id = ${own.id} group by s.due_at`);
    };
    const expected = { 0: 10, 1: 20, 5: 320, 8: 2560, 40: 3600 };
    for (const [failures, seconds] of Object.entries(expected)) {
      const waited = await waits(Number(failures), WAIT);
      const most = Math.min(seconds * 1.25, 3600) + 1;
      assert(waited >= seconds * 0.75 && waited < most, `${failures}: ${waited}`);
    }
    assertEquals(Math.floor(await waits(3, { ...WAIT, status: 429, wait_s: 33 })), 33);
    assertEquals(Math.floor(await waits(0, { ...WAIT, wait_s: 99999 })), 3600);
    assertEquals((await stateOf(own)).entries, 0);
  });

  it("is paused when it says that it is gone; nothing is lost", async () => {
    const own = await newStream();
    await write(own.log, "1");
    const gone = { decision: "gone", rejected: [], status: 410, error: "status 410" };
    await settle(await mustTake(), gone, true);
    const { state, paused_by, paused_why } = await stateOf(own);
    assertEquals([state, paused_by], ["paused", null]);
    assertStringIncludes(paused_why ?? "", "410");
    const told = await valueOf<string>(sql`select audit_log_private.troubled_streams()::text`);
    assertStringIncludes(told, own.id);
    assertEquals(await take(), null);
    await manage(own, "resume_stream");
    assertEquals(namesIn(await deliver()), ["1"]);
  });

  it("is left in peace when retention has deleted what it did not take", async () => {
    const own = await newStream();
    await insertEntry(sql, own.log, { created_at: "2026-03-01T12:00Z" });
    await fail(own, "20 minutes");
    assertEquals((await stateOf(own)).state, "failing");
    await sql`select audit_log_private.delete_entries_before(${own.log}, '2026-03-02')`;
    await dueSince(own);
    assertEquals(batchIn(await ask()), null);
    const { state, last_error } = await stateOf(own);
    assertEquals([state, last_error], ["up_to_date", null]);
  });

  it("is told once an episode in a log of key events, with its recovery", async () => {
    const log = await newAdministered();
    await sql`update audit_log.organizations set logs_key_events = true where id = ${log}`;
    const own = await newStream({ log });
    await deliver();
    for (let episode = 0; episode < 2; episode++) {
      await write(log, "1");
      await fail(own, "1 minute");
      assertEquals((await stateOf(own)).state, "retrying");
      for (let n = 0; n < 3; n++) await fail(own, "20 minutes");
      assertEquals((await stateOf(own)).state, "failing");
      await sql`update audit_log_private.streams set failures = 0`;
      await deliver();
    }
    // Whoever resumes it ends none.
    await write(log, "1");
    for (let n = 0; n < 2; n++) await fail(own, "20 minutes");
    await manage(own, "resume_stream");
    for (let n = 0; n < 2; n++) await fail(own, "20 minutes");
    await manage(own, "resume_stream");
    await deliver();
    const told = (await eventsOf(log)).map((event) => event.replace(/^stream_(\w+) .*/, "$1"));
    const episode = ["failing", "recovered"];
    const resumed = ["failing", "changed", "changed", "recovered"];
    assertEquals(told, ["created", ...episode, ...episode, ...resumed]);
    const sinces = await valueOf<number>(sql`
      select count(data ->> 'since')::int from audit_log.audit_entries where organization_id = ${log}`);
    assertEquals(sinces, 6);
  });
});

describe("turns", () => {
  it("go first to streams that answer, and quickly; a busy function takes only those", async () => {
    const quick = await newStream();
    const [backlog, failing] = [await create(quick.log), await create(quick.log)];
    await sql`
      update audit_log_private.streams
      set test_asked_at = null, due_at = now() - interval '2 seconds',
        last_ms = 0, failures = (id = ${failing.id})::int, cursor = null
      where organization_id = ${quick.log}`;
    await write(quick.log, "1");
    await dueSince(quick, "3 seconds");
    const taken = async (withTroubled = true) => batchIn(await ask({ withTroubled }))?.stream_id;
    const turns = [await taken(), await taken(false), await taken(false), await taken()];
    assertEquals(turns, [quick.id, backlog.id, undefined, failing.id]);
    // Whoever waits for long is not passed over.
    await sql`
      update audit_log_private.streams set lease = null, leased_until = null, due_at = case
        when id = ${failing.id} then now() - interval '2 minutes' else now() end
      where organization_id = ${quick.log}`;
    assertEquals(await taken(), failing.id);
  });

  it("are not kept from others by a stream for which the database raises an error, or has no time", async () => {
    const own = await newStream();
    const { id: broken } = await create(own.log);
    await write(own.log, "1");
    for (const code of ["P0001", "57014"]) {
      await rolledBack(sql, async (run) => {
        await run`
          update audit_log_private.streams
          set due_at = now() - case when id = ${broken} then interval '5 minutes' else interval '0' end,
            failing_since = case when id = ${broken} then now() - interval '1 hour' end, test_asked_at = null,
            actions = case when id = ${broken} then array['feedback_given'] end,
            batch_what = 'entries', batch_entries = 2
          where organization_id = ${own.log}`;
        const passedOver = `new.id = '${broken}' and new.failures = old.failures`;
        await failAt(run, "update on audit_log_private.streams", passedOver, code);
        const [row] = await run`select audit_log_private.runs_due() as runs`;
        assertEquals(row?.["runs"], 1);
        // Of a statement whose time is over, nothing more can be asked.
        if (code === "57014") assertEquals(await ask({ run }), '{"more": true}');
        assertEquals(batchIn(await ask({ run }))?.stream_id, own.id);
        const told = run`
          select last_error || case when told_at is null then '' else ', told' end || ', ' || at_once
          from audit_log_private.streams where id = ${broken}`;
        assertEquals(await valueOf(told), "the database: broken, told, 1000");
      });
    }
  });

  it("come to a stream whose wait and lease are in the far future since the clock was set back", async () => {
    const own = await newStream();
    await write(own.log, "1");
    await mustTake();
    await sql`
      update audit_log_private.streams
      set due_at = now() + interval '5 hours', leased_until = now() + interval '5 hours' where id = ${own.id}`;
    assertEquals(namesIn([batchIn(await ask())]), ["1"]);
  });
});

describe("a copy of the database", () => {
  it("sends nothing until adopt_streams(); then each stream goes on where it was", async () => {
    const own = await newStream();
    await write(own.log, "1");
    await deliver();
    await write(own.log, "2");
    const home = await valueOf<string>(sql`select home from audit_log_private.stream_home`);
    // What differs in a copy: the cluster, the timeline, the database, or the epoch.
    for (const n of [0, 1, 2, 3]) {
      const other = home.split(" ").with(n, "7").join(" ");
      await sql`update audit_log_private.stream_home set home = ${other}`;
      await due();
      assertMatch(await ask(), /this database is a copy/);
      assertEquals(await valueOf(sql`select audit_log_private.runs_due()`), 0);
      assertEquals((await stateOf(own)).state, "restored");
    }
    await sql`select audit_log_private.adopt_streams()`;
    assertEquals(namesIn(await deliver()), ["2"]);
  });

  it("is one with another Edge Function, too: the first that is set up is the only one, until adopt_streams(); what it does not get stalls", async () => {
    const own = await newStream();
    await write(own.log, "0");
    await due();
    // Asking sets nothing up: whoever has the secret key could stop all streams.
    await settle(batchIn(await ask({}, "https://staging.example.com"))!, DELIVERED);
    await write(own.log, "1");
    await setUp(sql);
    await setUp(sql, 10, "https://staging.example.com/functions/v1/a");
    await dueSince(own, "6 minutes");
    assertEquals((await stateOf(own)).state, "stalled");
    for (const url of [null, "https://staging.example.com"]) {
      assertMatch(await ask({}, url), /streams are sent by .*until adopt_streams/);
    }
    assertEquals((await stateOf(own)).state, "stalled");
    await settle(await mustTake(), WAIT);
    await sql`select audit_log_private.adopt_streams()`;
    await setUp(sql, 10, "https://Staging.example.com/functions/v1/a");
    for (const url of [null, PROJECT_URL]) assertMatch(await ask({}, url), /streams are sent by/);
    assertEquals(namesIn([batchIn(await ask({}, "https://staging.example.com/"))]), ["1"]);
  });
});

describe("administrators", () => {
  it("test a stream before it sends anything, and after each change of where it sends; a name needs no test", async () => {
    const log = await newAdministered();
    await write(log, "1");
    const own = await newStream({ log });
    const whats = async () => (await deliver()).map(({ what }) => what);
    assertEquals(await whats(), []);
    await write(log, "2");
    await change(own, { name: "Other" });
    assertEquals(await whats(), ["entries"]);
    const destination = { kind: "webhook", url: "https://siem.example.com/other" };
    await change(own, { destination });
    await write(log, "3");
    const test = await mustTake();
    assertEquals(test.what, "test");
    await settle(test, WAIT);
    assertEquals((await stateOf(own)).state, "test_failed");
    await manage(own, "retry_stream");
    await sql`update audit_log_private.streams set failures = 0`;
    assertEquals(await whats(), ["test", "entries"]);
  });

  it("give a secret that no one reads again, and again for another kind or host, not for another path; it can sign beside its successor", async () => {
    const own = await newStream();
    const shown = JSON.stringify([
      await stateOf(own),
      await manage(own, "read_stream", "", "auditor"),
      await change(own, { sealed: "k1.new", hint: "…new", signs_both: true }),
    ]);
    assert(!shown.includes("k1.secret") && !shown.includes("k1.new"));
    await change(own, { destination: { kind: "webhook", url: "https://SIEM.example.com/other" } });
    const { what, sealed, sealed_before } = await mustTake();
    assertEquals([what, sealed, sealed_before], ["test", "k1.new", "k1.secret"]);
    const others = { splunk: "https://siem.example.com/in", webhook: "https://evil.example" };
    for (const [kind, url] of Object.entries(others)) {
      const destination = { kind, url };
      assertMatch(await refusalOf(change(own, { destination })), /^22023 .* again/);
      await change(own, { destination, sealed: "k1.other", signs_both: true });
      const batch = await mustTake();
      assertEquals([batch.what, batch.sealed, batch.sealed_before], ["test", "k1.other", null]);
      await settle(batch, DELIVERED);
    }
  });

  it("have bounds: five streams, twenty tests and changes an hour, one start at an earlier time a day", async () => {
    const own = await newStream();
    const { log } = own;
    // What has delivered nothing does not count, as where all is too old for a destination.
    await create(log, { start: "2026-03-01" });
    await write(log, "1");
    await deliver();
    assertMatch(await refusalOf(create(log, { start: "2026-03-01" })), /^AL006 .* after 20/);
    for (let n = 0; n < 3; n++) await create(log);
    assertMatch(await refusalOf(create(log)), /^AL005 /);
    for (let n = 0; n < 15; n++) await manage(own, "retry_stream", ", test => true");
    for (const name of ["retry_stream", "resume_stream"]) {
      assertMatch(await refusalOf(manage(own, name)), /^AL006 .* after 20/);
    }
    assertMatch(await refusalOf(change(own, {})), /^AL006 /);
    assertEquals((await manage(own, "pause_stream")).state, "paused");
    await manage(own, "delete_stream");
    const foreign = await newAdministered();
    assertEquals((await create(foreign, { start: "beginning" })).failures, 0);
  });

  it("take nothing without a record: what is sent counts as read once, whatever the answer; the record outlives the stream, and says who sent it where", async () => {
    const own = await newStream();
    for (const name of ["1", "2", "3", "3"]) {
      if (name !== "3") await write(own.log, name);
      await dueSince(own);
      await settle(batchIn(await ask())!, WAIT);
    }
    await write(own.log, "3");
    await dueSince(own);
    assertEquals(namesIn([batchIn(await ask())]), ["1", "2", "3"]);
    await addAs("admin", own.log, "eve");
    const destination = { ...SETTINGS.destination, url: "https://eve.example.com:8443/in" };
    await manage(own, "change_stream", `, ${json({ destination, sealed: "k1.eve" })}`, "eve");
    assertEquals((await deliver()).length, 2);
    await manage(own, "delete_stream", "", "eve");
    const usage = await callAs<{ user_id: string; user_email: string | null; entries: number }[]>(
      sql,
      "auditor",
      `api_key_usage('${own.log}', current_date - 1, current_date + 1)`,
    );
    assertEquals(
      usage.map(({ user_id, user_email, entries }) => [user_id, user_email, entries]).sort(),
      [
        [`stream ${own.id} to eve.example.com:8443 of eve`, "eve@example.com", 3],
        [`stream ${own.id} to siem.example.com of admin`, "admin@example.com", 3],
      ],
    );
  });

  it("learn of no entry by the state of a stream that is paused, or that waits and gets other actions", async () => {
    for (const pauses of [true, false]) {
      const own = await newStream();
      await sql`update audit_log.organizations set keep_days = 30 where id = ${own.log}`;
      await write(own.log, "1");
      if (pauses) await deliver();
      else await fail(own, "1 minute");
      if (pauses) await manage(own, "pause_stream");
      const before = await change(own, { actions: ["feedback_given"] });
      await insertEntry(sql, own.log, { action: "feedback_given", created_at: "2026-03-01Z" });
      assertEquals(await stateOf(own), before);
    }
  });

  it("get 22023 for a destination, a secret or a name that is not lawful, and for fields that are unknown", async () => {
    const log = await newAdministered();
    const at = (url: unknown, more = {}) => ({ destination: { kind: "webhook", url, ...more } });
    const names = ["", "a\u202eb", "x".repeat(101)];
    const secrets = ["", "a b", "x".repeat(20_001)];
    const hints = ["x".repeat(21), "a\n"];
    const urls = [null, "http://a.example", "https://u:p@a.example/", "https://a.example:22/"];
    urls.push("https://a.example:70000/", "https://a.example/ b", "https://[::1]/");
    urls.push("https:///in", "a.example/in", "https://a.example?b", "HTTPS://a.example/");
    urls.push(`https://a.example/${"x".repeat(2000)}`);
    // lower() makes ASCII of these.
    urls.push("https://\u212a.example/", "https://\u0130.example/");
    const others = [{ headers: {} }, { kind: true }, { url: true }, { body: true }, { region: 1 }];
    const unlawful = [
      ...names.map((name) => ({ name })),
      ...secrets.map((sealed) => ({ sealed })),
      ...hints.map((hint) => ({ hint })),
      ...urls.map((url) => at(url)),
      ...[{ destination: null }, { destination: {} }, { destination: [] }],
      ...others.map((more) => at("https://a.example", more)),
      ...[{ actoins: [] }, { actions: ["nothing"] }],
    ];
    for (const given of unlawful) {
      await sql`delete from audit_log_private.stream_limits where organization_id = ${log}`;
      assertMatch(await refusalOf(create(log, given)), /^22023 /, JSON.stringify(given));
    }
    for (const given of ["null", "[]", '"x"']) {
      const settings = sql`select audit_log_private.with_settings(null, ${given}::text::jsonb)`;
      const refusal = "22023 give a stream as an object with name and destination";
      assertEquals(await refusalOf(settings), refusal);
    }
    const lawful = ["https://a.example", "https://A.example.:8088/x?y=z", "https://9.255.0.1/"];
    for (const url of [...lawful, "https://1password.example:443/"]) {
      assertEquals((await create(log, at(url))).state, "testing");
    }
  });

  it("alone change streams: auditors see them; members and other organizations do not", async () => {
    const own = await newStream();
    const elsewhere = { ...own, log: await newAdministered() };
    const verbs = ["read", "change", "retry", "pause", "resume", "delete"];
    for (const who of ["auditor", "member", "stranger", "admin"]) {
      for (const verb of verbs.slice(who === "auditor" ? 1 : 0)) {
        const stream = who === "admin" ? elsewhere : own;
        const call = manage(stream, `${verb}_stream`, verb === "change" ? ", '{}'" : "", who);
        assertMatch(await refusalOf(call), /^42501 /, `${who} ${verb}`);
      }
    }
    for (const who of ["member", "stranger"]) {
      assertMatch(await refusalOf(stateOf(own, who)), /^42501 /);
    }
  });
});

describe("the platform's server", () => {
  /** Manages a stream with the secret key. Returns the new stream, and what the calls answered after that. */
  async function manageAll(server: ReturnType<typeof client>, organization_id: string) {
    const { data } = await server.rpc("create_stream", { organization_id, stream: SETTINGS })
      .throwOnError();
    const of = { organization_id, stream_id: (data as unknown as Stream).id };
    const paused = await server.rpc("pause_stream", of);
    const destination = { ...SETTINGS.destination, url: "https://siem.example.com/in/pa.th?token" };
    const answers = [
      paused,
      await server.rpc("list_streams", { organization_id }),
      await server.rpc("read_stream", of),
      await server.rpc("change_stream", { ...of, change: { destination, sealed: "k1.other" } }),
      await server.rpc("retry_stream", of),
      await server.rpc("resume_stream", of),
      await server.rpc("delete_stream", of),
    ];
    return { made: data as unknown as Stream, paused: paused.data as unknown as Stream, answers };
  }

  it("manages streams in a person's name, with a record, and is told no secret; without a person it names none", async () => {
    const log = await newAdministered();
    await sql`update audit_log.organizations set logs_key_events = true where id = ${log}`;
    const grace = { id: "user_2b", email: "grace@example.com" };
    const { made, paused, answers } = await manageAll(serverFor(grace), log);
    assertEquals(answers.map(({ error }) => error), Array(7).fill(null));
    assert(!JSON.stringify([made, answers.map(({ data }) => data)]).includes("k1."));
    assertEquals([made.owner_email, paused.paused_by], [grace.email, grace.email]);
    const kinds = ["created", "paused", "changed", "changed", "deleted"];
    assertEquals(await eventsOf(log), kinds.map((kind) => `stream_${kind} ${grace.email}`));
    const [row] = await sql`
      select jsonb_agg(distinct data #> '{caller,on_behalf_of}') as people, string_agg(data::text, ' ') as data
      from audit_log.audit_entries where organization_id = ${log}`;
    assertEquals(row?.["people"], [grace]);
    assertStringIncludes(row?.["data"], '"host": "siem.example.com"');
    assertStringIncludes(row?.["data"], '"fields": ["sealed", "destination"]');
    assert(!/k1\.|pa\.th|token/.test(row?.["data"]));
    const nobody = await manageAll(client("service_role"), log);
    assertEquals(nobody.answers.map(({ error }) => error), Array(7).fill(null));
    assertEquals([nobody.made.owner_email, nobody.paused.paused_by], [null, "the platform"]);
  });

  it("changes nothing without the record that the organization wants", async () => {
    const log = await newAdministered();
    await sql`update audit_log.organizations set logs_key_events = true where id = ${log}`;
    await rolledBack(sql, async (run) => {
      await failAt(run, "insert on audit_log.audit_entries", "true", "XX000");
      await run`set local role service_role`;
      await run`select set_config('request.headers', '{}', true)`;
      const making = run.unsafe(`select audit_log.create_stream('${log}', ${json(SETTINGS)})`);
      assertMatch(await refusalOf(making), /broken/);
    });
  });

  it("manages none of an organization that leaves, and a person's headers change nothing", async () => {
    const [log, admin] = [await newAdministered(), await signUp()];
    await addMember(log, admin, "admin");
    const { data } = await admin.client.rpc("create_stream", {
      organization_id: log,
      stream: SETTINGS,
    }).setHeader("X-Audit-Person", "eve@example.com").throwOnError();
    assertEquals((data as unknown as Stream).owner_email, admin.email);
    await sql`update audit_log.organizations set closed_at = now() where id = ${log}`;
    const { error } = await client("service_role").rpc("list_streams", { organization_id: log });
    assertEquals(error?.code, "42501");
  });
});

describe("a stream whose owner has left", () => {
  it("is marked by the upkeep, too, once the owner's account was deleted", async () => {
    const [log, owner] = [await newAdministered(), await signUp()];
    await addMember(log, owner, "admin");
    await call(owner, "create_stream", { organization_id: log, stream: SETTINGS });
    await create(log);
    const marked = async () => {
      await runUpkeep(sql);
      return await valueOf(sql`
        select array_agg(owner) from audit_log_private.streams
        where organization_id = ${log} and owner_left_at is not null`);
    };
    assertEquals(await marked(), null);
    await sql`delete from auth.users where id = ${owner.id}`;
    assertEquals(await marked(), [owner.id]);
  });

  it("goes on, and is named until an administrator changes or resumes it, and becomes its owner; with revoke, it is paused", async () => {
    const own = await newStream();
    const { log } = own;
    const leave = (revoke = false) =>
      valueOf(sql`select audit_log.person_left(${log}, 'admin', ${revoke})`);
    const named = async () =>
      (await healthOf<Stream>(sql, log, "troubled_streams")).filter((s) => s.owner_left_at).length;
    await addAs("admin", log, "next");
    assertEquals(await named(), 0);
    await sql`delete from audit_log.organization_members where organization_id = ${log} and user_id = 'admin'`;
    assertEquals(await named(), 1);
    await write(log, "1");
    assertEquals(namesIn(await deliver()), ["1"]);
    await manage(own, "change_stream", ", '{}'", "next");
    assertEquals([await named(), await leave()], [0, { keys: 0, streams: 0 }]);
    await sql`update audit_log.organizations set logs_key_events = true where id = ${log}`;
    for (let n = 0; n < 2; n++) await sql`select audit_log.person_left(${log}, 'next', true)`;
    assertEquals(await eventsOf(log), ["stream_paused unknown@invalid"]);
    const { state, paused_why } = await stateOf(own, "next");
    assertEquals([state, paused_why], ["paused", "its owner has left"]);
    await addAs("admin", log, "third");
    assertEquals(await named(), 1);
    const { owner_email } = await manage(own, "resume_stream", "", "third");
    assertEquals([await named(), owner_email], [0, "third@example.com"]);
  });
});

describe("operators", () => {
  it("are told of a stream that retention will rob, that fails, or that nobody serves; metrics have its lag", async () => {
    const told = async (id: string) =>
      (await healthOf<Stream>(sql, id, "troubled_streams"))
        .map(({ state, loses_entries_at }) => [state, loses_entries_at?.slice(0, 10) ?? null]);
    const own = await newStream();
    const day = (days: number) =>
      valueOf<string>(sql`select ((now() at time zone 'UTC')::date + ${days}::int)::text`);
    await insertEntry(sql, own.log, { created_at: `${await day(-24)}T12:00Z` });
    await sql`update audit_log.organizations set keep_days = 30 where id = ${own.log}`;
    await fail(own, "1 minute");
    assertEquals(await told(own.log), [["retrying", await day(7)]]);
    // People are told by its cursor, and not by an entry.
    assertEquals((await stateOf(own)).loses_entries_at?.slice(0, 10), await day(31));
    // It may be behind more entries than are looked at once.
    await insertEntries(sql, own.log, await day(-24), 10_000, { action: "agent_added" });
    await change(own, { actions: ["feedback_given"] });
    assertEquals(await told(own.log), [["retrying", await day(7)]]);
    await change(own, { actions: null });
    await sql`update audit_log.organizations set hold_reason = 'Matter 6' where id = ${own.log}`;
    assertEquals(await told(own.log), []);
    await fail(own, "20 minutes");
    assertEquals(await told(own.log), [["failing", null]]);
    await sql`
      update audit_log_private.streams set due_at = now() - interval '6 minutes', caught_up_at = now() - interval '1 hour'
      where id = ${own.id}`;
    assertEquals(await told(own.log), [["stalled", null]]);
    const lag = await valueOf<number>(sql`
      select value from audit_log_private.metrics() where labels ->> 'stream_id' = ${own.id}`);
    assert(lag >= 3600 && lag < 3700, `${lag}`);
  });

  it("are called with the trigger secret only, once while pg_net has not posted; what pg_cron records of it is deleted after a day", async () => {
    const own = await newStream();
    await write(own.log, "1");
    await due();
    await rolledBack(sql, async (run) => {
      await run.unsafe(PG_CRON + PG_NET);
      assertEquals(await valueOf(setUp(run, 60)), "scheduled every 60 seconds");
      assertEquals(await valueOf(setUp(run, 10)), "scheduled every 10 seconds");
      const ours =
        await run`select command from cron.job where schedule in ('10 seconds', '7 * * * *')`;
      const [call, deleteRuns] = ours.map(({ command }) => command);
      const queue = () => run`select url, headers from net.http_request_queue`;
      for (const _time of "123") await run.unsafe(call);
      const headers = { "x-trigger-secret": TRIGGER_SECRET };
      assertEquals([...await queue()], [{ url: FUNCTION_URL, headers }]);
      await run`delete from net.http_request_queue`;
      await run.unsafe(call);
      assertEquals((await queue()).length, 1);
      await run.unsafe(RUNS);
      await run.unsafe(deleteRuns);
      assertEquals([...await run.unsafe(RUNS_LEFT)], [{ ours: 4, theirs: 5 }]);
    });
  });

  it("get no scheduled call without pg_cron and pg_net, and are told what to do instead", async () => {
    await rolledBack(sql, async (run) => {
      const own = await newStream();
      await write(own.log, "1");
      await due();
      assertStringIncludes(await valueOf(setUp(run, 10)), "runs_due()");
      // The trigger secret is in no error, as when pg_net is gone.
      const error = await run`select audit_log_private.call_streams_function()`.catch((error) =>
        error
      );
      assertMatch(JSON.stringify({ ...error }), /http_post(?!.*the-secret)/);
    });
  });

  it("give the function's address as its SUPABASE_URL has it, with which it is compared, and 5 to 60 seconds", async () => {
    const wrong = ["https://project.example.com:443", "https://u:p@project.example.com"];
    wrong.push("http://127.0.0.1:80", "https://", "ftp://project.example.com", PROJECT_URL);
    for (const start of wrong) {
      const seconds = start === PROJECT_URL ? 3 : 10;
      const setting = setUp(sql, seconds, `${start}/a`);
      assertMatch(await refusalOf(setting), /^22023 .*SUPABASE_URL/, start);
    }
  });
});
