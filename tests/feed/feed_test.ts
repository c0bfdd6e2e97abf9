// Needs a stack.

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { addKeys, askFeed, AUDIT_LOG_URL, type Entry, follow, get } from "../helpers/mod.ts";
import { getPage, getProblem, goOn, insertEntries, insertEntry, inTokyo } from "../helpers/mod.ts";
import { newLog, type Page, type Query, queryOf, type Run, sql, valueOf } from "../helpers/mod.ts";
import { writeEntries } from "../helpers/mod.ts";

const RANGE = "start=2026-03-01&end=9999-12-31";
const ID = "00000000-0000-4000-8000-000000000001";
const BEGINNING = `${RANGE}&after=beginning`;

function namesOf({ items }: Pick<Page, "items">): string[] {
  return items.map((item) => item.agent_name);
}

async function cursorOf(token: string, query = BEGINNING): Promise<string> {
  return (await getPage(token, query)).cursor ?? "";
}

/** SQL of what encrypts a cursor for a query. */
function cursorKey(id: string, query: Query = {}) {
  return sql`audit_log_private.cursor_key(audit_log_private.feed_scope(${id}, ${
    queryOf(sql, query)
  }))`;
}

async function write(run: Run, id: string, agent_name: string, created_at?: string): Promise<void> {
  await insertEntry(run, id, { agent_name, ...created_at && { created_at } });
}

/** Makes entries whose agents are called by one letter each, a second apart. */
function named(names: string): Entry[] {
  return [...names].map((agent_name, n) => ({
    agent_name,
    created_at: `2026-03-01T12:00:0${n}Z`,
  }));
}

describe("the feed", () => {
  it("gives any key every entry once, from the beginning and then what is new, late entries too", async () => {
    const { id, token } = await newLog(...named("abc"));
    const query = `${BEGINNING}&limit=2`;
    const response = await get(token, query);
    const first: Page = await response.json();
    assertEquals([namesOf(first), first.total, first.offset, first.limit], [["a", "b"], 3, 0, 2]);
    const sorted = (text: string) => [...new URLSearchParams(text)].sort();
    const next = first.next?.replace(`${AUDIT_LOG_URL}?`, "") ?? "";
    assertEquals(sorted(next), sorted(goOn(query, first)));
    assertEquals(response.headers.get("Link"), `<${first.next}>; rel="next"`);
    assertEquals(response.headers.get("X-Cursor"), first.cursor);
    assertEquals(response.headers.get("X-Has-More"), "true");
    for (const day of ["03-01", "12-31"]) await write(sql, id, day, `2026-${day}T00:00:00Z`);
    // Another key and another limit change nothing.
    const [other] = await addKeys(sql, id, 1);
    const then = await follow(other?.token ?? "", goOn(query, first).replace("limit=2", "limit=5"));
    assertEquals(namesOf(then).toSorted(), ["03-01", "12-31", "c"]);
    assertEquals(namesOf(await follow(token, then.next)), []);
    await writeEntries(id, named("d"));
    // A cursor can be used again.
    for (let i = 0; i < 2; i++) {
      const last = await get(token, then.next);
      const page: Page = await last.json();
      assertEquals([namesOf(page), page.total], [["d"], 6]);
      // The end has a cursor to go on with, but no address.
      assertEquals([page.next, page.has_more, last.headers.get("Link")], [null, false, null]);
      assertEquals(last.headers.get("X-Cursor"), page.cursor);
    }
  });

  it("gives, as pages do, the entries between two midnights in UTC, to the millisecond, in a session of any time zone", async () => {
    const { id } = await newLog();
    const query = { start_date: "2026-03-01", end_date: "2026-03-02" };
    const empty = await askFeed(sql, id, "beginning", query);
    const inside = ["2026-03-01 00:00:00", "2026-03-01 08:00:00", "2026-03-02 23:59:59.999"];
    const times = ["2026-02-28 23:59:59.999", ...inside, "2026-03-03 00:00:00"];
    await writeEntries(id, times.map((time) => ({ agent_name: time, created_at: `${time}Z` })));
    await inTokyo(async (session) => {
      for (const after of ["beginning", empty?.cursor ?? ""]) {
        assertEquals((await askFeed(session, id, after, query))?.names, inside);
        // A cursor within a transaction has a time, which means the same in another zone.
        const first = await askFeed(session, id, after, { ...query, page_limit: 1 });
        const rest = await askFeed(sql, id, first?.cursor ?? "", query);
        assertEquals([first?.names, rest?.names], [inside.slice(0, 1), inside.slice(1)]);
      }
      const page = session`
        select total::int from audit_log_private.read_page(${id}, ${queryOf(session, query)})`;
      assertEquals(await valueOf(page), inside.length);
    });
  });

  it("misses and repeats nothing when retention deletes entries between two polls", async () => {
    const { id, token } = await newLog(...named("abcde"));
    const query = `${BEGINNING}&limit=2`;
    const first = await getPage(token, query);
    const remove = (names: string[]) =>
      sql`delete from audit_log.audit_entries where organization_id = ${id} and agent_name = any(${names})`;
    await remove(["a", "b", "c"]);
    const then = await follow(token, goOn(query, first));
    assertEquals(namesOf(then), ["d", "e"]);
    await writeEntries(id, named("fgh"));
    const again = await getPage(token, then.next.replace("limit=2", "limit=1"));
    await remove(namesOf(again));
    assertEquals(namesOf(await follow(token, goOn(query, again))), ["g", "h"]);
  });

  it("reads a bounded number of entries for a page, which then is short, and still gives every entry", async () => {
    const { id, token } = await newLog();
    const count = async (query: string): Promise<number[]> => {
      const page = await getPage(token, query);
      return [page.items.length, ...page.has_more ? await count(goOn(query, page)) : []];
    };
    const asked = `${BEGINNING}&action=feedback_given`;
    const next = goOn(asked, await getPage(token, asked));
    const whileLate = await sql.begin(async (late) => {
      await write(late, id, "late");
      const page = await getPage(token, next);
      for (const [run, day] of [[late, "2026-03-01"], [sql, "2026-03-02"]] as const) {
        await insertEntries(run, id, day, 13_000, { action: "agent_added" });
        await insertEntry(run, id, { action: "feedback_given" });
      }
      return goOn(next, page);
    });
    // With new entries only, and with late entries before the new ones.
    assertEquals(await count(next), [0, 1, 1]);
    assertEquals(await count(whileLate), [0, 1, 1]);
    // Entries are written after the first page that lie before the rest of the first batch.
    const first = await getPage(token, `${BEGINNING}&limit=1`);
    const place = first.items[0]?.created_at ?? "";
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, created_at)
      select ${id}, 'agent_added', 'ada@example.com', 'early', ${place}::timestamptz + interval '1 ms'
      from generate_series(1, 10000)`;
    const second = await getPage(token, goOn(`${BEGINNING}&limit=1`, first));
    assertEquals([second.items.length, second.has_more], [0, true]);
  });
});

describe("a cursor", () => {
  it("is for the range and all filters, however they are written, and for no place", async () => {
    const scopeOf = async (query: Query) => {
      const scope: string = await valueOf(
        sql`select audit_log_private.feed_scope(${ID}, ${queryOf(sql, query)})`,
      );
      return [scope.slice(0, 37), JSON.parse(scope.slice(37))];
    };
    const range = { since: "2026-03-01T00:00:00+00:00", until: "2026-03-02T00:00:00+00:00" };
    const place = { after: "x", page_limit: 7, page_offset: 7, newest_first: true };
    const days = { start_date: "2026-03-01", end_date: "2026-03-01", ...place };
    assertEquals(await scopeOf(days), [`${ID} `, range]);
    const filters = { ...days, actions: ["b", "a"], user_email: "Ada@x.y", object: "A" };
    const scope = { ...range, actions: ["a", "b"], user_email: "ada@x.y", object: "A" };
    assertEquals(await scopeOf(filters), [`${ID} `, scope]);
  });

  it("is refused for another organization, range, action, person or object, and the error says what to do", async () => {
    const [mine, other] = [await newLog(), await newLog()];
    const after = await cursorOf(mine.token);
    const adas = await cursorOf(mine.token, `${BEGINNING}&user_email=ada%40x.y`);
    const requests = [
      [other.token, RANGE, after],
      [mine.token, "start=2026-03-02&end=9999-12-31", after],
      [mine.token, `${RANGE}&action=agent_added`, after],
      [mine.token, RANGE, adas],
    ] as const;
    for (const [token, query, cursor] of requests) {
      const { errors } = await getProblem(400, token, `${query}&after=${cursor}`);
      assertEquals(errors?.map(({ parameter }) => parameter), ["after"]);
      assertMatch(errors?.[0]?.detail ?? "", /Start again with after=beginning/);
    }
  });

  it("is refused with 400 if it is cut, altered by one character, or no cursor at all", async () => {
    const { id, token } = await newLog();
    const after = await cursorOf(token);
    const altered = Array.from(
      after,
      (character, n) => after.slice(0, n) + (character === "A" ? "B" : "A") + after.slice(n + 1),
    );
    const cut = [after.slice(1), after.slice(0, -1), `${after}A`];
    const garbage = [...cut, "x", "A".repeat(64), "A".repeat(7_000), "beginning2"];
    const isRefused = (cursor: string) =>
      valueOf(sql`
        select audit_log_private.decode_cursor(
          ${cursor}, ${cursorKey(id, { start_date: "2026-03-01" })}
        ) is null`);
    assertEquals(await isRefused(after), false);
    for (const cursor of [...altered, ...garbage]) assertEquals(await isRefused(cursor), true);
    for (const cursor of [altered[0], ...garbage, "", encodeURIComponent("a b"), "%2541", "é"]) {
      const { errors } = await getProblem(400, token, `${RANGE}&after=${cursor}`);
      assertEquals(errors?.map(({ parameter }) => parameter), ["after"], cursor);
    }
  });

  it("tells its reader nothing. It differs each time, and its length is the same for no, one and five open transactions", async () => {
    const { token } = await newLog();
    const cursor = async () => (await cursorOf(token)).slice(0, 20);
    assertNotEquals(await cursor(), await cursor());
    const lengths = await sql`
      select distinct length(audit_log_private.encode_cursor(
        (seen, null, null, null, null)::audit_log_private.feed_cursor, audit_log_private.cursor_key('test')
      ))
      from unnest('{100:100:,100:1000:100,100:1000:100\\,200\\,300\\,400\\,500}'::pg_snapshot[]) as seen`;
    assertEquals(lengths.length, 1);
  });

  it("fits into an address with 1,000 transactions in progress, also within a batch", async () => {
    for (const [open, apart, longest] of [[200, 3, 1024], [1000, 500, 6500]] as const) {
      const { id, token } = await newLog();
      const key = cursorKey(id, { start_date: "2026-03-01" });
      // They are in progress at both ends of the batch, which has two entries.
      const [row] = await sql`
        with transactions as (
          select array_agg(1 + n * ${apart}::bigint) as open, ${open}::bigint * ${apart}::bigint + 1 as next
          from generate_series(0, ${open}::int - 1) as n
        ), snapshots as (
          select
            format('1:%s:%s', next, array_to_string(open, ','))::pg_snapshot as seen,
            format('1:%s:%s', next + 2, array_to_string(open, ','))::pg_snapshot as bound
          from transactions
        ), entries as (
          insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, transaction_id)
          select ${id}, 'agent_added', 'ada@example.com', 'x', (next + n)::text::xid8
          from transactions, generate_series(0, 1) as n
        )
        select cursor, d.seen::text = s.seen::text and d.bound::text = s.bound::text as "isKept"
        from snapshots s, audit_log_private.encode_cursor(
          (s.seen, s.bound, '1', '2026-03-01 12:00:00.123456Z', gen_random_uuid()),
          ${key}
        ) as cursor, audit_log_private.decode_cursor(cursor, ${key}) as d`;
      assert(row?.["isKept"]);
      const query = `${RANGE}&limit=1&after=${row?.["cursor"]}`;
      const { items, has_more, cursor = "" } = await getPage(token, query);
      assertEquals([items.length, has_more], [1, true]);
      assert(cursor.length < longest, `${cursor.length} characters`);
      assertEquals((await getPage(token, goOn(query, { cursor }))).items.length, 1);
    }
  });
});
