import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { assertEquals } from "@std/assert";
import { afterAll } from "@std/testing/bdd";
import postgres from "postgres";
import { assertDocumented } from "./contract.ts";
import type { Page } from "../supabase/functions/public-audit-log/page_schema.ts";
import type { Problem } from "../supabase/functions/public-audit-log/problem.ts";
import type {
  Database,
  TablesInsert,
} from "../supabase/functions/public-audit-log/database.types.ts";
import { ACTIONS } from "../supabase/functions/public-audit-log/query_schema.ts";
import {
  addOrganization,
  countMismatches,
  type Organization,
  pidOf,
  type Run,
  runUpkeep,
  type Sql,
} from "./project.ts";

/** The project under test, and what everybody knows of it. */
export const API_URL = environment("SUPABASE_URL");
export const PUBLISHABLE_KEY = environment("SUPABASE_PUBLISHABLE_KEY");
export const SECRET_KEY = environment("SUPABASE_SECRET_KEY");
export const DATABASE_URL = environment("SUPABASE_DB_URL");

/** Where the service under test is. */
export const AUDIT_LOG_URL = `${API_URL}/functions/v1/public-audit-log`;

/** Two days that every test may use, as a query string. */
export const TWO_DAYS = "start=2026-03-01&end=2026-03-02";

export { ACTIONS };

/** A well-formed token that no key has. */
export const UNKNOWN_TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";

export * from "./project.ts";
export { pick, type Random, randomFrom } from "./random.ts";
export type { Page, Problem };
export type Client = SupabaseClient<Database>;

/** A connection to the database as the owner of everything. Close it: `await sql.end()`. */
export function connect(): Sql {
  return postgres(DATABASE_URL, { onnotice: () => {} });
}

/** The connection of a test file. */
export const sql = connect();
// A failed test may have left a transaction open.
afterAll(() => sql.end({ timeout: 5 }));

/** Runs statements in a session of another time zone and form of dates than the service's. */
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

/** A Data API client of nobody (`anon`) or of the platform (`service_role`). */
export function client(role: "anon" | "service_role"): Client {
  return createClient<Database>(API_URL, role === "anon" ? PUBLISHABLE_KEY : SECRET_KEY, {
    auth: { persistSession: false, autoRefreshToken: false },
    db: { schema: "audit_log" },
  });
}

/** A person with an account, signed in. */
export interface Person {
  id: string;
  email: string;
  password: string;
  client: Client;
}

/** Signs a new person up. Where it costs too much to do it for each test, once for each file. */
export async function signUp(): Promise<Person> {
  const email = `${crypto.randomUUID()}@example.com`;
  const person = client("anon");
  const password = crypto.randomUUID();
  const { data, error } = await person.auth.signUp({ email, password });
  if (error) throw error;
  if (!data.session) throw new Error("Sign-up gave no session: turn e-mail confirmation off");
  return { id: data.session.user.id, email, password, client: person };
}

/** Makes an organization that `admin` administers, and a key for it. */
export async function newOrganization(admin: Person, name = "Test"): Promise<Organization> {
  const platform = client("service_role");
  const organization = await platform.from("organizations")
    .insert({ name }).select("id").single().throwOnError();
  const id = organization.data.id;
  await addMember(id, admin, "admin");
  const apiKey = await createApiKey(admin, id);
  return { id, apiKeyId: apiKey.id, token: apiKey.token };
}

/** Makes a person a member of an organization, as the platform does. */
export async function addMember(
  organization_id: string,
  { id: user_id }: Person,
  role: "admin" | "member",
): Promise<void> {
  await client("service_role").from("organization_members")
    .insert({ organization_id, user_id, role }).throwOnError();
}

/** An API key, as the functions of the admin console name it. */
export interface ApiKey {
  id: string;
  organization_id: string;
  name: string;
  hint: string;
  created_at: string;
  expires_at: string | null;
}

export type NewApiKey = ApiKey & { token: string };

export interface ApiKeyState {
  state: "active" | "expiring" | "expired" | "revoked";
  expires_at: string | null;
  successor_id: string | null;
  created_by_email: string | null;
  revoked_at: string | null;
  revoked_by_email: string | null;
  last_used_at: string | null;
  reads: "feed" | "pages" | null;
  caught_up_at: string | null;
  requests_last_minute: number;
}

/** Makes an API key through the API that the admin console uses. */
export async function createApiKey(admin: Person, organizationId: string, name = "test") {
  const { data } = await admin.client
    .rpc("create_api_key", { organization_id: organizationId, name }).throwOnError();
  return data as unknown as NewApiKey;
}

/** Revokes an API key. */
export async function revokeApiKey(
  admin: Person,
  { organization_id, id }: Pick<ApiKey, "organization_id" | "id">,
) {
  const { data } = await admin.client
    .rpc("revoke_api_key", { organization_id, api_key_id: id }).throwOnError();
  return data as unknown as ApiKey & { revoked_at: string; revoked_by_email: string };
}

/** What an administrator sees of an organization's keys. */
export async function listApiKeys(admin: Person, organizationId: string) {
  const { data } = await admin.client
    .rpc("list_api_keys", { organization_id: organizationId }).throwOnError();
  return data as unknown as (Omit<ApiKey, "organization_id"> & ApiKeyState)[];
}

type PageQuery = Database["audit_log"]["CompositeTypes"]["page_query"];

/** A query of a person: days, and what else matters to the test. */
export function pageQuery(
  start_date: string,
  end_date: string,
  given: Partial<PageQuery> = {},
): PageQuery {
  const rest = {
    action: null,
    user_email: null,
    page_limit: null,
    page_offset: null,
    newest_first: null,
  };
  return { start_date, end_date, ...rest, after: null, ...given };
}

/** An entry to write: what matters to the test; the rest is filled in. */
export type Entry = Partial<Omit<TablesInsert<"audit_entries">, "organization_id">>;

/** What `data` holds at the least (spec.md section 2.2), in the order in which Postgres keeps it. */
export const MESSAGE_DATA = {
  agent_id: "a-1",
  message_id: "m-1",
  conversation_id: "c-1",
  platform_agent_sid: "AG1",
};

/** An entry as the platform would write it. */
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

/** An organization that nobody administers, with a key and these entries. */
export async function newLog(...entries: Entry[]): Promise<Organization> {
  const organization = await addOrganization(sql);
  if (entries.length > 0) await writeEntries(organization.id, entries);
  return organization;
}

/** How many entries an organization has. */
export async function entriesOf(id: string): Promise<number> {
  const [row] = await sql`
    select count(*)::int as entries from audit_log.audit_entries where organization_id = ${id}`;
  return row?.["entries"];
}

/** Fails unless an organization has so many entries, and its counts and totals say so. */
export async function assertExact(
  { id, token }: Pick<Organization, "id" | "token">,
  entries: number,
): Promise<void> {
  assertEquals(await countMismatches(sql, id), []);
  const { total } = await getPage(token, "start=0001-01-01&end=9999-12-31&limit=1");
  assertEquals([await entriesOf(id), total], [entries, entries]);
}

/** Fails unless a page has the total of the entries that its own snapshot sees. */
export async function assertExactNow(id: string): Promise<void> {
  const [row] = await sql`
    select (p.page::json ->> 'total')::int as total, (
      select count(*)::int from audit_log.audit_entries e where e.organization_id = o.id
    ) as entries
    from audit_log.organizations o, audit_log_private.read_page(
      o.id, ('0001-01-01', '9999-12-31', null, null, 1, 0, false, null)::audit_log.page_query
    ) as p
    where o.id = ${id}`;
  assertEquals(row?.["total"], row?.["entries"]);
}

/** Runs a piece of work in a connection that is killed before it commits. */
export async function killWithin(piece: (connection: Run) => Promise<unknown>): Promise<void> {
  // A pool of its own: one does not recover from the end of a reserved connection.
  const pool = connect();
  const connection = await pool.reserve();
  const pid = await pidOf(connection);
  await connection`begin`;
  await piece(connection);
  await sql`select pg_terminate_backend(${pid}, 5000)`;
  await pool.end({ timeout: 0 });
}

/** Does all of the upkeep; fails if it waits for a row. */
export async function runUpkeepWithoutWaiting(): Promise<void> {
  const connection = await sql.reserve();
  await connection`set lock_timeout = '1s'`;
  await runUpkeep(connection);
  await connection`reset lock_timeout`;
  connection.release();
}

/** As if the sealed days of an organization had not been checked for a long time. */
export async function letChecksGrowOld(organizationId: string): Promise<void> {
  await sql`
    update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'
    where organization_id = ${organizationId}`;
}

/** Runs statements past the triggers of entries and seals, as an owner can. */
export async function silently(run: (transaction: postgres.TransactionSql) => Promise<unknown>) {
  const tables = ["audit_log.audit_entries", "audit_log_private.seals"];
  await sql.begin(async (transaction) => {
    for (const table of tables) {
      await transaction.unsafe(`alter table ${table} disable trigger user`);
    }
    await run(transaction);
    for (const table of tables) {
      await transaction.unsafe(`alter table ${table} enable trigger user`);
    }
  });
}

/** Sends a request with a key; `query` is a query string. */
export function get(token: string, query: string = TWO_DAYS): Promise<Response> {
  return send(`?${query}`, withKey(token));
}

/** What a request with a key has. */
export function withKey(token: string): RequestInit {
  return { headers: { Authorization: `Bearer ${token}` } };
}

/** Sends a request with a key; the status of its answer. */
export async function statusOf(token: string, query?: string): Promise<number> {
  return await statusOnly(get(token, query));
}

/** The status of an answer whose body does not matter. */
export async function statusOnly(answer: Promise<Response>): Promise<number> {
  const { status, body } = await answer;
  await body?.cancel();
  return status;
}

/** Sends any request to the service, whose answer must be as documented: whatever its status. */
export async function send(address: string, init?: RequestInit): Promise<Response> {
  const response = await fetch(`${AUDIT_LOG_URL}${address}`, init);
  // To HEAD there is no body.
  if (init?.method !== "HEAD") await assertDocumented(response);
  return response;
}

/** Sends a request that must succeed; its page. */
export async function getPage(token: string, query?: string): Promise<Page> {
  const response = await get(token, query);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return await response.json();
}

/** What a page says to ask for next, as a query string. */
export function nextOf({ next = "" }: Pick<Page, "next">): string {
  return new URL(next).search.slice(1);
}

/** Sends a request that must fail with a status; its problem. */
export async function getProblem(status: number, token: string, query?: string): Promise<Problem> {
  const response = await get(token, query);
  if (response.status === status) return await response.json();
  throw new Error(`${response.status} instead of ${status}: ${await response.text()}`);
}

function environment(name: string): string {
  const value = Deno.env.get(name);
  if (value) return value;
  throw new Error(`${name} is not set: run the tests with deno task test`);
}
