// Needs stacks of its own. Slow.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, afterEach, describe, it } from "@std/testing/bdd";
import { callAs } from "../../dev/harness/project.ts";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import { randomFrom } from "../helpers/random.ts";
import * as cluster from "../helpers/cluster.ts";
import { compare, deliverAtRandom, deliverThroughKills, type Fault } from "../helpers/pushing.ts";
import { makeDue, move, newStream, startPusher, startReceiver } from "../helpers/pushing.ts";
import { stateOf, type Stream } from "../helpers/pushing.ts";

const SEED = Number(Deno.env.get("STREAMS_SEED") ?? Math.floor(Math.random() * 1e9));

/** More take longer. */
const KILLS = Number(Deno.env.get("STREAMS_KILLS") ?? 6);

const stack = await startTemporaryStack();
const sql = cluster.connect(stack.postgres);
const pusher = await startPusher(stack);
afterAll(async () => {
  for (const started of [pusher, sql, stack]) await started[Symbol.asyncDispose]();
});
afterEach(() => sql`delete from audit_log_private.streams`);

async function deliverAll(runs: number): Promise<void> {
  for (let n = 0; n < runs; n++) {
    await makeDue(sql);
    await pusher.run();
  }
}

/** Answers nothing while a test wants it. */
const silence = Promise.withResolvers<Response>();
const hang: Fault = () => silence.promise;
const answer = (status: number, body = "", headers = {}): Fault => () =>
  new Response(body, { status, headers });

/** What a destination answers, and what the stream then says. */
const WAITING: Record<string, [Fault, RegExp]> = {
  "401": [answer(401, "no"), /^status 401: no$/],
  "a redirect": [answer(307, "", { Location: "http://169.254.169.254/" }), /^status 307/],
  "500": [
    answer(500, `a\u001b[2J\n<b>${"x".repeat(300)}`),
    /^status 500: a\\u001b\[2J <b>x{1,190}$/,
  ],
  "400 to every entry": [answer(400, "bad signature"), /every entry is rejected: .*bad signature/],
  "nothing": [hang, /no whole answer within 2.5 s/],
  "5 MB": [() => new Response(new Uint8Array(5_000_000)), /its answer is too long/],
};

describe("a destination that answers", () => {
  it(`${Object.keys(WAITING).join(", ")}, is tried again, and then gets every entry once`, async () => {
    const streams = new Map<string, Stream>();
    for (const [name, [fault]] of Object.entries(WAITING)) {
      streams.set(name, await newStream(sql, 30, startReceiver(fault)));
    }
    // It halves a batch until one entry is left, and asks ten times.
    for (let n = 0; n < 6; n++) await pusher.run();
    for (const [name, stream] of streams) {
      const { failures, wait, last_error, entries, rejected } = await stateOf(sql, stream) ?? {};
      assertEquals([entries, rejected], [0, 0], name);
      const first = wait / 2 ** (failures - 1);
      assert(first >= 7.5 && first < 13, `${name}: ${failures}, ${wait}`);
      assertMatch(last_error, WAITING[name]?.[1] ?? /never/, name);
    }
    silence.resolve(new Response());
    for (const { receiver } of streams.values()) receiver.fault = () => {};
    // What has more to deliver is due by itself.
    await makeDue(sql);
    for (let n = 0; n < 6; n++) await pusher.run();
    for (const [name, stream] of streams) {
      const found = await compare(sql, stream);
      assertEquals(found, { entries: 30, missed: 0, repeated: 0 }, name);
      assertEquals((await stateOf(sql, stream))?.["failures"], 0);
      await stream.receiver[Symbol.asyncDispose]();
    }
  });

  it("400 to some entries, alone or thirteen in a row, has these listed, and gets all others; they come again when it is resumed from their day", async () => {
    await using receiver = startReceiver((body) =>
      body.includes("POISON") ? new Response("cannot parse", { status: 400 }) : undefined
    );
    const stream = await newStream(sql, 200, receiver);
    const { organizationId } = stream;
    for (const day of ["2026-11-21", "2026-11-22"]) {
      await sql`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
        select ${organizationId}, ${day}::timestamp at time zone 'UTC' + n * interval '1 hour', 'agent_added',
          'ada@example.com', case when n in (2, 4) or n > 7 and ${day} = '2026-11-21' then 'POISON' else 'Assistant' end
        from generate_series(1, 20) as n`;
    }
    await deliverAll(12);
    assertEquals(await compare(sql, stream), { entries: 240, missed: 17, repeated: 1 });
    const { rejected, failures, entries } = await stateOf(sql, stream) ?? {};
    assertEquals([rejected, failures, entries], [17, 0, 224]);
    const answers = await sql`
      select distinct answer from audit_log_private.rejected_entries where stream_id = ${stream.id}`;
    assertEquals(answers.map(({ answer }) => answer), ["status 400: cannot parse"]);
    receiver.fault = () => {};
    await sql`
      insert into audit_log.organization_members (organization_id, user_id, role) values (${organizationId}, 'ada', 'admin')`;
    await callAs(sql, "ada", `resume_stream('${organizationId}', '${stream.id}', '2026-11-21')`);
    await deliverAll(12);
    assertEquals(await compare(sql, stream), { entries: 240, missed: 0, repeated: 24 });
    assertEquals((await stateOf(sql, stream))?.["rejected"], 0);
  });

  it("as one that takes 25 entries in a message gets them in messages of 25", async () => {
    await using receiver = startReceiver((body) => {
      const { text } = JSON.parse(body);
      assert(text.split("\n").length <= 25);
      return new Response("ok");
    });
    const stream = await newStream(sql, 60, receiver, { kind: "slack", secret: "T0/B0/X" });
    await pusher.run();
    assertEquals([(await stateOf(sql, stream))?.["entries"], receiver.requests], [60, 3]);
  });
});

it("a stream that is deleted while a batch is on its way ends without an error", async () => {
  await using receiver = startReceiver(async () =>
    void await sql`delete from audit_log_private.streams`
  );
  const stream = await newStream(sql, 3, receiver);
  const before = pusher.lines.length;
  await pusher.run();
  assertEquals([await stateOf(sql, stream), pusher.lines.slice(before)], [undefined, []]);
});

it("a stream whose secret was moved to another host sends nothing there", async () => {
  await using owner = startReceiver();
  await using thief = startReceiver();
  const stream = await newStream(sql, 3, owner, { kind: "splunk", secret: "token" });
  await move(sql, stream, thief);
  await pusher.run();
  assertMatch((await stateOf(sql, stream))?.["last_error"], /enter it again/);
  assertEquals([owner.requests, thief.requests], [0, 0]);
});

it("healthy streams get their entries beside 40 newly dead destinations, after two time-outs at most", async () => {
  const silence = Promise.withResolvers<Response>();
  await using dead = startReceiver(() => silence.promise);
  // Before its server ends, which waits for it.
  using _ = { [Symbol.dispose]: () => silence.resolve(new Response()) };
  for (let n = 0; n < 40; n++) await newStream(sql, 1, dead);
  await using healthy = startReceiver();
  for (let n = 0; n < 5; n++) await newStream(sql, 20, healthy);
  let last = Infinity;
  healthy.fault = () => {
    last = performance.now();
  };
  const timeoutMs = 4_000;
  await using other = await startPusher(stack, { timeoutMs, leaseSeconds: 10 });
  const start = performance.now();
  await other.run();
  assertEquals(healthy.received.size, 100);
  assert(last - start < 3 * timeoutMs, `${last - start}`);
});

it("the function runs for the trigger secret alone, and tells anybody the public key", async () => {
  await using receiver = startReceiver();
  await newStream(sql, 3, receiver);
  const url = `http://127.0.0.1:${pusher.port}`;
  for (const secret of ["", "a secret", "it starts a run and nothing elsf"]) {
    const headers = { "x-trigger-secret": secret };
    assertEquals((await fetch(url, { method: "POST", headers })).status, 401);
  }
  assertEquals((await fetch(url, { method: "DELETE" })).status, 405);
  const { public_key } = await (await fetch(url)).json();
  assertMatch(public_key, /^[\w-]{8}\.[\w-]{87}$/);
  assertEquals(receiver.requests, 0);
});

it("a function of another project sends nothing, and says why once", async () => {
  await using receiver = startReceiver();
  const stream = await newStream(sql, 3, receiver);
  await using other = await startPusher(stack);
  await sql`update audit_log_private.stream_home set project_url = 'https://first.example.com'`;
  await other.run();
  await other.run();
  const told = other.lines.filter((line) => line.includes('"stopped"'));
  assertEquals(told.length, 1);
  assertMatch(told[0] ?? "", /Edge Function of https:\/\/first\.example\.com, and not of http/);
  assertEquals(receiver.requests, 0);
  await sql`select audit_log_private.adopt_streams()`;
  await other.run();
  assertEquals((await stateOf(sql, stream))?.["entries"], 3);
});

it(`two functions at once deliver every entry through ${KILLS} kills, beside writers that commit late, and repeat only what was on its way then`, async () => {
  const found = await deliverThroughKills(stack, sql, KILLS, randomFrom(SEED));
  const { compared, onTheirWay } = found;
  const figures = JSON.stringify({ seed: SEED, ...found });
  for (const { entries, missed } of compared) {
    assert(missed === 0 && entries > 100 * KILLS, figures);
  }
  const repeated = compared.reduce((sum, stream) => sum + stream.repeated, 0);
  assert(onTheirWay > 0 && repeated <= onTheirWay, figures);
});

it("two functions at once bring no entry to another organization's destination in 20,000 deliveries, while streams are made, moved, paused and deleted", async () => {
  const { delivered, elsewhere } = await deliverAtRandom(stack, sql, 20_000, randomFrom(SEED));
  assert(delivered >= 20_000, `${delivered} deliveries, seed ${SEED}`);
  assertEquals(elsewhere, 0, `seed ${SEED}`);
});
