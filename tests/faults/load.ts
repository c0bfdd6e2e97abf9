import { assert, assertEquals, assertMatch } from "@std/assert";
import { setTimeout as delay } from "node:timers/promises";
import type { TemporaryStack } from "../../local/temporary_stack.ts";
import type { LogLine } from "../../supabase/functions/public-audit-log/handler.ts";
import type { Page } from "../../supabase/functions/public-audit-log/page_schema.ts";
import {
  addOrganization,
  countMismatches,
  exhaust,
  type Organization,
  revoke,
} from "../project.ts";
import { connect } from "./cluster.ts";
import { postEntries } from "./log.ts";

const KEYS = 40;
const CONNECTIONS = 8;

/** Only a few organizations get entries, so that counts are updated and not only begun. */
const WRITTEN = 8;
/** Milliseconds from one request of a connection to its next: no key comes to 60 in half a minute. */
const PACE = 160;
/** No answer may take longer, in milliseconds. */
const LONGEST = 10_000;
/** Ends today, which a clock that is behind has not seen yet. */
const QUERY = { start: day(-1), end: day(0), limit: 5, offset: 0 };

export interface LoadOptions {
  stack: TemporaryStack;
  /** Another function than the stack's own: its address, and the log of its 500s. */
  edgeFunction?: { url: string; faults: string[] };
  /** The allowed causes of 500s. Without them, no request may fail. */
  causes: RegExp | null;
}

/**
 * Lets a fault happen to a service while 40 keys read and entries are written. Asserts that the service
 * is healthy before and after the fault, that every answer in between is allowed, and that afterwards
 * nothing is lost or miscounted.
 */
export async function underLoad(
  options: LoadOptions,
  fault: (load: Load) => Promise<void>,
): Promise<void> {
  const keys = await makeKeys(options.stack);
  const load = new Load(options, keys);
  try {
    await load.waitUntilHealthy();
    await fault(load);
    await load.waitUntilHealthy();
  } finally {
    await load.end();
  }
  load.assertAllowed();
  await assertKept(options.stack, keys);
}

/** A key of an organization of its own. */
interface Key extends Organization {
  /** The status of its answers, unless a fault makes it 500. A fault must not look like a 401. */
  due: 200 | 401 | 429;
  /** The number of entries that were sent, and of those that were acknowledged. */
  begun: number;
  written: number;
  /** The number of requests, and of those that were answered with 200. */
  asked: number;
  accepted: number;
}

/** Makes keys: one revoked, one whose quota is used up, the others fresh. */
async function makeKeys({ postgres }: TemporaryStack): Promise<Key[]> {
  await using sql = connect(postgres, { max: 1 });
  const keys: Key[] = [];
  for (let n = 0; n < KEYS; n++) {
    const due = ([401, 429] as const)[n] ?? 200;
    keys.push({ ...await addOrganization(sql), due, begun: 0, written: 0, asked: 0, accepted: 0 });
  }
  const [revoked, exhausted] = keys.map(({ apiKeyId }) => apiKeyId);
  await revoke(sql, `${revoked}`);
  await exhaust(sql, `${exhausted}`);
  return keys;
}

/** Asserts that the database has what the answers promised. */
async function assertKept({ postgres }: TemporaryStack, keys: Key[]): Promise<void> {
  await using sql = connect(postgres, { max: 1 });
  for (const { id, apiKeyId, due, written, begun, accepted, asked } of keys) {
    const [row] = await sql`
      select
        (select count(*)::int from audit_log.audit_entries where organization_id = ${id}) as entries,
        (select cardinality(counted_at) from audit_log_private.rate_limits where api_key_id = ${apiKeyId}) as counted`;
    assertEquals(await countMismatches(sql, id), []);
    assertWithin(row?.["entries"], [written, begun], "entries kept");
    // The quota of one was used up from the beginning.
    if (due !== 429) assertWithin(row?.["counted"], [accepted, asked], "requests counted");
  }
}

/** Sends requests of all keys in turn on a few connections, and writes entries. */
export class Load {
  readonly #options: LoadOptions;
  readonly #answers: { key: Key; sent: number; status: number }[] = [];
  /** The time at which the last acknowledged write was sent. */
  #lastWrite = -Infinity;
  /** The messages of assertions about answers that failed. */
  readonly #wrongs: string[] = [];
  /** The ids of requests that were answered with 500. */
  readonly #failures: string[] = [];
  readonly #running: Promise<void>[];
  #ended = false;

  constructor(options: LoadOptions, keys: Key[]) {
    this.#options = options;
    const toRead = inTurn(keys);
    const toWrite = inTurn(keys.slice(-WRITTEN));
    const read = () => this.#repeat(() => this.#read(toRead.next().value));
    this.#running = [
      this.#repeat(() => this.#write(toWrite.next().value)),
      ...Array.from({ length: CONNECTIONS }, read),
    ];
  }

  /** Resolves when so many requests that are sent from now on are answered, with `status` if given. */
  async waitForAnswers(count: number, status?: number): Promise<void> {
    await this.#until(`${count} answers of ${status ?? "any status"}`, 30, (now) => {
      const answers = this.#answers.filter(({ sent }) => sent >= now);
      return answers.filter((answer) => !status || answer.status === status).length >= count;
    });
  }

  /** Resolves when entries were written, and every key was answered without a 500 in between. */
  async waitUntilHealthy(): Promise<void> {
    await this.#until("the service healthy", 10, (now) => {
      const answers = this.#answers.filter(({ sent }) => sent >= now);
      const inARow = answers.slice(answers.findLastIndex(({ status }) => status === 500) + 1);
      return this.#lastWrite >= now && new Set(inARow.map(({ key }) => key)).size === KEYS;
    });
  }

  /** Stops sending; resolves when all that was sent is answered. */
  async end(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.#running);
  }

  /** Asserts that all answers were allowed, and that the cause of each 500 was logged once. */
  assertAllowed(): void {
    assertEquals(this.#wrongs, []);
    const { stack, edgeFunction = stack, causes } = this.#options;
    const lines = edgeFunction.faults
      .filter((line) => line.startsWith("{"))
      .map((line): LogLine => JSON.parse(line));
    for (const id of this.#failures) {
      const logged = lines.filter(({ request_id }) => request_id === id);
      assertEquals(logged.map(({ status }) => status), [500], `log lines of ${id}`);
      assertMatch(logged[0]?.error ?? "", causes ?? /no request may fail/);
    }
  }

  async #repeat(step: () => Promise<void>): Promise<void> {
    while (!this.#ended) await Promise.all([step(), delay(PACE)]);
  }

  /** Writes two entries. Even without an acknowledgement they may be there. */
  async #write(key: Key): Promise<void> {
    const entries = [`${QUERY.start}T23:59:59.999Z`, `${QUERY.end}T00:00:00Z`]
      .map((created_at) => ({ created_at }));
    key.begun += entries.length;
    const sent = performance.now();
    try {
      await postEntries(this.#options.stack, key.id, entries);
    } catch {
      return;
    }
    key.written += entries.length;
    this.#lastWrite = sent;
  }

  async #read(key: Key): Promise<void> {
    const { stack, edgeFunction } = this.#options;
    const url = edgeFunction?.url ?? `${stack.apiUrl}/functions/v1/public-audit-log`;
    const { start, end, limit } = QUERY;
    const { written, due } = key;
    const sent = performance.now();
    key.asked++;
    try {
      const response = await fetch(`${url}?start=${start}&end=${end}&limit=${limit}`, {
        headers: { Authorization: `Bearer ${key.token}` },
        signal: AbortSignal.timeout(2 * LONGEST),
      });
      const text = await response.text();
      const { status } = response;
      assertWithin(performance.now() - sent, [0, LONGEST], "milliseconds");
      if (status === 500) {
        this.#failures.push(response.headers.get("X-Request-Id") ?? "");
        assert(!/PGRST|postgres|public_audit_log/i.test(text), text);
      } else assertEquals(status, due, text);
      if (status === 200) assertPage(JSON.parse(text), key, written);
      this.#answers.push({ key, sent, status });
    } catch (error) {
      this.#wrongs.push(String(error));
    }
  }

  async #until(what: string, seconds: number, condition: (now: number) => boolean) {
    const now = performance.now();
    while (!condition(now)) {
      if (this.#wrongs.length > 0) throw new Error(this.#wrongs[0]);
      const last = this.#answers.slice(-20).map(({ status }) => status);
      const isLate = performance.now() > now + seconds * 1000;
      assert(!isLate, `Not within ${seconds} s: ${what}. The last: ${last}`);
      await delay(20);
    }
  }
}

function* inTurn(keys: Key[]): Generator<Key, never> {
  while (true) yield* keys;
}

function assertWithin(value: unknown, [least, most]: [number, number], what: string): void {
  const isWithin = Number(value) >= least && Number(value) <= most;
  assert(isWithin, `${what}: ${value}, not ${least} to ${most}`);
}

/** Asserts that a page is of the key's organization, and has all that was acknowledged before the request. */
function assertPage({ total, items, ...rest }: Page, key: Key, written: number): void {
  key.accepted++;
  assertEquals({ ...rest }, { organization_id: key.id, ...QUERY });
  assertWithin(total, [written, key.begun], "total");
  assertEquals(items.length, Math.min(QUERY.limit, total));
}

/** A day as YYYY-MM-DD, counted from today. */
function day(fromToday: number): string {
  return new Date(Date.now() + fromToday * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
}
