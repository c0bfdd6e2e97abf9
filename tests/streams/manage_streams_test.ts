// Needs a stack.

import { assert, assertEquals, assertMatch, assertObjectMatch } from "@std/assert";
import { assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addMember, call, callAs, client, errorOf, healthOf } from "../helpers/mod.ts";
import { insertEntries, insertEntry, type Person, refusalOf, rolledBack } from "../helpers/mod.ts";
import { runUpkeep, serverFor, signUp, sql, valueOf } from "../helpers/mod.ts";
import { PG_CRON, RUNS, RUNS_LEFT } from "../helpers/pg_cron.ts";
import { addAs, ask, batchIn, change, create, deliver, DELIVERED, due } from "./own_streams.ts";
import { eventsOf, fail, failAt, FUNCTION_URL, json, logKeyEvents, manage } from "./own_streams.ts";
import { mustTake, namesIn, newAdministered, newStream, newStreamWith } from "./own_streams.ts";
import { PROJECT_URL, set, SETTINGS, settle, setUp, stateOf, type Stream } from "./own_streams.ts";
import { TRIGGER_SECRET, WAIT, write } from "./own_streams.ts";

/** Stands in for what we use of pg_net. */
const PG_NET = `
  create schema net;
  create table net.http_request_queue (url text, headers jsonb);
  create function net.http_post(url text, headers jsonb) returns void language sql as
    'insert into net.http_request_queue values (url, headers)';`;

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
    await set(own, "failures = 0");
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
    for (const more of ["retry_stream", "resume_stream", "change_stream"]) {
      const call = manage(own, more, more === "change_stream" ? ", '{}'" : "");
      assertMatch(await refusalOf(call), /^AL006 .* after 20/);
    }
    assertEquals((await manage(own, "pause_stream")).state, "paused");
    await manage(own, "delete_stream");
    const foreign = await newAdministered();
    assertEquals((await create(foreign, { start: "beginning" })).failures, 0);
  });

  it("take nothing without a record: what is sent counts as read once, whatever the answer; the record outlives the stream, and says who sent it where", async () => {
    const own = await newStream();
    for (const name of ["1", "2", "3", "3"]) {
      if (name !== "3") await write(own.log, name);
      await set(own, "due_at = now()");
      await settle(batchIn(await ask())!, WAIT);
    }
    await write(own.log, "3");
    await set(own, "due_at = now()");
    assertEquals(namesIn([batchIn(await ask())]), ["1", "2", "3"]);
    await addAs("admin", own.log, "eve");
    const destination = { ...SETTINGS.destination, url: "https://eve.example.com:8443/in" };
    await manage(own, "change_stream", `, ${json({ destination, sealed: "k1.eve" })}`, "eve");
    assertEquals((await deliver()).length, 2);
    await manage(own, "delete_stream", "", "eve");
    const asking = `api_key_usage('${own.log}', current_date - 1, current_date + 1)`;
    const usage = await callAs<Record<string, unknown>[]>(sql, "auditor", asking);
    const reads = usage.map(({ user_id, user_email, entries }) => [user_id, user_email, entries]);
    assertEquals(reads.sort(), [
      [`stream ${own.id} to eve.example.com:8443 of eve`, "eve@example.com", 3],
      [`stream ${own.id} to siem.example.com of admin`, "admin@example.com", 3],
    ]);
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
    // lower() makes ASCII of the last two.
    const urls = `http://a.example https://u:p@a.example/ https://a.example:22/
      https://a.example:70000/ https://[::1]/ https:///in a.example/in https://a.example?b
      HTTPS://a.example/ https://\u212a.example/ https://\u0130.example/`.split(/\s+/);
    const others = [{ headers: {} }, { kind: true }, { url: true }, { body: true }, { region: 1 }];
    const unlawful = [
      ...["", "a\u202eb", "x".repeat(101)].map((name) => ({ name })),
      ...["", "a b", "x".repeat(20_001)].map((sealed) => ({ sealed })),
      ...["x".repeat(21), "a\n"].map((hint) => ({ hint })),
      ...[null, {}, []].map((destination) => ({ destination })),
      ...[null, "https://a.example/ b", `https://a.example/${"x".repeat(2000)}`, ...urls]
        .map((url) => at(url)),
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
  /** Manages a stream with the secret key. Returns the new stream, the paused one, and what else was answered. */
  async function manageAll(client: Person["client"], organization_id: string) {
    const ask = <T>(name: Parameters<typeof call>[1], given: object) =>
      call<T>({ client }, name, { organization_id, ...given });
    const made = await ask<Stream>("create_stream", { stream: SETTINGS });
    const of = { stream_id: made.id };
    const paused = await ask<Stream>("pause_stream", of);
    const destination = { ...SETTINGS.destination, url: "https://siem.example.com/in/pa.th?token" };
    const answers = [
      await ask("list_streams", {}),
      await ask("read_stream", of),
      await ask("change_stream", { ...of, change: { destination, sealed: "k1.other" } }),
      await ask("retry_stream", of),
      await ask("resume_stream", of),
      await ask("delete_stream", of),
    ];
    return { made, paused, answers };
  }

  it("manages streams in a person's name, with a record, and is told no secret; without a person it names none", async () => {
    const log = await newAdministered();
    await logKeyEvents(log);
    const grace = { id: "user_2b", email: "grace@example.com" };
    const { made, paused, answers } = await manageAll(serverFor(grace), log);
    assert(!JSON.stringify([made, paused, ...answers]).includes("k1."));
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
    assertEquals([nobody.made.owner_email, nobody.paused.paused_by], [null, "the platform"]);
  });

  it("changes nothing without the record that the organization wants", async () => {
    const log = await newAdministered();
    await logKeyEvents(log);
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
    const given = { organization_id: log, stream: SETTINGS };
    const { data } = await admin.client.rpc("create_stream", given)
      .setHeader("X-Audit-Person", "eve@example.com").throwOnError();
    assertEquals((data as unknown as Stream).owner_email, admin.email);
    await sql`update audit_log.organizations set closed_at = now() where id = ${log}`;
    const { error } = await client("service_role").rpc("list_streams", { organization_id: log });
    assertEquals(error?.code, "42501");
  });
});

it("a stream whose owner has left is marked by the upkeep, too, once the owner's account was deleted", async () => {
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

it("a stream whose owner has left goes on, and is named until an administrator changes or resumes it, and becomes its owner; with revoke, it is paused", async () => {
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
  await logKeyEvents(log);
  for (let n = 0; n < 2; n++) await sql`select audit_log.person_left(${log}, 'next', true)`;
  assertEquals(await eventsOf(log), ["stream_paused unknown@invalid"]);
  assertObjectMatch(await stateOf(own, "next"), {
    state: "paused",
    paused_why: "its owner has left",
  });
  await addAs("admin", log, "third");
  assertEquals(await named(), 1);
  const { owner_email } = await manage(own, "resume_stream", "", "third");
  assertEquals([await named(), owner_email], [0, "third@example.com"]);
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
    await set(
      own,
      "due_at = now() - interval '6 minutes', caught_up_at = now() - interval '1 hour'",
    );
    assertEquals(await told(own.log), [["stalled", null]]);
    const lag = await valueOf<number>(sql`
      select value from audit_log_private.metrics() where labels ->> 'stream_id' = ${own.id}`);
    assert(lag >= 3600 && lag < 3700, `${lag}`);
  });

  it("have the function called with the trigger secret only, once while pg_net has not posted; what pg_cron records of it is deleted after a day. Without both, they are told what to do instead", async () => {
    await newStreamWith("1");
    await due();
    await rolledBack(sql, async (run) => {
      assertStringIncludes(await valueOf(setUp(run, 10)), "runs_due()");
      await run`savepoint without_both`;
      // The trigger secret is in no error, as when pg_net is gone.
      const calling = run`select audit_log_private.call_streams_function()`;
      assertMatch(JSON.stringify({ ...await errorOf(calling) }), /http_post(?!.*the-secret)/);
      await run`rollback to without_both`;
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
