// Helpers for tests with a log on a stack of their own. They use a connection of the owner, or HTTP.
import { deepEqual as assertEquals } from "node:assert/strict";
import type { StackInfo } from "../../dev/local/stack.ts";
import { askFeed, type Run, valueOf } from "../../dev/harness/project.ts";

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

/** Asks the API. `after` is the cursor in its `Link`. */
export async function ask({ apiUrl }: Pick<StackInfo, "apiUrl">, token: string, query: string) {
  const url = `${apiUrl}/functions/v1/public-audit-log${query}`;
  const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const body = await response.json();
  return { status: response.status, body, after: body.cursor as string };
}

/** Reads a page of the feed and sorts the names. Returns null when the cursor is refused. */
export async function read(run: Run, id: string, after: string) {
  const page = await askFeed(run, id, after);
  return page && { ...page, names: page.names.toSorted() };
}

/** The cursor at the end of the log. */
export async function cursorOf(run: Run, id: string): Promise<string> {
  return (await read(run, id, "beginning"))?.cursor ?? "";
}

/** Asserts that a new reader gets every entry once, and then every new entry once. */
export async function assertExact(run: Run, id: string, names: string[]): Promise<void> {
  const all = await read(run, id, "beginning");
  assertEquals([all?.names, all?.total], [names, names.length]);
  await write(run, id, "new 1", "new 2");
  const then = await read(run, id, all?.cursor ?? "");
  assertEquals(then?.names, ["new 1", "new 2"]);
  assertEquals((await read(run, id, then?.cursor ?? ""))?.names, []);
}

/** Adopts a restored log. Returns the number of the epoch that begins. */
export async function adopt(run: Run): Promise<number> {
  const epoch: number = await valueOf(run`select audit_log_private.adopt_restored_log()::int`);
  assertEquals(epoch, await epochOf(run));
  return epoch;
}

export async function epochOf(run: Run): Promise<number> {
  return await valueOf(run`select audit_log_private.log_epoch()::int`);
}
