import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import type { SealsPage } from "../../supabase/functions/public-audit-log/page_schema.ts";
import {
  codeOf,
  type Entry,
  exhaust,
  insertEntries,
  inTokyo,
  letChecksGrowOld,
  newLog,
  newOrganization,
  type Organization,
  pageQuery,
  rolledBack,
  runUpkeep,
  send,
  signUp,
  silently,
  sql,
  statusOnly,
  withKey,
  writeEntries,
} from "../helpers.ts";

type Seal = SealsPage["items"][number];

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** A key's answer about the seals of a range of days. */
async function sealsOf(token: string, range = "start=2026-03-01&end=2026-03-31") {
  const response = await send(`/seals?${range}&limit=1000`, withKey(token));
  const { total, altered, items }: SealsPage = await response.json();
  return { total, altered, seals: items };
}

/** A day of the log as NDJSON, from the pages of the API. */
async function ndjson(token: string, day: string): Promise<string> {
  let lines = "";
  for (let offset = 0;; offset += 1000) {
    const response = await send(`?start=${day}&end=${day}&limit=1000&offset=${offset}`, {
      headers: { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" },
    });
    const page = await response.text();
    if (page === "") return lines;
    lines += page;
  }
}

/** What `split -l 1000 --filter=sha256sum | cut -c1-64 | sha256sum` makes of a file. */
function hashOf(lines: string): string {
  const all = lines.split("\n").slice(0, -1);
  let list = "";
  for (let i = 0; i < all.length; i += 1000) {
    list += `${sha256(`${all.slice(i, i + 1000).join("\n")}\n`)}\n`;
  }
  return sha256(list);
}

/** Days, entries and how many of them were added late. */
function countsOf(seals: Seal[]): (string | number)[][] {
  return seals.map(({ day, entries, added, removed }) => {
    assertEquals(removed, 0);
    return [day.slice(8), entries, added];
  });
}

/** What a seal must be. */
function sealOf(seal: Seal): string {
  const { format, previous, sequence, day, entries, added, removed, sealed_at } = seal;
  const line = [format, previous, sequence, day, entries, added, removed, seal.sha256, sealed_at];
  return sha256(line.join(" "));
}

function entriesOn(day: string, count: number, given: Entry = {}): Entry[] {
  return Array.from({ length: count }, (_, n) => ({
    created_at: `${day}T12:00:${String(n % 60).padStart(2, "0")}.${n % 1000}Z`,
    agent_name: `agent ${n}`,
    ...given,
  }));
}

async function sealedDay(count = 5): Promise<Organization> {
  const log = await newLog(...entriesOn("2026-03-01", count));
  await runUpkeep(sql);
  return log;
}

/** Checks all days of an organization again. */
async function checkAgain({ id }: Organization): Promise<void> {
  await letChecksGrowOld(id);
  await runUpkeep(sql);
}

describe("the upkeep", () => {
  it("seals each finished day with entries, and no other", async () => {
    const { token } = await newLog(
      ...entriesOn("2026-03-01", 3),
      ...entriesOn("2026-03-03", 2),
      { created_at: new Date().toISOString() },
      { created_at: "9999-12-31T00:00:00Z" },
    );
    await runUpkeep(sql);
    const { total, altered, seals } = await sealsOf(token, "start=0001-01-01&end=9999-12-31");
    assertEquals([total, altered], [2, []]);
    assertEquals(countsOf(seals), [["01", 3, 0], ["03", 2, 0]]);
    for (const { day, sha256 } of seals) assertEquals(sha256, hashOf(await ndjson(token, day)));
    await runUpkeep(sql);
    assertEquals((await sealsOf(token)).total, 2);
  });

  it("is refused in a restored log that was not adopted: it would take new entries for sealed ones", async () => {
    const code = await rolledBack(sql, async (run) => {
      await run`update audit_log_private.feed_keys set system_identifier = 1`;
      return await codeOf(run`select audit_log_private.run_upkeep()`);
    });
    assertEquals(code, "55000");
  });

  it("hashes a day in blocks of 1000 lines, at the edges of a block too", async () => {
    for (const count of [999, 1000, 1001, 2000]) {
      const { token } = await sealedDay(count);
      const { seals } = await sealsOf(token);
      assertEquals(seals.map(({ entries }) => entries), [count]);
      assertEquals(seals[0]?.sha256, hashOf(await ndjson(token, "2026-03-01")));
    }
  });

  it("puts the seal before it into each seal of an organization", async () => {
    const days = ["01", "02", "03"];
    const { id, token } = await newLog(...days.flatMap((day) => entriesOn(`2026-03-${day}`, 2)));
    await runUpkeep(sql);
    await writeEntries(id, entriesOn("2026-03-02", 1));
    await runUpkeep(sql);
    const { seals } = await sealsOf(token);
    assertEquals(seals.map(({ sequence }) => sequence), [1, 2, 3, 4]);
    let previous = "0".repeat(64);
    for (const seal of seals) {
      assertEquals(seal.previous, previous);
      assertEquals(seal.seal, sealOf(seal));
      assertMatch(seal.sealed_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      previous = seal.seal;
    }
  });
});

describe("GET …/public-audit-log/seals", () => {
  const MARCH = "start=2026-03-01&end=2026-03-31";

  it("gives a key what list_seals() gives an administrator, of its organization alone", async () => {
    const admin = await signUp();
    const [log] = [await newOrganization(admin), await sealedDay()];
    await writeEntries(log.id, entriesOn("2026-03-01", 5));
    await runUpkeep(sql);
    await change(log.id);
    await checkAgain(log);
    const query = pageQuery("2026-03-01", "2026-03-31");
    const { data } = await admin.client.rpc("list_seals", { organization_id: log.id, query })
      .throwOnError();
    const { total, altered, items } = data as unknown as SealsPage;
    assertEquals([total, items.length, altered], [1, 1, ["2026-03-01"]]);
    assertEquals(await (await send(`/seals?${MARCH}`, withKey(log.token))).json(), {
      organization_id: log.id,
      start: "2026-03-01",
      end: "2026-03-31",
      ...{ total, limit: 100, offset: 0, altered, items },
    });
  });

  it("is paged like entries, in order of sequence", async () => {
    const written = ["03", "02", "01"];
    const { id, token } = await newLog(...written.flatMap((day) => entriesOn(`2026-03-${day}`, 1)));
    await runUpkeep(sql);
    await writeEntries(id, entriesOn("2026-03-01", 1));
    await runUpkeep(sql);
    const days: string[] = [];
    let next: string | undefined = `/seals?${MARCH}&limit=1`;
    while (next) {
      const response: Response = await send(next, withKey(token));
      const { items, total } = await response.json() as SealsPage;
      assertEquals([items.length, total], [1, 4]);
      days.push(`${items[0]?.sequence} ${items[0]?.day}`);
      next = response.headers.get("Link")
        ?.match(/<[^>]*\/public-audit-log(\/seals\?[^>]*)>; rel="next"/)?.[1];
    }
    assertEquals(days, ["1 2026-03-01", "2 2026-03-02", "3 2026-03-03", "4 2026-03-01"]);
    const { items } = await (await send(`/seals?${MARCH}&offset=3`, withKey(token))).json();
    assertEquals(items.map(({ sequence }: Seal) => sequence), [4]);
  });

  it("counts against the key's limit, and refuses as entries do", async () => {
    const { token, apiKeyId } = await sealedDay();
    const statusOf = (query: string, init = withKey(token)) =>
      statusOnly(send(`/seals${query}`, init));
    assertEquals(await statusOf(`?${MARCH}`), 200);
    for (
      const bad of [
        "start=2026-03-01",
        "start=2026-03-02&end=2026-03-01",
        ...["action=agent_added", "after=beginning", "order=asc", "limit=1001"]
          .map((more) => `${MARCH}&${more}`),
      ]
    ) assertEquals(await statusOf(`?${bad}`), 400, bad);
    await exhaust(sql, apiKeyId);
    assertEquals(await statusOf(`?${MARCH}`), 429);
    assertEquals(await statusOf(`?${MARCH}`, {}), 401);
    assertEquals(await statusOf(`?${MARCH}`, { method: "POST" }), 405);
    assertEquals(await statusOf(`/1?${MARCH}`), 404);
  });
});

describe("seals", () => {
  it("are the same in a session of any time zone and form of dates", async () => {
    const { id, token } = await newLog();
    const days = ["2026-03-01", "2026-03-02"];
    // In Tokyo, it is the day after.
    const late = days.map((day) => ({ created_at: `${day}T20:00:00Z` }));
    const first = [["01", 1, 0], ["02", 1, 0]];
    for (const expected of [first, [...first, ["01", 2, 1], ["02", 2, 1]]]) {
      await writeEntries(id, late);
      await inTokyo(runUpkeep);
      const { altered, seals } = await sealsOf(token);
      assertEquals(altered, []);
      assertEquals(countsOf(seals), expected);
      for (const seal of seals.slice(-2)) {
        assertEquals(seal.sha256, hashOf(await ndjson(token, seal.day)));
        assertEquals(seal.seal, sealOf(seal));
      }
    }
  });

  it("declare an entry whose writer commits after the day was sealed", async () => {
    const { id, token } = await newLog(...entriesOn("2026-03-01", 2));
    await sql.begin(async (writer) => {
      await insertEntries(writer, id, "2026-03-01", 1);
      await runUpkeep(sql);
    });
    await runUpkeep(sql);
    const { altered, seals } = await sealsOf(token);
    assertEquals(altered, []);
    assertEquals(countsOf(seals), [["01", 2, 0], ["01", 3, 1]]);
  });

  it("are append-only for everyone, the owner included", async () => {
    const { id } = await sealedDay();
    for (
      const statement of [
        sql`update audit_log_private.seals set entries = 0 where organization_id = ${id}`,
        sql`delete from audit_log_private.seals where organization_id = ${id}`,
        sql`truncate audit_log_private.seals`,
      ]
    ) assertEquals(await codeOf(statement), "42501");
  });
});

/** What health() says of an organization. */
async function wrongDays(id: string, kind: "altered_days" | "miscounted_days") {
  const [row] = await sql`
    select array(
      select day from json_array_elements(audit_log_private.health() -> ${kind}) as day
      where day ->> 'organization_id' = ${id}
    ) as days`;
  return row?.["days"] as { entries?: number }[];
}

/** Changes an entry past the triggers. */
const change = (id: string) =>
  silently((run) =>
    run`
      update audit_log.audit_entries set user_email = 'eve@example.com'
      where organization_id = ${id} and agent_name = 'agent 1'`
  );

/** Deletes an entry past the triggers. */
const remove = (id: string) =>
  silently((run) =>
    run`delete from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 1'`
  );

const writeLate = (id: string) => writeEntries(id, [{ agent_name: "late" }]);

const SILENT: Record<string, (id: string) => Promise<unknown>> = {
  "an address is changed": change,
  "an address is changed, and then a late entry comes": (id) =>
    change(id).then(() => writeLate(id)),
  "an address is changed just before a late entry is sealed": (id) =>
    writeLate(id).then(() => change(id)),
  "an entry is deleted": remove,
  "an entry is deleted, beside one that is deleted openly": async (id) => {
    await remove(id);
    await sql`
      delete from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 2'`;
  },
  "an entry is inserted with an old transaction number": (id) =>
    silently((run) =>
      run`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
        select organization_id, created_at, action, user_email, 'smuggled', data, transaction_id
        from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 1'`
    ),
};

describe("a silent change", () => {
  for (const [what, alter] of Object.entries(SILENT)) {
    it(`is found: ${what}; no seal blesses it`, async () => {
      const log = await sealedDay();
      await alter(log.id);
      await checkAgain(log);
      const { total, altered } = await sealsOf(log.token);
      assertEquals([total, altered], [1, ["2026-03-01"]]);
      assertEquals((await wrongDays(log.id, "altered_days")).length, 1);
    });
  }

  it("that is a plain insert past the triggers is declared by the next seal, and shows as a wrong count", async () => {
    const log = await sealedDay();
    const { id, token } = log;
    await silently((transaction) => insertEntries(transaction, id, "2026-03-01", 1));
    await checkAgain(log);
    const { altered, seals } = await sealsOf(token);
    assertEquals(altered, []);
    assertEquals(countsOf(seals), [["01", 5, 0], ["01", 6, 1]]);
    assertEquals((await wrongDays(id, "miscounted_days")).map(({ entries }) => entries), [1]);
  });
});

describe("the checks of sealed days", () => {
  it("reach each day within 30 nights, and few days in one night", async () => {
    const { id } = await newLog();
    await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${id}, timestamptz '2025-12-01Z' + n * interval '1 day', 'agent_added', 'ada@example.com', 'x'
      from generate_series(0, 59) as n`;
    await runUpkeep(sql);
    const checked = async () => {
      const { length } = await sql`
        select from audit_log_private.sealed_days
        where organization_id = ${id} and checked_at > clock_timestamp() - interval '1 minute'`;
      return length;
    };
    await sql`
      update audit_log_private.sealed_days set checked_at = checked_at - interval '13 hours'
      where organization_id = ${id}`;
    await runUpkeep(sql);
    assertEquals(await checked(), 2);
    await letChecksGrowOld(id);
    await runUpkeep(sql);
    assertEquals(await checked(), 60);
  });
});

// A change needs a format 2 that the seals name, because customers keep files and seals of format 1.
describe("format 1 of entries and seals is frozen", () => {
  it("as the bytes of an entry's line and as the hash of its day", async () => {
    const { id, token } = await newLog();
    await sql`
      insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
      values
        ('01a1b01e-9b04-7e70-8342-9325992eb6a2', ${id}, '2026-03-01 09:09:18.212999Z', 'feedback_given',
          'ada"<é>@example.com', E'tab\\t \\\\ 名', '{"b": [1, 2.50, 1e3], "a": {"é": null}}'),
        ('01a1b01e-9b04-7e70-8342-9325992eb6a3', ${id}, '2026-03-01Z', 'agent_added', 'a@b', '', '{}')`;
    await runUpkeep(sql);
    const lines = await sql`
      select audit_log_private.entry_line(e) as line from audit_log.audit_entries e
      where e.organization_id = ${id} order by e.created_at`;
    assertEquals(lines.map((row) => row["line"]), [
      '{"id":"01a1b01e-9b04-7e70-8342-9325992eb6a3","created_at":"2026-03-01T00:00:00.000Z",' +
      '"action":"agent_added","user_email":"a@b","agent_name":"","data":{}}',
      '{"id":"01a1b01e-9b04-7e70-8342-9325992eb6a2","created_at":"2026-03-01T09:09:18.212Z",' +
      '"action":"feedback_given","user_email":"ada\\"<é>@example.com",' +
      '"agent_name":"tab\\t \\\\ 名","data":{"a": {"é": null}, "b": [1, 2.50, 1000]}}',
    ]);
    const { seals: [seal] } = await sealsOf(token);
    const hash = "a0d5b6a651c9c9ae19fba2427121e50d2e06ad9acbba5ac0135b4a8de6753ff1";
    assertEquals([seal?.format, seal?.sha256], [1, hash]);
    const line = `1 ${"0".repeat(64)} 1 2026-03-01 2 0 0 ${hash} ${seal?.sealed_at}`;
    assertEquals(seal?.seal, sha256(line));
  });
});
