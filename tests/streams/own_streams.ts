import { assertEquals } from "@std/assert";
import { callAs, insertEntry, newLog, type Run, sql, valueOf } from "../helpers/mod.ts";
import type { Leased } from "../../supabase/functions/audit-log-streams/queue.ts";

// Streams in the database: administrators manage them, and the Edge Function takes and settles their batches.

export const PROJECT_URL = "https://project.example.com";
export const FUNCTION_URL = `${PROJECT_URL}/functions/v1/audit-log-streams`;
export const DELIVERED = { decision: "delivered", rejected: [], status: 200, ms: 5, bytes: 100 };
const LIMITS = { seconds: 40, bytes: 900_000, entries: { slack: 25 } };
export const WAIT = { decision: "wait", rejected: [], status: 503, error: "status 503" };

/** What tests read of a stream, as people see it. */
export type Stream =
  & Record<"id" | "state", string>
  & Record<"paused_by" | "paused_why" | "owner_email" | "owner_left_at", string | null>
  & Record<"last_error" | "loses_entries_at", string | null>
  & Record<"entries" | "entries_rejected" | "failures", number>
  & { last_status: number | null };

export type Own = Record<"log" | "id", string>;

export const TRIGGER_SECRET = "the-secret-that-triggers";

export function setUp(run: Run, every = 10, url = FUNCTION_URL) {
  return run`select audit_log_private.set_up_streams(${url}, ${TRIGGER_SECRET}, ${every})`;
}

export const SETTINGS = {
  name: "SIEM",
  destination: { kind: "webhook", url: "https://siem.example.com/in" },
  sealed: "k1.secret",
  hint: "…x9Qa",
};

export function json(value: unknown): string {
  return `'${JSON.stringify(value).replaceAll("'", "''")}'::jsonb`;
}

export function addAs(role: string, log: string, who = role) {
  return sql`
    insert into audit_log.organization_members (organization_id, user_id, role) values (${log}, ${who}, ${role})`;
}

/** Makes a log that `admin` administers and `auditor` may read. */
export async function newAdministered(): Promise<string> {
  const { id } = await newLog();
  for (const role of ["admin", "auditor", "member"]) await addAs(role, id);
  return id;
}

export function create(log: string, given: object = {}): Promise<Stream> {
  return callAs(sql, "admin", `create_stream('${log}', ${json({ ...SETTINGS, ...given })})`);
}

/** Makes a stream that has passed its test. All other streams pause, because everybody takes from one queue. */
export async function newStream(given: { log?: string } & Record<string, unknown> = {}) {
  await sql`update audit_log_private.streams set paused_at = now() where paused_at is null`;
  await sql`update audit_log_private.stream_home set project_url = null`;
  const log = given.log ?? await newAdministered();
  const { id } = await create(log, { start: "beginning", ...given, log: undefined });
  assertEquals((await deliver()).map(({ what }) => what).slice(0, 1), ["test"]);
  return { log, id };
}

/** Makes a stream that has such entries to deliver. */
export async function newStreamWith(...names: string[]): Promise<Own> {
  const own = await newStream();
  for (const name of names) await write(own.log, name);
  return own;
}

/** Calls a function of the console for a stream. */
export function manage(own: Own, name: string, more = "", who = "admin"): Promise<Stream> {
  return callAs(sql, who, `${name}('${own.log}', '${own.id}'${more})`);
}

export function change(own: Own, given: object): Promise<Stream> {
  return manage(own, "change_stream", `, ${json(given)}`);
}

export async function stateOf(own: Own, who = "admin"): Promise<Stream> {
  const streams: Stream[] = await callAs(sql, who, `list_streams('${own.log}')`);
  return streams.find(({ id }) => id === own.id)!;
}

export function batchIn(text: string): Leased | null {
  return JSON.parse(text).batch ?? null;
}

/** Asks for a batch, as the function of a project does. */
export function ask(
  { mostBytes = LIMITS.bytes, withTroubled = true, run = sql as Run } = {},
  url: string | null = PROJECT_URL,
) {
  const limits = JSON.stringify({ ...LIMITS, bytes: mostBytes });
  return valueOf<string>(
    run`select audit_log.take_batch(${url}, ${limits}::text::jsonb, ${withTroubled})::text`,
  );
}

/** Sets columns of a stream, such as its times. */
export function set({ id }: Pick<Own, "id">, columns: string, run: Run = sql) {
  return run.unsafe(`update audit_log_private.streams set ${columns} where id = '${id}'`);
}

export const due = () =>
  sql`update audit_log_private.streams set due_at = now() where failures = 0`;

export async function take(mostBytes = LIMITS.bytes): Promise<Leased | null> {
  for (;;) {
    await due();
    const text = await ask({ mostBytes });
    if (text !== '{"more": true}') return batchIn(text);
  }
}

export async function mustTake(): Promise<Leased> {
  const batch = await take();
  if (!batch) throw new Error("nothing is due");
  return batch;
}

export function settle(batch: Leased, outcome: object, wantsMore = false, run: Run = sql) {
  const { organization_id, stream_id, lease } = batch;
  const [ending, limits] = [JSON.stringify(outcome), JSON.stringify(LIMITS)];
  return valueOf<string>(run`
    select audit_log.settle_batch(
      ${organization_id}, ${stream_id}, ${lease}, ${ending}::text::jsonb, ${limits}::text::jsonb, ${wantsMore}
    )::text`);
}

/** Delivers everything that is due, and returns the batches. */
export async function deliver(): Promise<Leased[]> {
  const batches: Leased[] = [];
  for (let batch = await take(); batch; batch = await take()) {
    batches.push(batch);
    assertEquals(await settle(batch, DELIVERED), "{}");
  }
  return batches;
}

export function namesIn(batches: (Leased | null)[]): string[] {
  return batches.flatMap((batch) => batch!.lines).map((line) => JSON.parse(line).agent_name);
}

export async function write(id: string, agent_name: string, run: Run = sql): Promise<void> {
  await insertEntry(run, id, { agent_name });
}

/** Has the database raise an error, as at "update on a table" of certain rows. */
export async function failAt(run: Run, event: string, when: string, code: string): Promise<void> {
  await run.unsafe(`
    create or replace function pg_temp.fail() returns trigger language plpgsql as
      'begin raise ''broken'' using errcode = ''${code}''; end';
    create trigger fail before ${event} for each row when (${when}) execute function pg_temp.fail()`);
}

export async function logKeyEvents(log: string, run: Run = sql): Promise<void> {
  await run`update audit_log.organizations set logs_key_events = true where id = ${log}`;
}

export async function eventsOf(id: string): Promise<string[]> {
  const rows = await sql`
    select action || ' ' || user_email as event from audit_log.audit_entries
    where organization_id = ${id} and action like 'stream%' order by id`;
  return rows.map(({ event }) => event);
}

export async function fail(own: Own, since: string): Promise<void> {
  await set(own, `due_at = now(), failing_since = now() - interval '${since}'`);
  await settle(batchIn(await ask())!, WAIT);
}
