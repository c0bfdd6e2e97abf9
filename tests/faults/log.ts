// Tests use a log on a stack of their own with these: over a connection of the owner, or over HTTP.
import { assertEquals } from "@std/assert";
import type { StackInfo } from "../../local/stack.ts";
import { askFeed, type Run, runUpkeep, type Sql } from "../project.ts";

/** All days, and the longest page. */
export const ALL = "start=0001-01-01&end=9999-12-31&limit=1000";

/** Writes entries of now, each in a transaction of its own unless one is open. */
export async function write(run: Run, id: string, ...names: string[]): Promise<void> {
  for (const name of names) {
    // Names the columns that platforms may write, and no others.
    await run`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
      values (${id}, 'agent_added', 'ada@example.com', ${name})`;
  }
}

/** Revokes the key that has a token. */
export async function revoke(run: Run, token: string): Promise<void> {
  await run`
    update audit_log_private.api_keys k set revoked_at = now()
    from audit_log_private.api_key_hashes h
    where h.api_key_id = k.id and h.token_hash = sha256(convert_to(${token}, 'UTF8'))`;
}

/** Asks the API. `after` is the cursor in its `Link`. */
export async function ask({ apiUrl }: Pick<StackInfo, "apiUrl">, token: string, query: string) {
  const url = `${apiUrl}/functions/v1/public-audit-log${query}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const body = await response.json();
  const after = response.headers.get("Link")?.match(/after=([^>&]+)/)?.[1] ?? "";
  return { status: response.status, body, after };
}

/** Reads a page of the feed and sorts the names. Returns null when the cursor is refused. */
export async function read(run: Run, id: string, after: string) {
  const page = await askFeed(run, id, after);
  return page && { ...page, names: page.names.toSorted() };
}

/** The cursor at the end of the log. */
export async function cursorOf(run: Run, id: string): Promise<string> {
  return (await read(run, id, "beginning"))?.next ?? "";
}

/** Asserts that a new reader gets every entry once, and then every new entry once. */
export async function assertExact(run: Run, id: string, names: string[]): Promise<void> {
  const all = await read(run, id, "beginning");
  assertEquals([all?.names, all?.total], [names, names.length]);
  await write(run, id, "new 1", "new 2");
  const then = await read(run, id, all?.next ?? "");
  assertEquals(then?.names, ["new 1", "new 2"]);
  assertEquals((await read(run, id, then?.next ?? ""))?.names, []);
}

/** Adopts a restored log. Returns the number of the epoch that begins. */
export async function adopt(run: Run): Promise<number> {
  const [row] = await run`select audit_log_private.adopt_restored_log()::int as adopted`;
  assertEquals(row?.["adopted"], await epochOf(run));
  return row?.["adopted"];
}

export async function epochOf(run: Run): Promise<number> {
  const [row] = await run`select audit_log_private.log_epoch()::int as epoch`;
  return row?.["epoch"];
}

/** Uses up numbers of transactions, so that new entries have numbers that other servers have not reached. */
export async function spendTransactions(run: Run): Promise<void> {
  await run`do $$ begin for n in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$`;
}

/** Does the upkeep, in which all days are due to be compared with their seals. */
export async function scrub(sql: Sql): Promise<void> {
  await sql`update audit_log_private.sealed_days set checked_at = checked_at - interval '31 days'`;
  await runUpkeep(sql);
}

/** Asserts that each seal of an organization includes the one before. Returns them and the altered days. */
export async function chainOf(sql: Sql, id: string) {
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
