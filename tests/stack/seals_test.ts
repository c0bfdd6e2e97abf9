import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import type { SealsPage } from "../../supabase/functions/public-audit-log/page_schema.ts";
import {
  type Entry,
  errorOf,
  exhaust,
  insertEntries,
  inTokyo,
  letChecksGrowOld,
  newOrganization,
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

const admin = await signUp();

type Seal = SealsPage["items"][number];

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** An organization's seals of a range of days, as an administrator sees them. */
async function listSeals(
  organization_id: string,
  start_date = "2026-03-01",
  end_date = "2026-03-31",
) {
  const { data } = await admin.client
    .rpc("list_seals", {
      organization_id,
      query: pageQuery(start_date, end_date, { page_limit: 1000 }),
    }).throwOnError();
  const { total, altered, items } = data as unknown as SealsPage;
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

function countsOf({ entries, added, removed }: Seal): number[] {
  return [entries, added, removed];
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

async function sealedDay(count = 5) {
  const organization = await newOrganization(admin);
  await writeEntries(organization.id, entriesOn("2026-03-01", count));
  await runUpkeep(sql);
  return organization;
}

describe("the upkeep", () => {
  it("seals each finished day with entries, and no other", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(id, [
      ...entriesOn("2026-03-01", 3),
      ...entriesOn("2026-03-03", 2),
      { created_at: new Date().toISOString() },
      { created_at: "9999-12-31T00:00:00Z" },
    ]);
    await runUpkeep(sql);
    const { total, altered, seals } = await listSeals(id, "0001-01-01", "9999-12-31");
    assertEquals([total, altered], [2, []]);
    assertEquals(
      seals.map((seal) => [seal.sequence, seal.day, ...countsOf(seal)]),
      [[1, "2026-03-01", 3, 0, 0], [2, "2026-03-03", 2, 0, 0]],
    );
    for (const { day, sha256 } of seals) assertEquals(sha256, hashOf(await ndjson(token, day)));
    await runUpkeep(sql);
    assertEquals((await listSeals(id)).total, 2);
  });

  it("hashes a day in blocks of 1000 lines, at the edges of a block too", async () => {
    for (const count of [999, 1000, 1001, 2000]) {
      const { id, token } = await sealedDay(count);
      const { seals } = await listSeals(id);
      assertEquals(seals.map(({ entries }) => entries), [count]);
      assertEquals(seals[0]?.sha256, hashOf(await ndjson(token, "2026-03-01")));
    }
  });

  it("chains the seals of an organization, each with the one before in it", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, ["01", "02", "03"].flatMap((day) => entriesOn(`2026-03-${day}`, 2)));
    await runUpkeep(sql);
    await writeEntries(id, entriesOn("2026-03-02", 1));
    await runUpkeep(sql);
    const { seals } = await listSeals(id);
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

  it("gives a key what list_seals gives an administrator, of its organization alone", async () => {
    const { id, token } = await sealedDay();
    await sealedDay();
    await SILENT["(a) an address is changed"]?.(id);
    await letChecksGrowOld(id);
    await runUpkeep(sql);
    const { total, altered, seals } = await listSeals(id);
    assertEquals([total, altered], [1, ["2026-03-01"]]);
    const response = await send(`/seals?${MARCH}`, withKey(token));
    assertEquals(await response.json(), {
      organization_id: id,
      start: "2026-03-01",
      end: "2026-03-31",
      total,
      limit: 100,
      offset: 0,
      altered,
      items: seals,
    });
  });

  it("is paged like entries, in order of sequence", async () => {
    const { id, token } = await newOrganization(admin);
    await writeEntries(id, ["03", "02", "01"].flatMap((day) => entriesOn(`2026-03-${day}`, 1)));
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

describe("a log restored to another server", () => {
  it("has no day altered, and its late entries are declared as such", async () => {
    const { id } = await sealedDay(3);
    // One that was not sealed yet when the backup was taken.
    await writeEntries(id, entriesOn("2026-03-01", 1, { agent_name: "late" }));
    // As if the entries' and seals' transactions were of a server that has counted much further.
    await silently(async (transaction) => {
      await transaction`
        update audit_log.audit_entries
        set transaction_id = (transaction_id::text::bigint + 1000000000)::text::xid8
        where organization_id = ${id}`;
      await transaction`
        update audit_log_private.seals
        set snapshot = format('%s:%s:', x, x)::pg_snapshot
        from (
          select max(transaction_id::text::bigint) as x from audit_log.audit_entries where organization_id = ${id}
        ) as late
        where organization_id = ${id}`;
      await transaction`update audit_log_private.feed_keys set system_identifier = 1`;
      // Before it is adopted, the upkeep would take all that is written now for what was sealed.
      const early = transaction.savepoint((savepoint) =>
        savepoint`select audit_log_private.run_upkeep()`
      );
      assertEquals((await errorOf(early)).code, "55000");
      await transaction`select audit_log_private.adopt_restored_log()`;
    });
    await writeEntries(id, entriesOn("2026-03-01", 1, { agent_name: "later" }));
    await runUpkeep(sql);
    await letChecksGrowOld(id);
    await runUpkeep(sql);
    const { altered, seals } = await listSeals(id);
    assertEquals(altered, []);
    assertEquals(seals.map(({ entries, added }) => [entries, added]), [[3, 0], [5, 2]]);
  });
});

describe("seals", () => {
  it("are the same in a session of any time zone and form of dates", async () => {
    const { id, token } = await newOrganization(admin);
    const days = ["2026-03-01", "2026-03-02"];
    // In Tokyo, it is the day after.
    const late = days.map((day) => ({ created_at: `${day}T20:00:00Z` }));
    for (const expected of [[[1, 0], [1, 0]], [[1, 0], [1, 0], [2, 1], [2, 1]]]) {
      await writeEntries(id, late);
      await inTokyo(runUpkeep);
      const { altered, seals } = await listSeals(id);
      assertEquals(altered, []);
      assertEquals(seals.map(({ entries, added }) => [entries, added]), expected);
      for (const seal of seals.slice(-2)) {
        assertEquals(seal.sha256, hashOf(await ndjson(token, seal.day)));
        assertEquals(seal.seal, sealOf(seal));
      }
    }
  });

  it("are append-only for everyone, the owner included", async () => {
    const { id } = await sealedDay();
    for (
      const statement of [
        sql`update audit_log_private.seals set entries = 0 where organization_id = ${id}`,
        sql`delete from audit_log_private.seals where organization_id = ${id}`,
        sql`truncate audit_log_private.seals`,
      ]
    ) assertEquals((await errorOf(statement)).code, "42501");
  });
});

describe("a late entry", () => {
  it("whose writer commits after the day was sealed is declared by the next seal", async () => {
    const { id } = await newOrganization(admin);
    await writeEntries(id, entriesOn("2026-03-01", 2));
    await sql.begin(async (writer) => {
      await insertEntries(writer, id, "2026-03-01", 1);
      await runUpkeep(sql);
    });
    await runUpkeep(sql);
    const { altered, seals } = await listSeals(id);
    assertEquals(altered, []);
    assertEquals(seals.map(({ entries, added }) => [entries, added]), [[2, 0], [3, 1]]);
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

/** Each is done past the triggers. */
const SILENT: Record<string, (id: string) => Promise<unknown>> = {
  "(a) an address is changed": (id) =>
    silently((transaction) =>
      transaction`
        update audit_log.audit_entries set user_email = 'eve@example.com'
        where organization_id = ${id} and agent_name = 'agent 1'`
    ),
  "(b) an address is changed, and then a late entry comes": async (id) => {
    await SILENT["(a) an address is changed"]?.(id);
    await writeEntries(id, entriesOn("2026-03-01", 1, { agent_name: "late" }));
  },
  "(c) an address is changed just before a late entry is sealed": async (id) => {
    await writeEntries(id, entriesOn("2026-03-01", 1, { agent_name: "late" }));
    await SILENT["(a) an address is changed"]?.(id);
  },
  "(d) an entry is deleted": (id) =>
    silently((transaction) =>
      transaction`
        delete from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 1'`
    ),
  "(d) an entry is deleted, beside one that is deleted openly": async (id) => {
    await SILENT["(d) an entry is deleted"]?.(id);
    await sql`
      delete from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 2'`;
  },
  "(e) an entry is inserted with an old transaction number": (id) =>
    silently((transaction) =>
      transaction`
        insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
        select organization_id, created_at, action, user_email, 'smuggled', data, transaction_id
        from audit_log.audit_entries where organization_id = ${id} and agent_name = 'agent 1'`
    ),
};

describe("a silent change", () => {
  for (const [what, change] of Object.entries(SILENT)) {
    it(`${what}: the day is altered, and no seal blesses it`, async () => {
      const { id } = await sealedDay();
      await change(id);
      await letChecksGrowOld(id);
      await runUpkeep(sql);
      const { total, altered } = await listSeals(id);
      assertEquals([total, altered], [1, ["2026-03-01"]]);
      assertEquals((await wrongDays(id, "altered_days")).length, 1);
    });
  }

  it("of the triggers alone: a plain insert past them is declared, and shows as a wrong count", async () => {
    const { id } = await sealedDay();
    await silently((transaction) => insertEntries(transaction, id, "2026-03-01", 1));
    await letChecksGrowOld(id);
    await runUpkeep(sql);
    const { altered, seals } = await listSeals(id);
    assertEquals(altered, []);
    assertEquals(seals.map(({ entries, added }) => [entries, added]), [[5, 0], [6, 1]]);
    assertEquals((await wrongDays(id, "miscounted_days")).map(({ entries }) => entries), [1]);
  });
});

describe("the alert in docs/operating.md", () => {
  it("finds nothing of a well log, and each thing that is wrong", async () => {
    const { id } = await sealedDay();
    const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
    const alert = page.match(/select h\.key, h\.value\n[^]*?;/)?.[0] ?? "";
    const wrongs = [
      ["", "select 1"],
      [
        "last_upkeep_at",
        "update audit_log_private.upkeep_state set last_run_at = now() - interval '2 days'",
      ],
      ["last_upkeep_at", "update audit_log_private.upkeep_state set last_run_at = null"],
      [
        "oldest_unsealed_day",
        `insert into audit_log_private.days_to_seal values ('${id}', '2026-03-01')`,
      ],
      ["altered_days", `update audit_log_private.sealed_days set altered_at = now()`],
      ["miscounted_days", `update audit_log_private.sealed_days set miscounted = 1`],
      ["is_adopted", "update audit_log_private.feed_keys set system_identifier = 1"],
    ] as const;
    for (const [expected, wrong] of wrongs) {
      await rolledBack(sql, async (transaction) => {
        // What other tests have done.
        await transaction`update audit_log_private.sealed_days set altered_at = null, miscounted = 0`;
        await transaction`delete from audit_log_private.days_to_seal`;
        await transaction`update audit_log_private.upkeep_state set last_run_at = now()`;
        await transaction`delete from audit_log_private.entry_counts where writer_pid <> 0`;
        await transaction.unsafe(wrong);
        const rows = await transaction.unsafe(alert);
        assertEquals(rows.map(({ key }) => key).join(), expected);
      });
    }
  });
});

describe("the checks of sealed days", () => {
  it("come to each day within 30 nights, and to few in one", async () => {
    const { id } = await newOrganization(admin);
    const days = Array.from(
      { length: 60 },
      (_, n) => new Date(Date.parse("2025-12-01") + n * 86_400_000).toISOString().slice(0, 10),
    );
    await writeEntries(id, days.flatMap((day) => entriesOn(day, 1)));
    await runUpkeep(sql);
    const checked = async () => {
      const rows = await sql`
        select day::text from audit_log_private.sealed_days
        where organization_id = ${id} and checked_at > clock_timestamp() - interval '1 minute'`;
      return rows.length;
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

describe("format 1 of entries and seals is frozen: a change needs a format 2 that the seals name, because customers keep files and seals of format 1:", () => {
  it("the line of an entry has these bytes, and its day this hash", async () => {
    const { id } = await newOrganization(admin);
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
    const { seals: [seal] } = await listSeals(id);
    const hash = "a0d5b6a651c9c9ae19fba2427121e50d2e06ad9acbba5ac0135b4a8de6753ff1";
    assertEquals([seal?.format, seal?.sha256], [1, hash]);
    const line = `1 ${"0".repeat(64)} 1 2026-03-01 2 0 0 ${hash} ${seal?.sealed_at}`;
    assertEquals(seal?.seal, sha256(line));
  });
});
