import { assertEquals } from "@std/assert";
import { afterAll } from "@std/testing/bdd";
import postgres from "postgres";
import { type EdgeFunctionOptions, startEdgeFunction } from "../../dev/local/edge_function.ts";
import { API_URL, DATABASE_URL, getPage, SECRET_KEY } from "./api.ts";
import { client } from "./people.ts";
import { addOrganization, countMismatches, type Organization } from "../../dev/harness/project.ts";
import { queryOf, type Run, type Sql, valueOf } from "../../dev/harness/project.ts";
import type { TablesInsert } from "../../supabase/functions/public-audit-log/database.types.ts";

export * from "./api.ts";
export * from "./people.ts";
export * from "../../dev/harness/project.ts";
export * from "./random.ts";

/** A connection of the owner of the database. */
export const sql: Sql = postgres(DATABASE_URL, { onnotice: () => {} });
// A failed test may have left a transaction open.
afterAll(() => sql.end({ timeout: 5 }));

/** Starts one more process of the Edge Function for the stack under test. It logs nothing unless it is told to. */
export async function startFunction(options: Partial<EdgeFunctionOptions> = {}) {
  const project = { apiUrl: API_URL, secretKey: SECRET_KEY, log: () => {} };
  const started = await startEdgeFunction({ ...project, ...options });
  return { ...started, url: `http://127.0.0.1:${started.port}/public-audit-log` };
}

/** An entry to write: what matters to the test. The rest is filled in. */
export type Entry = Partial<Omit<TablesInsert<"audit_entries">, "organization_id">>;

/** The actions of a new installation. */
export const ACTIONS = [
  "agent_added",
  "conversation_created",
  "message_created",
  "feedback_given",
] as const;

/** The fields that `data` of `message_created` must have, in the order in which Postgres keeps them. */
export const MESSAGE_DATA = {
  agent_id: "a-1",
  message_id: "m-1",
  conversation_id: "c-1",
  platform_agent_sid: "AG1",
};

/** Makes an entry as the platform would write it. */
export function entry(organizationId: string, given: Entry = {}): TablesInsert<"audit_entries"> {
  return {
    organization_id: organizationId,
    created_at: "2026-03-01T12:00:00Z",
    action: "message_created",
    user_email: "ada@example.com",
    agent_name: "Assistant",
    data: MESSAGE_DATA,
    ...given,
  };
}

/** Writes entries as the platform does: a plain insert as `service_role`. */
export async function writeEntries(organizationId: string, entries: Entry[]): Promise<void> {
  const rows = entries.map((given) => entry(organizationId, given));
  await client("service_role").from("audit_entries").insert(rows).throwOnError();
}

/** Makes an organization that nobody administers, with a key and these entries. */
export async function newLog(...entries: Entry[]): Promise<Organization> {
  const organization = await addOrganization(sql);
  if (entries.length > 0) await writeEntries(organization.id, entries);
  return organization;
}

/** The day a number of days before today, in UTC. */
export function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

export function today(): string {
  return daysAgo(0);
}

/** The largest number of entries that one piece of a deletion deletes, unless one day has more. */
export const PIECE = 10_000;

export async function entriesOf(id: string): Promise<number> {
  return await valueOf(
    sql`select count(*)::int from audit_log.audit_entries where organization_id = ${id}`,
  );
}

/** Fails unless an organization has so many entries, and its counts and totals say so. */
export async function assertExact({ id, token }: Omit<Organization, "apiKeyId">, entries: number) {
  assertEquals(await countMismatches(sql, id), []);
  const { total } = await getPage(token, "start=0001-01-01&end=9999-12-31&limit=1");
  assertEquals([await entriesOf(id), total], [entries, entries]);
}

/** Fails unless a page has the total of the entries that its own snapshot sees. */
export async function assertExactNow(id: string): Promise<void> {
  const query = queryOf(sql, { page_limit: 1 });
  const [row] = await sql`
    select p.total::int, (
      select count(*)::int from audit_log.audit_entries e where e.organization_id = ${id}
    ) as entries
    from audit_log_private.read_page(${id}, ${query}) as p`;
  assertEquals(row?.["total"], row?.["entries"]);
}

/** Runs statements in a session with another time zone and another form of dates. */
export async function inTokyo<T>(run: (session: Run) => Promise<T>): Promise<T> {
  const session = await sql.reserve();
  try {
    await session`set timezone = 'Asia/Tokyo'`;
    await session`set datestyle = 'German'`;
    return await run(session);
  } finally {
    await session`reset all`;
    session.release();
  }
}

/** Does work, and repeats other work beside it until it is done, at least once. */
export async function beside(others: (() => Promise<unknown>)[], work: () => Promise<unknown>) {
  let isDone = false;
  const repeated = others.map(async (other) => {
    do await other(); while (!isDone);
  });
  await work().finally(() => isDone = true);
  await Promise.all(repeated);
}

/** Runs statements past the triggers of entries and seals, as an owner can. */
export async function silently(run: (transaction: Run) => Promise<unknown>): Promise<void> {
  await sql.begin(async (transaction) => {
    const triggers = async (change: "disable" | "enable") => {
      await transaction.unsafe(`
        alter table audit_log.audit_entries ${change} trigger user;
        alter table audit_log_private.seals ${change} trigger user`);
    };
    await triggers("disable");
    await run(transaction);
    await triggers("enable");
  });
}
