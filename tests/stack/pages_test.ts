import { assert, assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { ACTIONS, insertEntries, newLog, pick, type Query, queryOf } from "../helpers.ts";
import { type Random, randomFrom, runUpkeep, sql } from "../helpers.ts";

const HOT_HOUR = "2026-03-31T22";
/** The times of entries, and some where queries begin and end: edges of months, days and hours, and in the hot hour. */
const TIMES = [
  "2024-02-29T23:59:59.999Z",
  "2024-03-01T00:00:00.000Z",
  "2025-12-31T23:00:00.000Z",
  "2026-01-01T09:30:00.001Z",
  "2026-03-30T00:00:00.000Z",
  `${HOT_HOUR}:00:00.000Z`,
  `${HOT_HOUR}:20:00.001Z`,
  `${HOT_HOUR}:40:00.000Z`,
  "2026-03-31T23:00:00.000Z",
  "2026-04-01T00:00:00.000Z",
];
const PERSONS = ["ada@example.com", "Ada@example.com", "bob@example.com"];
/** What entries say that they are about: the text c is a value of the first two. */
const ABOUT = [
  { conversation_id: "c", agent_id: "a" },
  { agent_id: "c" },
  { c: "a", list: ["c"], inside: { conversation_id: "c" } },
  { conversation_id: "C", agent_id: 1 },
];
const QUERIES = 300;

/** Writes a thousand entries, half of them in one hour, so that many share their millisecond. */
async function write(id: string, random: Random): Promise<void> {
  const times = Array.from({ length: 1000 }, (_, n) => {
    if (n % 2) return pick(random, TIMES);
    return `${HOT_HOUR}:${10 + random(50)}:00.00${random(3)}Z`;
  });
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${id}, e.time::timestamptz, e.action, e.person, 'Assistant', e.data::jsonb
    from unnest(
      ${times}::text[], ${times.map(() => pick(random, ["agent_added", "feedback_given"]))}::text[],
      ${times.map(() => pick(random, PERSONS))}::text[],
      ${times.map(() => JSON.stringify(pick(random, ABOUT)))}::text[]
    ) as e (time, action, person, data)`;
}

/** Makes a log whose counts are in part by month, by day, and of the writer, with late entries and deleted ones. */
async function randomLog(random: Random): Promise<string> {
  const { id } = await newLog();
  await write(id, random);
  await insertEntries(sql, id, "2025-01-01", 800, { every: "15 hours" });
  await runUpkeep(sql);
  await write(id, random);
  await sql`
    delete from audit_log.audit_entries e where e.organization_id = ${id}
      and (e.created_at < '2024-03-01Z' or e.created_at >= ${HOT_HOUR + ":15Z"}::text::timestamptz
        and e.created_at < ${HOT_HOUR + ":25Z"}::text::timestamptz)`;
  return id;
}

function randomQuery(random: Random): Query {
  const [since = "", until = ""] = [pick(random, TIMES), pick(random, TIMES)].sort();
  const days = { start_date: since.slice(0, 10), end_date: until.slice(0, 10) };
  return {
    ...pick(random, [{}, days, days, { ...days, since, until }, { since }, { until }]),
    actions: pick(random, [[], ["agent_added"], [...ACTIONS]]),
    ...pick(random, [{}, {}, { user_email: pick(random, PERSONS) }]),
    ...pick(random, [{}, {}, { object: pick(random, ["a", "c", "1"]) }]),
    page_limit: 1 + random(40),
    page_offset: random(pick(random, [10, 500, 2800])),
    newest_first: random(2) === 0,
  };
}

it("pages, the feed and the chart give and count the entries that a plain select gives, across ties, ends of months, late and deleted entries and a hot hour", async () => {
  const random = randomFrom(1843);
  const id = await randomLog(random);
  let entries = 0;
  for (let i = 0; i < QUERIES; i++) {
    const given = randomQuery(random);
    const [row] = await sql`
      with asked as materialized (select ${queryOf(sql, given)} as query),
      matching as materialized (
        select audit_log_private.entry_line(e) as line,
          row_number() over (order by e.created_at, e.id) as n, row_number() over (order by e.created_at desc, e.id desc) as newest
        from asked, audit_log.audit_entries e
        where e.organization_id = ${id} and e.created_at >= (query).since and e.created_at < (query).until
          and ((query).actions is null or e.action = any ((query).actions))
          and ((query).user_email is null or lower(e.user_email) = (query).user_email)
          and ((query).object is null or exists (
            select from jsonb_each(e.data) as d where d.value = to_jsonb((query).object)
          ))
      )
      select page.total::int, page.items, feed.items as followed, (select count(*)::int from matching) as matching,
        (
          select coalesce(sum((d ->> 'entries')::int), 0)::int
          from json_array_elements(audit_log_private.count_days(${id}, query, true) -> 'items') as d
        ) as charted,
        (
          select '[' || coalesce(string_agg(m.line, E',\n' order by p.place), '') || ']'
          from matching m, lateral (select case when (query).newest_first then m.newest else m.n end as place) as p
          where p.place > (query).page_offset and p.place <= (query).page_offset + (query).page_limit
        ) as expected,
        (
          select '[' || coalesce(string_agg(m.line, E',\n' order by m.n), '') || ']'
          from matching m where m.n <= (query).page_limit
        ) as first
      from asked, audit_log_private.read_page(${id}, query) as page,
        audit_log_private.read_feed(${id}, jsonb_populate_record(query, '{"after": "beginning"}')) as feed`;
    const { total, charted, items, followed, matching, expected, first } = row ?? {};
    assertEquals(
      [total, charted, items, followed],
      [matching, matching, expected, first],
      JSON.stringify(given),
    );
    entries += JSON.parse(items).length;
  }
  assert(entries > 10 * QUERIES, `only ${entries} entries were compared`);
});
