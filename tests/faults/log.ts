// An audit log on a stack of a test's own: what it is asked over a connection as the owner, or over HTTP.
import { assertEquals } from "@std/assert";
import type postgres from "postgres";
import type { StackInfo } from "../../local/stack.ts";

/** All entries, as many as a page can have. */
export const ALL = "start=0001-01-01&end=9999-12-31&limit=1000";

/** Makes an organization with a key. */
export async function newOrganization(sql: postgres.Sql): Promise<{ id: string; token: string }> {
  const [row] = await sql`insert into audit_log.organizations (name) values ('Test') returning id`;
  const id: string = row?.["id"];
  return { id, token: await newKey(sql, id) };
}

/** Makes a key; its token. */
export async function newKey(sql: postgres.Sql, id: string): Promise<string> {
  const [row] = await sql`
    select audit_log_private.insert_api_key(${id}, 'test') ->> 'token' as token`;
  return row?.["token"];
}

/** Revokes the key that has a token. */
export async function revoke(sql: postgres.Sql, token: string): Promise<void> {
  await sql`
    update audit_log_private.api_keys k set revoked_at = now()
    from audit_log_private.api_key_hashes h
    where h.api_key_id = k.id and h.token_hash = sha256(convert_to(${token}, 'UTF8'))`;
}

/** Writes entries of now, each in a transaction of its own unless one is open. */
export async function write(sql: postgres.ISql, id: string, ...names: string[]): Promise<void> {
  for (const name of names) {
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
      values (${id}, 'agent_added', 'ada@example.com', ${name})`;
  }
}

/** Writes so many entries of a day in one statement. */
export async function writeOn(sql: postgres.Sql, id: string, day: string, entries: number) {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
    select ${id}, ${`${day}T12:00:00Z`}::timestamptz + n * interval '1 second', 'agent_added',
      'ada@example.com', E'Tab\t, line\n, back\\slash, ümlaut ' || n
    from generate_series(1, ${entries}::int) as n`;
}

/** Asks the API. `after` is the cursor in its `Link`. */
export async function ask({ apiUrl }: Pick<StackInfo, "apiUrl">, token: string, query: string) {
  const url = `${apiUrl}/functions/v1/public-audit-log${query}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const body = await response.json();
  const after = response.headers.get("Link")?.match(/after=([^>&]+)/)?.[1] ?? "";
  return { status: response.status, body, after };
}

interface FeedPage {
  items: { id: string; agent_name: string }[];
  next: string;
  total: number;
}

/** Reads a page of the feed; null when the cursor is refused, which the API answers with 400. */
export async function read(sql: postgres.Sql, id: string, after: string) {
  const [row] = await sql`
    select page::json from audit_log_private.read_feed(
      ${id}, ('0001-01-01', '9999-12-31', null, null, 1000, null, null, ${after}::text)::audit_log.page_query
    )`;
  if (!row?.["page"]) return null;
  const page: FeedPage = row["page"];
  return { ...page, names: page.items.map((item) => item.agent_name).toSorted() };
}

/** The cursor after all there is. */
export async function cursorOf(sql: postgres.Sql, id: string): Promise<string> {
  return (await read(sql, id, "beginning"))?.next ?? "";
}

/** Asserts that a reader who begins anew is given every entry once, and then what is new once. */
export async function assertExact(sql: postgres.Sql, id: string, names: string[]): Promise<void> {
  const all = await read(sql, id, "beginning");
  assertEquals([all?.names, all?.total], [names, names.length]);
  await write(sql, id, "new 1", "new 2");
  const then = await read(sql, id, all?.next ?? "");
  assertEquals(then?.names, ["new 1", "new 2"]);
  assertEquals((await read(sql, id, then?.next ?? ""))?.names, []);
}

/** Adopts a restored log; the number of the epoch that begins. */
export async function adopt(sql: postgres.ISql): Promise<number> {
  const [row] = await sql`
    select audit_log_private.adopt_restored_log()::int as adopted`;
  assertEquals(row?.["adopted"], await epochOf(sql));
  return row?.["adopted"];
}

export async function epochOf(sql: postgres.ISql): Promise<number> {
  const [row] = await sql`select audit_log_private.log_epoch()::int as epoch`;
  return row?.["epoch"];
}

/** Uses up so many numbers of transactions: places that a log moves to have not reached them. */
export async function spendTransactions(sql: postgres.Sql): Promise<void> {
  await sql`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
}

export async function runUpkeep(sql: postgres.Sql): Promise<void> {
  while ((await sql`select audit_log_private.run_upkeep() as more`)[0]?.["more"]);
}

/** Does the upkeep of a night in which all days are compared with their seals. */
export async function scrub(sql: postgres.Sql): Promise<void> {
  await sql`update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'`;
  await runUpkeep(sql);
}

/** The seals of an organization, each of which must include the one before, and the days that were altered. */
export async function chainOf(sql: postgres.Sql, id: string) {
  const seals = await sql`
    select concat_ws(' ', sequence, day, entries, added, removed) as day,
      previous = lag(seal, 1, repeat('0', 64)) over (order by sequence) and seal = encode(sha256(convert_to(concat_ws(
        ' ', format, previous, sequence, day, entries, added, removed, sha256, audit_log_private.api_time(sealed_at)
      ), 'UTF8')), 'hex') as "isChained"
    from audit_log_private.seals where organization_id = ${id} order by sequence`;
  const altered = await sql`
    select day::text from audit_log_private.sealed_days
    where organization_id = ${id} and altered_at is not null order by day`;
  assertEquals(seals.filter(({ isChained }) => !isChained), []);
  return { days: seals.map(({ day }) => day), altered: altered.map(({ day }) => day) };
}
