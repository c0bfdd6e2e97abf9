// Needs a stack.

import { assert, assertEquals, assertMatch, assertObjectMatch } from "@std/assert";
import { assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { insertEntries, insertEntry, newLog, refusalOf, rolledBack } from "../helpers/mod.ts";
import { runUpkeep, sql, valueOf } from "../helpers/mod.ts";
import { ask, batchIn, change, create, deliver, DELIVERED, due, eventsOf } from "./own_streams.ts";
import { fail, failAt, logKeyEvents, manage, mustTake, namesIn } from "./own_streams.ts";
import { newAdministered, newStream, newStreamWith, type Own, PROJECT_URL } from "./own_streams.ts";
import { set, settle, setUp, stateOf, take, WAIT, write } from "./own_streams.ts";
import type { Leased } from "../../supabase/functions/audit-log-streams/queue.ts";

// Tests what a stream sends, and when. manage_streams_test.ts has who manages it.

const REJECTED = { decision: "rejected", rejected: [], status: 400, error: "status 400" };
/** Rejects a batch, and with it its entry if that is alone. */
async function reject(batch: Leased): Promise<void> {
  const rejected = batch.lines.length === 1 ? [rejectionIn(batch)] : [];
  await settle(batch, { ...REJECTED, rejected });
}

function rejectionIn({ lines }: Leased) {
  const { id, created_at } = JSON.parse(lines.at(-1)!);
  return { id, created_at, answer: "too long" };
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

  it("gets a seal after all entries that it covers, the chain without a gap, and every seal again if one is rejected", async () => {
    const own = await newStream({ includes_seals: true });
    await insertEntries(sql, own.log, "2026-03-01", 1200);
    await insertEntries(sql, own.log, "2026-03-02", 10);
    await runUpkeep(sql);
    const order = async () => (await deliver()).map(({ what, lines }) => `${what} ${lines.length}`);
    assertEquals(await order(), ["entries 1000", "entries 210", "seals 2"]);
    await insertEntry(sql, own.log, { created_at: "2026-03-01T12:00Z" });
    await runUpkeep(sql);
    const late = await mustTake();
    await settle(late, DELIVERED);
    const seals = await mustTake();
    assertEquals([late.what, seals.what, seals.lines.length], ["entries", "seals", 1]);
    const { day, added, sequence } = JSON.parse(seals.lines[0] ?? "");
    assertEquals([day, added, sequence], ["2026-03-01", 1, 3]);
    const rejected = [{ id: "x", created_at: "x", answer: "no mapping" }];
    await settle(seals, { ...DELIVERED, rejected });
    assertEquals((await stateOf(own)).failures, 1);
    await set(own, "due_at = now()");
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
  it("fences: who comes back after its end moves nothing, and the next one delivers the batch under its name, which no other lines have", async () => {
    const own = await newStreamWith("1");
    const slow = await mustTake();
    assertEquals(await take(), null);
    // It also ends when the clock is set back, and it seems to last for hours.
    const later = "now() + interval '5 hours'";
    await set(own, `due_at = ${later}, leased_until = ${later}`);
    const next = batchIn(await ask())!;
    assertEquals([next.lines, next.name], [slow.lines, slow.name]);
    assertEquals(await settle(slow, DELIVERED), '{"lost": true}');
    assertEquals((await stateOf(own)).entries, 0);
    await settle(next, WAIT);
    await write(own.log, "2");
    await set(own, "failures = 0");
    const other = await mustTake();
    assertEquals([namesIn([other]), other.name === next.name], [["1", "2"], false]);
    assertEquals(await settle(other, DELIVERED), "{}");
    assertEquals(await settle(other, DELIVERED), '{"lost": true}');
    assertEquals([(await stateOf(own)).entries, await deliver()], [2, []]);
  });

  it("that ends twice in a row without a word makes its stream wait, so that it ends no function for ever", async () => {
    const own = await newStreamWith("1");
    await due();
    const waits = [];
    for (let n = 0; n < 3; n++) {
      waits.push(await ask() === "{}");
      await set(own, "leased_until = now()");
    }
    assertEquals(waits, [false, false, true]);
    await set(own, "due_at = now()");
    assertEquals(namesIn(await deliver()), ["1"]);
    assertEquals((await stateOf(own)).failures, 0);
  });

  it("settles what was delivered, also when the next batch or an event about it cannot be made", async () => {
    const own = await newStream();
    await insertEntries(sql, own.log, "2026-03-01", 1001);
    for (const code of ["P0001", "57014"]) {
      await rolledBack(sql, async (run) => {
        await logKeyEvents(own.log, run);
        await set(own, "due_at = now(), told_at = now()", run);
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
      const own = await newStreamWith("1");
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
        await set(own, "due_at = now()");
        await reject(batchIn(await ask())!);
      };
      await set(own, "at_once = 1");
      for (let n = 0; n < 10; n++) await rejectNext();
      await set(own, "due_at = now()");
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
    assertObjectMatch(await stateOf(own), {
      state: "retrying",
      last_error: "status 400",
      last_status: 400,
    });
    await set(own, "failing_since = now() - interval '20 minutes'");
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
    assertObjectMatch(await stateOf(own), {
      state: "retrying",
      entries: 0,
      entries_rejected: 1000,
    });
  });
});

describe("a destination that does not answer", () => {
  it("is tried after 10 seconds, then twice as long each time, up to an hour, or when it says", async () => {
    const own = await newStreamWith("1");
    const waits = async (failures: number, outcome: object) => {
      await set(own, "failures = 0, paused_at = null, due_at = now()");
      const batch = await mustTake();
      await set(own, `failures = ${failures}`);
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
    const own = await newStreamWith("1");
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
    await set(own, "due_at = now()");
    assertEquals(batchIn(await ask()), null);
    assertObjectMatch(await stateOf(own), { state: "up_to_date", last_error: null });
  });

  it("is told as failing 15 minutes after the clock was set back, if it began to fail before", async () => {
    const own = await newStream();
    await write(own.log, "1");
    await fail(own, "-1 year");
    await sql`
      update audit_log_private.streams set failing_since = failing_since - interval '15 minutes'
      where id = ${own.id}`;
    assertEquals((await stateOf(own)).state, "failing");
  });

  it("is told once an episode in a log of key events, with its recovery", async () => {
    const log = await newAdministered();
    await logKeyEvents(log);
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
    await set(quick, "due_at = now() - interval '3 seconds'");
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
});

it("a copy of the database sends nothing until adopt_streams(); then each stream goes on where it was", async () => {
  const own = await newStreamWith("1");
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

it("a copy of the database is one with another Edge Function, too: the first that is set up is the only one, until adopt_streams(); what it does not get stalls", async () => {
  const own = await newStreamWith("0");
  await due();
  // Asking sets nothing up: whoever has the secret key could stop all streams.
  await settle(batchIn(await ask({}, "https://staging.example.com"))!, DELIVERED);
  await write(own.log, "1");
  await setUp(sql);
  await setUp(sql, 10, "https://staging.example.com/functions/v1/a");
  await set(own, "due_at = now() - interval '6 minutes'");
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
