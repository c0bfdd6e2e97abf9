import { insertEntry, newLog, type Organization, sql } from "./mod.ts";

/** Careless programs break these values when they write or read JSON or CSV. */
const AWKWARD = [
  'say "hi", twice',
  "two\r\nlines",
  "two\nlines",
  "two\rlines",
  " spaces, at the ends ",
  "=1+1",
  "日本語 🦕 e\u0301 \u2028",
  "back\\slash\\",
  '","data":{},"items":[{"',
  "",
];
const AWKWARD_DATA = [
  '{"n": 9007199254740993, "x": 1.10, "big": 123456789012345678901234567890, "tiny": 1e-30}',
  '{"__proto__": {"a": 0}, "text": "},{\\"id\\":[\\\\", "list": [1.0, -0.00, null, [{}, {"id": 1}]]}',
  "{}",
];

/** Makes an organization with a key and so many entries. */
export async function newFilledLog(count: number, firstDay = 20, days = 1): Promise<Organization> {
  const organization = await newLog();
  await fill(organization, count, firstDay, days);
  return organization;
}

/** Spreads so many entries evenly over the 20th of November 2026, or over other days of that month. */
export async function fill({ id }: Organization, count: number, firstDay = 20, days = 1) {
  await sql`
    insert into audit_log.audit_entries
      (organization_id, created_at, action, user_email, agent_name, data)
    select ${id}, make_timestamptz(2026, 11, ${firstDay}, 0, 0, 0, 'UTC')
        + n * ${days}::int * interval '1 day' / ${count}::int,
      (array['agent_added', 'conversation_created', 'feedback_given'])[1 + n % 3],
      'user' || n || '@example.com',
      (${AWKWARD}::text[])[1 + n % ${AWKWARD.length}::int],
      (${AWKWARD_DATA}::text[])[1 + n % ${AWKWARD_DATA.length}::int]::jsonb
    from generate_series(0, ${count}::int - 1) as n`;
}

/** Writes an entry with an early time, without committing it. Returns what commits it. */
export async function writeLate({ id }: Organization): Promise<() => Promise<void>> {
  const writer = await sql.reserve();
  await writer`begin`;
  await insertEntry(writer, id, { created_at: "2026-11-11" });
  return async () => {
    await writer`commit`;
    writer.release();
  };
}

/** The ids of all entries, sorted. */
export async function idsOfLog({ id }: Organization): Promise<string[]> {
  const rows = await sql`select id from audit_log.audit_entries where organization_id = ${id}`;
  return rows.map(({ id }) => id).sort();
}

/** The ids in NDJSON, sorted. */
export function idsOf(lines: string): string[] {
  return lines.split("\n").slice(0, -1).map((line) => JSON.parse(line).id).sort();
}
