import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  age,
  AUDIT_LOG_URL,
  connect,
  createApiKey,
  type Entry,
  exhaust,
  get,
  getProblem,
  inTokyo,
  newOrganization,
  type Page,
  pageQuery,
  randomFrom,
  type Run,
  signUp,
  sql,
  whileWaiting,
  writeEntries,
} from "../helpers.ts";

const admin = await signUp();

const RANGE = "start=2026-03-01&end=9999-12-31";

interface FeedPage extends Omit<Page, "next"> {
  /** What to ask for next: a query string, and its cursor. */
  next: string;
  after: string;
}

/** Asks the feed once. */
async function poll(token: string, query: string): Promise<FeedPage> {
  return await feedPage(await get(token, query));
}

async function feedPage(response: Response): Promise<FeedPage> {
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const link = response.headers.get("Link") ?? "";
  assertMatch(link, /^<[^>]*>; rel="next"$/);
  const next = new URL(link.slice(1, link.indexOf(">")));
  assertEquals(next.origin + next.pathname, AUDIT_LOG_URL);
  const page: Page = await response.json();
  assertEquals(page.next, next.href);
  assertEquals(response.headers.get("X-Has-More"), String(page.has_more));
  const after = next.searchParams.get("after") ?? "";
  return { ...page, next: next.search.slice(1), after };
}

/** The names of the agents, in the order of the answers, and what to ask for next. */
interface Followed {
  names: string[];
  next: string;
  has_more?: boolean;
}

/** Follows the feed until it is caught up. */
async function follow(token: string, query: string): Promise<Followed> {
  const { items, has_more, next } = await poll(token, query);
  const names = items.map((item) => item.agent_name);
  if (!has_more) return { names, next };
  const rest = await follow(token, next);
  return { ...rest, names: [...names, ...rest.names] };
}

/** Asks the feed in SQL, with a connection that may be in a transaction. */
async function read(
  run: Run,
  id: string,
  after: string,
  limit = 100,
  [start = "0001-01-01", end = "9999-12-31"]: string[] = [],
): Promise<Followed> {
  const [row] = await run`
    select page::json as answer from audit_log_private.read_feed(
      ${id}, (${start}, ${end}, null, null, ${limit}, 0, false, ${after})::audit_log.page_query
    )`;
  const { items, ...place } = row?.["answer"] as Omit<Followed, "names"> & {
    items: { agent_name: string }[];
  };
  return { names: items.map((item) => item.agent_name), ...place };
}

/** Reads the feed in SQL until it is caught up. */
async function readAll(...given: Parameters<typeof read>): Promise<string[]> {
  const [run, id, after, limit = 100, range] = given;
  const { names, next, has_more } = await read(run, id, after, limit, range);
  if (!has_more) return names;
  return [...names, ...await readAll(run, id, next, limit, range)];
}

/** Writes one entry by SQL, with a connection that may be in a transaction. */
async function write(run: Run, id: string, agentName: string, createdAt = "now") {
  await run`
    insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, created_at)
    values (${id}, 'agent_added', 'ada@example.com', ${agentName}, ${createdAt}::text::timestamptz)`;
}

function named(names: string[], given: Entry = {}): Entry[] {
  return names.map((agent_name, n) => ({
    agent_name,
    created_at: `2026-03-01T12:00:${String(n).padStart(2, "0")}Z`,
    ...given,
  }));
}

describe("the feed", () => {
  it("gives every entry once, from the beginning and then what is new, late entries too", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(id, named(["a", "b", "c"]));
    const first = await poll(token, `${RANGE}&after=beginning&limit=2`);
    assertEquals(first.items.map((item) => item.agent_name), ["a", "b"]);
    assertEquals([first.total, first.offset, first.limit], [3, 0, 2]);
    await writeEntries(id, named(["late"], { created_at: "2026-03-01T00:00:00Z" }));
    await writeEntries(id, named(["future"], { created_at: "2026-12-31T00:00:00Z" }));
    const then = await follow(token, first.next);
    assertEquals(then.names.toSorted(), ["c", "future", "late"]);
    assertEquals((await follow(token, then.next)).names, []);
    await writeEntries(id, named(["d"]));
    // As often as it is asked with that cursor.
    for (let i = 0; i < 2; i++) assertEquals((await follow(token, then.next)).names, ["d"]);
    assertEquals((await poll(token, then.next)).total, 6);
  });

  it("gives the same text for an entry as a page does", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(id, [
      { action: "agent_added", data: { n: 1.10, text: 'a "b" \\ \u2028 é', list: [{}, null] } },
      { user_email: 'o"x@example.com', agent_name: "\n\u{1f512}" },
    ]);
    const items = async (query: string) =>
      (await (await get(token, query)).text()).match(/\[.*\]/)?.[0];
    const page = await items(RANGE);
    assertEquals(await items(`${RANGE}&after=beginning`), page);
    const { next } = await follow(token, `${RANGE}&after=beginning`);
    await writeEntries(id, [{ agent_name: "later", created_at: "2026-03-03T00:00:00Z" }]);
    assertEquals(await items(next), await items(RANGE.replace("03-01", "03-03")));
  });

  it("gives only the range and the action that were asked for, all pages within a batch too", async () => {
    const { id, token } = await newOrganization(admin);
    const range = "start=2026-03-01&end=2026-03-02&action=feedback_given&limit=3";
    const days = ["2026-02-28", "2026-03-01", "2026-03-02", "2026-03-03"];
    const write = () =>
      writeEntries(
        id,
        days.flatMap((day) =>
          (["feedback_given", "agent_added"] as const).flatMap((action) =>
            [0, 1].map((n): Entry => ({
              action,
              agent_name: `${day} ${action}`,
              created_at: `${day}T23:59:59.${n}99Z`,
            }))
          )
        ),
      );
    const expected = ["2026-03-01", "2026-03-02"].flatMap((day) =>
      Array(2).fill(`${day} feedback_given`)
    );
    await write();
    const first = await follow(token, `${range}&after=beginning`);
    assertEquals(first.names, expected);
    await write();
    assertEquals((await follow(token, first.next)).names, expected);
  });

  it("shows an entry when its transaction commits, and waits for nobody", async () => {
    // In all orders, with savepoints: feed_schedules_test.ts.
    const { id, token } = await newOrganization(admin);
    const { next } = await follow(token, `${RANGE}&after=beginning`);
    const open = await sql.reserve();
    await open`begin`;
    await write(open, id, "held back");
    await write(sql, id, "meanwhile");
    const meanwhile = await follow(token, next);
    assertEquals(meanwhile.names, ["meanwhile"]);
    await open`commit`;
    open.release();
    assertEquals((await follow(token, meanwhile.next)).names, ["held back"]);
  });

  it("keeps to the microsecond at both ends of the range in UTC, which may be the years 0001 and 9999", async () => {
    const { id } = await newOrganization(admin);
    const times = [
      ["0001-01-01 00:00:00", "first"],
      ["2026-02-28 23:59:59.999999", "before"],
      ["2026-03-01 00:00:00", "start"],
      ["2026-03-02 23:59:59.999999", "end"],
      ["2026-03-03 00:00:00", "after"],
      ["9999-12-31 23:59:59.999999", "last"],
    ] as const;
    const empty = await read(sql, id, "beginning");
    for (const [time, name] of times) await write(sql, id, name, `${time}Z`);
    const all = times.map(([, name]) => name);
    const days = ["2026-03-01", "2026-03-02"];
    await inTokyo(async (session) => {
      for (const run of [sql, session]) {
        for (const limit of [1, 2, 5]) {
          assertEquals(await readAll(run, id, "beginning", limit, days), ["start", "end"]);
          assertEquals(await readAll(run, id, "beginning", limit), all);
          assertEquals(await readAll(run, id, empty.next, limit), all);
        }
      }
    });
  });

  it("keeps transactions in progress in its cursor, also where backslashes are escapes", async () => {
    const snapshot = "100:300:100,101,150,299";
    // A new session, because each parses a function once.
    const session = connect();
    const [, [row]] = await session.begin((transaction) => [
      transaction`set local standard_conforming_strings = off`,
      transaction`
      select audit_log_private.unpack_snapshot(audit_log_private.pack_snapshot(${snapshot})) as unpacked`,
    ]);
    assertEquals(row?.["unpacked"], snapshot);
    await session.end();
  });

  it("has cursors of one length, with one transaction in progress or some more", async () => {
    const lengths = await sql`
      select distinct length(audit_log_private.encode_cursor(
        (seen, null, null, null, null, null, null)::audit_log_private.feed_cursor, 'test'
      ))
      from unnest('{100:100:,100:1000:100,100:1000:100\\,200\\,300\\,400\\,500}'::pg_snapshot[]) as seen`;
    assertEquals(lengths.length, 1);
  });

  it("gives entries of the same microsecond once each, of one transaction or of several", async () => {
    const { id } = await newOrganization(admin);
    const empty = await read(sql, id, "beginning");
    const time = "2026-03-01T12:00:00.123456Z";
    await writeEntries(id, named(["a", "b", "c"], { created_at: time }));
    for (const name of ["d", "e", "f", "g"]) await write(sql, id, name, time);
    for (const limit of [1, 2, 3, 7]) {
      for (const after of ["beginning", empty.next]) {
        const names = await readAll(sql, id, after, limit);
        assertEquals(names.toSorted().join(""), "abcdefg", `${limit} from ${after}`);
      }
    }
  });

  it("gives a transaction its own entries when it has committed, those after the read too", async () => {
    const { id } = await newOrganization(admin);
    const next = await sql.begin(async (transaction) => {
      await write(transaction, id, "before");
      // So that the transaction is not the newest there is.
      await write(sql, id, "meanwhile");
      const read1 = await read(transaction, id, "beginning");
      assertEquals(read1.names, ["meanwhile"]);
      await write(transaction, id, "after");
      return (await read(transaction, id, read1.next)).next;
    });
    assertEquals((await read(sql, id, next)).names.toSorted(), ["after", "before"]);
  });

  it("is read when the request's turn comes, if the key looked exhausted before", async () => {
    const { id, apiKeyId, token } = await newOrganization(admin);
    const { next } = await follow(token, `${RANGE}&after=beginning`);
    await exhaust(sql, apiKeyId);
    const answer = await whileWaiting(sql, apiKeyId, () => get(token, next), async (holder) => {
      await age(holder, apiKeyId, "61 seconds");
      await write(sql, id, "while it waited");
    });
    const page = await feedPage(answer);
    assertEquals(page.items.map((item) => item.agent_name), ["while it waited"]);
    await write(sql, id, "then");
    assertEquals((await follow(token, page.next)).names, ["then"]);
  });

  it("gives what a snapshot had not seen, whatever it had in progress, 300 transactions too", async () => {
    const { id } = await newOrganization(admin);
    const random = randomFrom(7);
    const [row] = await sql`
      select pg_snapshot_xmax(pg_current_snapshot())::text::int as xmax
      from (select pg_current_xact_id()) as newest`;
    // The owner may choose the transaction: as if it had been these.
    const xmax = row?.["xmax"] as number;
    const oldest = Math.max(3, xmax - 700);
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, transaction_id)
      select ${id}, 'agent_added', 'ada@example.com', x, x::text::xid8
      from generate_series(${oldest}::int, ${xmax - 1}::int) as x, generate_series(1, 2)`;
    const transactions = Array.from({ length: xmax - oldest }, (_, n) => oldest + n);
    for (const density of [0, 1, 30, 60, 100]) {
      for (let round = 0; round < 4; round++) {
        const [low, high] = [oldest + random(50), xmax - random(100)];
        const inProgress = transactions.filter((x) =>
          x >= low && x < high && random(100) < density
        );
        const snapshot = `${low}:${high}:${inProgress}`;
        const [encoded] = await sql`
          select audit_log_private.encode_cursor(
            (${snapshot}::pg_snapshot, null, null, null, null, null, null), ${`${id} 0001-01-01 9999-12-31`}
          ) as cursor`;
        const names = await readAll(sql, id, encoded?.["cursor"], [3, 7, 100, 1000][round]);
        const unseen = transactions.filter((x) => inProgress.includes(x) || x >= high);
        assertEquals(names, unseen.flatMap((x) => [`${x}`, `${x}`]), snapshot);
      }
    }
  });

  it("goes on with any key of the organization, and with another limit", async () => {
    const { id, token } = await newOrganization(admin);
    const other = await createApiKey(admin, id);
    await writeEntries(id, named(["a", "b", "c", "d"]));
    const first = await poll(token, `${RANGE}&after=beginning&limit=1`);
    const rest = await follow(other.token, first.next.replace("limit=1", "limit=2"));
    assertEquals(rest.names, ["b", "c", "d"]);
  });

  it("is not disturbed by retention between two polls", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(id, named(["a", "b", "c", "d", "e"]));
    const first = await poll(token, `${RANGE}&after=beginning&limit=2`);
    await sql`
      delete from audit_log.audit_entries
      where organization_id = ${id} and created_at < '2026-03-01T12:00:03Z'`;
    const then = await follow(token, first.next);
    assertEquals(then.names, ["d", "e"]);
    await writeEntries(id, named(["f", "g", "h"]));
    const again = await poll(token, then.next.replace("limit=2", "limit=1"));
    await sql`
      delete from audit_log.audit_entries
      where organization_id = ${id} and agent_name = ${again.items[0]?.agent_name ?? ""}`;
    assertEquals((await follow(token, again.next)).names, ["g", "h"]);
  });

  it("says with has_more whether a reader has caught up, also after a full page", async () => {
    const { id, token } = await newOrganization(admin);
    const ask = async (query: string, expected: [number, boolean]) => {
      const { items, has_more, next } = await poll(token, query);
      assertEquals([items.length, has_more], expected);
      return next;
    };
    await writeEntries(id, named(["a", "b", "c", "d"]));
    const half = await ask(`${RANGE}&after=beginning&limit=2`, [2, true]);
    await writeEntries(id, named(["e", "f"]));
    // The first batch ends with this page, and the next one has begun.
    const rest = await ask(half, [2, true]);
    const end = await ask(rest, [2, false]);
    await ask(end, [0, false]);
  });

  it("does a bounded amount of work for a page, which then is short or empty, and gives every entry", async () => {
    const { id, token } = await newOrganization(admin);
    const query = `${RANGE}&action=feedback_given`;
    const count = async (from: string) => {
      const pages = [await poll(token, from)];
      while (pages.at(-1)?.has_more) pages.push(await poll(token, pages.at(-1)?.next ?? ""));
      return pages.map((page) => page.items.length);
    };
    const { next } = await poll(token, `${query}&after=beginning`);
    const late = await sql.reserve();
    await late`begin`;
    await write(late, id, "late");
    const while_late = (await poll(token, next)).next;
    for (const run of [late, sql]) {
      await run`
        insert into audit_log.audit_entries (organization_id, action, user_email, agent_name)
        select ${id}, case when n % 13000 = 0 then 'feedback_given' else 'agent_added' end,
          'ada@example.com', 'many'
        from generate_series(1, 13000) as n`;
    }
    await late`commit`;
    late.release();
    // New ones alone, and the late ones before the new ones.
    assertEquals(await count(next), [0, 1, 1]);
    assertEquals(await count(while_late), [0, 1, 1]);
    // Entries that came after the first page, and lie before the rest of the first batch.
    const first = await poll(token, `${RANGE}&after=beginning&limit=1`);
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, created_at)
      select ${id}, 'agent_added', 'ada@example.com', 'early', ${
      first.items[0]?.created_at ?? ""
    }::timestamptz + interval '1 ms'
      from generate_series(1, 10000)`;
    const second = await poll(token, first.next);
    assertEquals([second.items.length, second.has_more], [0, true]);
  });

  it("is the same for an administrator, through read_audit_log", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, named(["a", "b", "c"]));
    const read = async (after: string) => {
      const query = pageQuery("2026-03-01", "9999-12-31", { page_limit: 2, after });
      const { data } = await admin.client
        .rpc("read_audit_log", { organization_id: id, query }).throwOnError();
      const { items, ...rest } = data as {
        total: number;
        items: string;
        next: string;
        has_more: boolean;
      };
      const names = (JSON.parse(items) as { agent_name: string }[]).map((item) => item.agent_name);
      return { ...rest, names };
    };
    const first = await read("beginning");
    assertEquals([first.total, first.names, first.has_more], [3, ["a", "b"], true]);
    const second = await read(first.next);
    assertEquals([second.names, second.has_more], [["c"], false]);
    assertEquals((await read(second.next)).names, []);
    const { error } = await admin.client
      .rpc("read_audit_log", {
        organization_id: id,
        query: pageQuery("2026-03-02", "9999-12-31", { after: second.next }),
      });
    assertEquals(error?.code, "AL003");
    assertMatch(error?.message ?? "", /after=beginning/);
  });
});

describe("a cursor", () => {
  it("of another organization, range or action is refused, and says what to do", async () => {
    const [mine, other] = [await newOrganization(admin), await newOrganization(admin)];
    const { after } = await poll(mine.token, `${RANGE}&after=beginning`);
    for (
      const [token, query] of [
        [other.token, RANGE],
        [mine.token, "start=2026-03-02&end=9999-12-31"],
        [mine.token, "start=2026-03-01&end=9999-12-30"],
        [mine.token, `${RANGE}&action=agent_added`],
      ] as const
    ) {
      const { errors } = await getProblem(400, token, `${query}&after=${after}`);
      assertEquals(errors?.map(({ parameter }) => parameter), ["after"]);
      assertMatch(errors?.[0]?.detail ?? "", /Start again with after=beginning/);
    }
  });

  it("that is cut, altered by one character, or garbage is refused, never a 500", async () => {
    const { id, token } = await newOrganization(admin);
    const { after } = await poll(token, `${RANGE}&after=beginning`);
    const altered = Array.from(after, (character, n) => {
      const other = character === "A" ? "B" : "A";
      return after.slice(0, n) + other + after.slice(n + 1);
    });
    const garbage = [
      after.slice(1),
      after.slice(0, -1),
      `${after}A`,
      `${after}${after}`,
      "x",
      "A".repeat(64),
      "A".repeat(7_000),
      "beginning2",
    ];
    const decode = (cursor: string) =>
      sql`
        select audit_log_private.decode_cursor(${cursor}, ${`${id} 2026-03-01 9999-12-31`}) is null as refused`;
    assertEquals((await decode(after))[0]?.["refused"], false);
    for (const cursor of [...altered, ...garbage]) {
      assertEquals((await decode(cursor))[0]?.["refused"], true, cursor);
    }
    for (const cursor of [altered[0], ...garbage, "", encodeURIComponent("a b"), "%2541", "é"]) {
      const { errors } = await getProblem(400, token, `${RANGE}&after=${cursor}`);
      assertEquals(errors?.map(({ parameter }) => parameter), ["after"], cursor);
    }
  });

  it("tells nothing: the same place is another text each time", async () => {
    const { token } = await newOrganization(admin);
    const [a, b] = [1, 2].map(async () => (await poll(token, `${RANGE}&after=beginning`)).after);
    assertNotEquals((await a)?.slice(0, 20), (await b)?.slice(0, 20));
  });

  it("is short enough for an address with 2,000 transactions in progress, in the middle of a batch too", async () => {
    for (const [open, apart, longest] of [[200, 3, 1024], [2000, 10_000, 6500]] as const) {
      const { id, token } = await newOrganization(admin);
      const scope = `${id} 2026-03-01 9999-12-31`;
      // In progress at both ends of the batch, which has two entries.
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
          (s.seen, s.bound, '1', '2026-03-01 12:00:00.123456Z', gen_random_uuid(), null, null), ${scope}
        ) as cursor, audit_log_private.decode_cursor(cursor, ${scope}) as d`;
      assert(row?.["isKept"]);
      const first = await poll(token, `${RANGE}&limit=1&after=${row?.["cursor"]}`);
      assertEquals([first.items.length, first.has_more], [1, true]);
      assert(first.after.length < longest, `${first.after.length} characters`);
      assertEquals((await poll(token, first.next)).items.length, 1);
    }
  });
});
