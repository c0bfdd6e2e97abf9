import { type Organization, type Sql, writeEntries } from "../helpers.ts";

/**
 * Writes to the 20th of November 2026 as platforms do: one writer commits late, others write and commit
 * meanwhile, times go up and down, some of it is rolled back.
 */
export async function writeOutOfOrder(
  sql: Sql,
  { id }: Organization,
  rounds: number,
): Promise<void> {
  const writer = await sql.reserve();
  const write = (hour: number) =>
    writer`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      values (${id}, '2026-11-20Z'::timestamptz + ${hour}::int * interval '1 hour', 'agent_added',
        'late@example.com', 'Late')`;
  for (let round = 0; round < rounds; round++) {
    await writer`begin`;
    await write(round * 7 % 24);
    await writer`savepoint undone`;
    await write(round * 5 % 24);
    if (round % 3 === 0) await writer`rollback to savepoint undone`;
    await writeEntries(id, [{ created_at: `2026-11-20T${10 + round % 10}:00:00Z` }]);
    await writer`select pg_sleep(${0.05 * (round % 4)})`;
    await (round % 5 === 4 ? writer`rollback` : writer`commit`);
  }
  writer.release();
}

/** The ids of all entries, sorted. */
export async function idsOfLog(sql: Sql, { id }: Organization): Promise<string[]> {
  const rows = await sql`select id from audit_log.audit_entries where organization_id = ${id}`;
  return rows.map(({ id }) => id).sort();
}

/** The ids in NDJSON, sorted. */
export function idsOf(lines: string): string[] {
  return lines.split("\n").slice(0, -1).map((line) => JSON.parse(line).id).sort();
}
