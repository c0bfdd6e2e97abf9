// Streams for tests: the function on the Deno of Supabase's runtime, and destinations on this machine.

import { setTimeout as delay } from "node:timers/promises";
import { addOrganization, insertEntries, type Sql, valueOf } from "../../dev/harness/project.ts";
import { type EdgeFunction, startEdgeFunction } from "../../dev/local/edge_function.ts";
import type { StackInfo } from "../../dev/local/stack.ts";
import { purposeOf, readKeys, seal } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { type Certificate, newPrivateKey } from "./certificate.ts";
import { pick, type Random } from "./random.ts";
import { type Loopback, serveOnLoopback } from "./loopback.ts";

const TRIGGER_SECRET = "it starts a run and nothing else";
const PRIVATE_KEY = await newPrivateKey();
const KEYS = await readKeys(PRIVATE_KEY);
const MAIN = new URL("pushing_main.ts", import.meta.url);

interface Pusher extends EdgeFunction {
  lines: string[];
  /** Calls the function, and waits until the run is over. */
  run(): Promise<{ entries: number }>;
}

/** Settings of pushing_main.ts. With `caCerts`, all names are of this machine. */
type Settings =
  & Partial<Record<"leaseSeconds" | "mostBytes" | "workers" | "timeoutMs", number>>
  & { caCerts?: string[] };

const QUICK: Settings = { leaseSeconds: 3, mostBytes: 60_000, timeoutMs: 2_500 };

/** Starts the function, by default with times that suit tests. */
export async function startPusher(
  { apiUrl, secretKey }: Pick<StackInfo, "apiUrl" | "secretKey">,
  settings = QUICK,
): Promise<Pusher> {
  const lines: string[] = [];
  const started = await startEdgeFunction({
    apiUrl,
    secretKey,
    name: "audit-log-streams",
    main: new URL(`?${encodeURIComponent(JSON.stringify(settings))}`, MAIN),
    env: {
      AUDIT_LOG_STREAMS_TRIGGER_SECRET: TRIGGER_SECRET,
      AUDIT_LOG_STREAMS_KEYS: PRIVATE_KEY,
      AUDIT_LOG_STREAMS_LOCAL: "true",
    },
    log: (line) => lines.push(line),
  });
  async function run() {
    const response = await fetch(`http://127.0.0.1:${started.port}`, {
      method: "POST",
      headers: { "x-trigger-secret": TRIGGER_SECRET },
      signal: AbortSignal.timeout(60_000),
    });
    return await response.json();
  }
  return { ...started, lines, run };
}

/** What a destination does with a body instead of taking it. */
export type Fault = (body: string) => Response | void | Promise<Response | void>;

interface Receiver extends Loopback {
  /** How often each entry came. */
  received: Map<string, number>;
  requests: number;
  fault: Fault;
}

/** Starts a destination that takes lines, and counts the entries that it confirms; with a certificate, at its name. */
export function startReceiver(fault: Fault = () => {}, certificate?: Certificate): Receiver {
  const server = serveOnLoopback(async (request) => {
    receiver.requests++;
    const body = await request.text();
    const answer = await receiver.fault(body);
    if (answer) return answer;
    for (const [, id = ""] of body.matchAll(/^\{"id":"([0-9a-f-]{36})"/gm)) {
      receiver.received.set(id, (receiver.received.get(id) ?? 0) + 1);
    }
    return new Response(null, { status: 204 });
  }, certificate);
  const receiver: Receiver = { ...server, received: new Map(), requests: 0, fault };
  return receiver;
}

export interface Stream {
  id: string;
  organizationId: string;
  receiver: Receiver;
}

/** `data` is that of each entry. */
type StreamOptions = Partial<Record<"kind" | "secret" | "organizationId" | "data", string>>;

/** Makes a stream whose test has succeeded, of an organization with so many entries. */
export async function newStream(
  sql: Sql,
  entries: number,
  receiver: Receiver,
  { kind = "webhook", secret, organizationId, data = "{}" }: StreamOptions = {},
): Promise<Stream> {
  const organization = organizationId ?? (await addOrganization(sql)).id;
  if (entries > 0) await insertEntries(sql, organization, "2026-11-20", entries, { data });
  const destination = { kind, url: urlOf(receiver) };
  const stored = JSON.stringify(destination);
  const sealed = secret && await seal(secret, KEYS.publicKey, purposeOf(organization, destination));
  const id = await valueOf<string>(sql`
    insert into audit_log_private.streams
      (organization_id, name, destination, sealed, includes_seals, test_asked_at)
    values (${organization}, 'Test', ${stored}::text::jsonb, ${sealed ?? null}, false, null)
    returning id`);
  return { id, organizationId: organization, receiver };
}

/** The address of a destination, as a stream has it. */
function urlOf({ url }: Receiver): string {
  return url.replace("http:", "https:");
}

/** Moves a stream to another destination. */
export async function move(sql: Sql, { id }: Stream, receiver: Receiver): Promise<void> {
  const url = JSON.stringify(urlOf(receiver));
  await sql`
    update audit_log_private.streams set destination = jsonb_set(destination, '{url}', ${url}::text::jsonb)
    where id = ${id} and lease is null`;
}

/** A stream as it is stored, with how many seconds after its last attempt it is tried. */
export async function stateOf(sql: Sql, { organizationId, id }: Stream) {
  const [row] = await sql`
    select failures, last_error, entries::int,
      extract(epoch from due_at - (
        select max(at) from audit_log_private.stream_attempts a where a.stream_id = s.id
      ))::float8 as wait,
      (select count(*)::int from audit_log_private.rejected_entries r where r.stream_id = s.id) as rejected
    from audit_log_private.streams s where s.organization_id = ${organizationId} and s.id = ${id}`;
  return row;
}

/** Ages all streams, so that none waits longer. */
export async function makeDue(sql: Sql): Promise<void> {
  await sql`update audit_log_private.streams set due_at = clock_timestamp()`;
}

/** The entries of a stream's log that its destination does not have, and how many it got again. */
export async function compare(sql: Sql, { organizationId, receiver }: Stream) {
  const rows = await sql<{ id: string }[]>`
    select id from audit_log.audit_entries where organization_id = ${organizationId}`;
  const { received } = receiver;
  return {
    entries: rows.length,
    missed: rows.filter(({ id }) => !received.has(id)).length,
    repeated: received.values().reduce((sum, count) => sum + count - 1, 0),
  };
}

/** Ends all leases, as if their time was over. Returns how many entries they have. */
async function endLeases(sql: Sql): Promise<number> {
  const leased = await sql`
    update audit_log_private.streams set leased_until = clock_timestamp() where lease is not null
    returning batch_entries`;
  return leased.reduce((sum, row) => sum + row["batch_entries"], 0);
}

/** Writes until it is told to stop: most at once, some in transactions that take a while, with times long past. */
async function write(sql: Sql, id: string, random: Random, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await sql.begin(async (transaction) => {
      await insertEntries(transaction, id, "2026-11-21", 1 + random(100));
      for (let n = random(4); n > 0; n--) {
        await delay(random(150));
        await insertEntries(transaction, id, "2026-11-1" + random(10), 1);
      }
    });
    await delay(random(50));
  }
}

/**
 * Lets two functions deliver to three destinations beside writers, kills one again and again while it delivers, and starts
 * it anew. Then it lets them deliver the rest. `onTheirWay` counts the entries that were leased after the kills.
 */
export async function deliverThroughKills(
  stack: StackInfo,
  sql: Sql,
  kills: number,
  random: Random,
) {
  const organizationId = (await addOrganization(sql)).id;
  let [requests, isOver] = [0, false];
  let killed = Promise.withResolvers<void>();
  const streams: Stream[] = [];
  for (let n = 0; n < 3; n++) {
    const receiver = startReceiver(async () => {
      if (--requests === 0) killed.resolve();
      await delay(random(20));
    });
    streams.push(await newStream(sql, 0, receiver, { organizationId }));
  }
  const writers = [1, 2, 3].map(() => write(sql, organizationId, random, () => isOver));
  const pushers = await Promise.all([startPusher(stack), startPusher(stack)]);
  let onTheirWay = 0;
  for (let n = 0; n < kills; n++) {
    [requests, killed] = [1 + random(20), Promise.withResolvers()];
    let isRunning = true;
    const running = pushers.map(async ({ run }) => {
      while (isRunning) {
        await makeDue(sql);
        // The one that is killed does not answer.
        await run().catch(() => isRunning = false);
      }
    });
    // Also if nothing is delivered any more.
    const late = delay(60_000, undefined, { ref: false });
    await Promise.race([killed.promise, late.then(() => Promise.reject(new Error("no request")))]);
    const victim = pushers[n % 2];
    if (victim) Deno.kill(victim.pid, "SIGKILL");
    await Promise.all([victim?.ended, ...running]);
    // The other one has finished, so these were the victim's.
    onTheirWay += await endLeases(sql);
    pushers[n % 2] = await startPusher(stack);
  }
  isOver = true;
  await Promise.all(writers);
  for (let n = 0; n < 5; n++) {
    await makeDue(sql);
    // The database may have answered the last victim after its end.
    await endLeases(sql);
    await Promise.all(pushers.map(({ run }) => run()));
  }
  const compared = await Promise.all(streams.map((stream) => compare(sql, stream)));
  for (const started of [...pushers, ...streams.map(({ receiver }) => receiver)]) {
    await started[Symbol.asyncDispose]();
  }
  return { compared, onTheirWay };
}

/**
 * Makes, moves, pauses and deletes streams of eight organizations in any order, and lets two functions deliver between, to
 * destinations that fail now and then, until these have so many entries. Each belongs to one organization.
 */
export async function deliverAtRandom(stack: StackInfo, sql: Sql, most: number, random: Random) {
  const faults = [400, 413, 503].map((status) => () => new Response("no", { status }));
  const fault: Fault = () => faults[random(20)]?.();
  const logs = await Promise.all(Array.from({ length: 8 }, async () => ({
    id: (await addOrganization(sql)).id,
    receivers: [startReceiver(fault), startReceiver(fault)],
    streams: [] as Stream[],
  })));
  const pushers = await Promise.all([startPusher(stack), startPusher(stack)]);
  const delivered = () =>
    logs.flatMap(({ receivers }) => receivers).flatMap(({ received }) => [...received.values()])
      .reduce((sum, count) => sum + count, 0);
  for (let step = 0; step < 3_000 && delivered() < most; step++) {
    const { id: organizationId, receivers, streams } = pick(random, logs);
    const [receiver, action] = [pick(random, receivers), random(7)];
    const stream = streams[random(3)];
    if (action < 2) await insertEntries(sql, organizationId, `2026-11-1${random(10)}`, 200);
    else if (action === 2 && streams.length < 3) {
      streams.push(await newStream(sql, 0, receiver, { organizationId }));
    } else if (action === 3 && stream) await move(sql, stream, receiver);
    else if (action === 4 && stream) {
      await sql`
        update audit_log_private.streams set paused_at = case when paused_at is null then now() end
        where id = ${stream.id}`;
    } else if (action === 5 && stream && random(4) === 0) {
      streams.splice(streams.indexOf(stream), 1);
      await sql`delete from audit_log_private.streams where id = ${stream.id}`;
    } else {
      await makeDue(sql);
      await Promise.all(pushers.map(({ run }) => run()));
    }
  }
  let elsewhere = 0;
  for (const { id, receivers } of logs) {
    for (const { received } of receivers) {
      const ids = [...received.keys()];
      const own = await sql`
        select from audit_log.audit_entries where organization_id = ${id} and id = any (${ids}::uuid[])`;
      elsewhere += ids.length - own.count;
    }
  }
  for (const started of [...pushers, ...logs.flatMap(({ receivers }) => receivers)]) {
    await started[Symbol.asyncDispose]();
  }
  return { delivered: delivered(), elsewhere };
}
