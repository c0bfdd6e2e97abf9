// Needs a stack.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { checkChain, sealOf } from "../../cli/seals/seal_chain.ts";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";
import { ALL_DAYS, checkSeals, codeOf, type Entry, exhaust, getSeals } from "../helpers/mod.ts";
import { healthOf, insertEntries, insertEntry, inTokyo, newLog } from "../helpers/mod.ts";
import { type Organization, readDay, rolledBack, runUpkeep } from "../helpers/mod.ts";
import { type SealsPage, send, silently, sql, statusOnly, today, valueOf } from "../helpers/mod.ts";
import { withKey, writeEntries } from "../helpers/mod.ts";

type Seal = SealsPage["items"][number];

/** Lists the days of seals, without year and month, with how many entries they have and how many came late. */
function countsOf({ items }: SealsPage): (string | number)[][] {
  return items.map(({ day, entries, added, removed }) => {
    assertEquals(removed, 0);
    return [day.slice(8), entries, added];
  });
}

function entriesOn(day: string, count: number): Entry[] {
  return Array.from({ length: count }, (_, n) => ({
    created_at: `${day}T12:00:0${n}.999Z`,
    agent_name: `agent ${n}`,
  }));
}

/** Makes a log whose finished days are sealed. */
async function sealedLog(...entries: Entry[]): Promise<Organization> {
  const log = await newLog(...entries);
  await runUpkeep(sql);
  return log;
}

/** Makes a log with one sealed day. */
const sealedDay = () => sealedLog(...entriesOn("2026-03-01", 5));

async function writeAndSeal(id: string, day: string): Promise<void> {
  await writeEntries(id, entriesOn(day, 1));
  await runUpkeep(sql);
}

describe("the upkeep", () => {
  it("seals each finished UTC day with entries and no other, in any time zone, and declares entries whose writer commits later", async () => {
    // In Tokyo, the last entry of each day is on the next day.
    const [first, third] = ["2026-03-01", "2026-03-03"].map((day) => [
      ...entriesOn(day, 2),
      { created_at: `${day}T20:00:00Z` },
    ]) as [Entry[], Entry[]];
    const others = [{ created_at: new Date().toISOString() }, { created_at: "9999-12-31" }];
    const { id, token } = await newLog(...first, ...third, ...others);
    const assertSealed = async (...expected: (string | number)[][]) => {
      await inTokyo(runUpkeep);
      const seals = await getSeals(token, ALL_DAYS);
      assertEquals([countsOf(seals), seals.altered], [expected, []]);
      assertEquals((await checkChain(seals.items)).problems, []);
      const { day = "", sha256: hash } = seals.items.at(-1) ?? {};
      // A short day is one block. tests/command/verifying_test.ts has longer ones.
      assertEquals(hash, await sha256(`${await sha256(await readDay(token, day))}\n`));
    };
    const sealed = [["01", 3, 0], ["03", 3, 0]];
    await assertSealed(...sealed);
    await sql.begin(async (writer) => {
      await insertEntry(writer, id, { created_at: "2026-03-01T21:00:00Z" });
      await assertSealed(...sealed);
    });
    await assertSealed(...sealed, ["01", 4, 1]);
  });

  it("is refused in a restored log that was not adopted, where it would mistake new entries for sealed ones", async () => {
    const code = await rolledBack(sql, async (run) => {
      await run`update audit_log_private.cursor_keys set system_identifier = 1`;
      return await codeOf(run`select audit_log_private.run_upkeep()`);
    });
    assertEquals(code, "55000");
  });

  it("continues the chain when the database's clock is set back: no seal is older than the one before", async () => {
    const { id, token } = await sealedDay();
    const { items: [made] } = await getSeals(token);
    // As if the clock had been a day ahead when the seal was made.
    const sealed_at = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString();
    const ahead = { ...made as Seal, sealed_at };
    const seal = await sealOf(ahead);
    await silently((transaction) =>
      transaction`
        update audit_log_private.seals set sealed_at = ${sealed_at}, seal = ${seal} where organization_id = ${id}`
    );
    await writeEntries(id, [...entriesOn("2026-03-01", 1), ...entriesOn("2026-03-02", 1)]);
    await runUpkeep(sql);
    const { items } = await getSeals(token);
    assertEquals(items.map(({ sealed_at }) => sealed_at), Array(3).fill(sealed_at));
    assertEquals((await checkChain(items)).problems, []);
  });

  it("checks each sealed day again within 30 nights, and few days in one night", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2025-12-01", 60, { every: "1 day" });
    await runUpkeep(sql);
    const dueWithin = (days: number) =>
      valueOf(sql`
        select count(*)::int from audit_log_private.sealed_days
        where organization_id = ${id} and check_at <= now() + interval '1 day' * ${days}`);
    const due = async () => [await dueWithin(0), await dueWithin(1), await dueWithin(30)];
    assertEquals(await due(), [0, 2, 60]);
    await sql`
      update audit_log_private.sealed_days set check_at = check_at - interval '1 day'
      where organization_id = ${id}`;
    assertEquals(await due(), [2, 4, 60]);
    await runUpkeep(sql);
    // By this clock, their night is still to come.
    assertEquals(await due(), [0, 4, 60]);
    await checkSeals(sql, id);
    assertEquals(await due(), [0, 2, 60]);
  });
});

it("the list of seals is paged and rate-limited like entries, in the order of the chain. Each seal contains the hash of the one before", async () => {
  const written = ["03", "02", "01"].flatMap((day) => entriesOn(`2026-03-${day}`, 1));
  const { id, apiKeyId, token } = await sealedLog(...written);
  await writeAndSeal(id, "2026-03-01");
  const days: string[] = [];
  let previous = "0".repeat(64);
  let next: string | undefined = `/seals?${ALL_DAYS}&limit=1`;
  while (next) {
    const response: Response = await send(next, withKey(token));
    const { items: [seal, ...others], total }: SealsPage = await response.json();
    assertEquals([others, total, seal?.previous], [[], 4, previous]);
    days.push(`${seal?.sequence} ${seal?.day}`);
    previous = seal?.seal ?? "";
    next = response.headers.get("Link")
      ?.match(/<[^>]*\/public-audit-log(\/seals\?[^>]*)>; rel="next"/)?.[1];
  }
  assertEquals(days, ["1 2026-03-01", "2 2026-03-02", "3 2026-03-03", "4 2026-03-01"]);
  await exhaust(sql, apiKeyId);
  assertEquals(await statusOnly(send(`/seals?${ALL_DAYS}`, withKey(token))), 429);
});

/** Reads the days of an organization that health() reports. */
function wrongDays(id: string, kind: "altered_days" | "miscounted_days" | "reduced_days") {
  return healthOf<{ day: string; difference?: number }>(sql, id, kind);
}

type Change = (id: string) => Promise<unknown>;

/** A change past the triggers. */
function silent(statement: string): Change {
  return (id) => silently((run) => run.unsafe(statement, [id]));
}

const AGENT_1 = "organization_id = $1 and agent_name = 'agent 1'";
const change = silent(`update audit_log.audit_entries set user_email = 'eve@x.y' where ${AGENT_1}`);
const remove = silent(`delete from audit_log.audit_entries where ${AGENT_1}`);
const smuggle = silent(`
  insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data, transaction_id)
  select organization_id, created_at, action, user_email, 'smuggled', data, transaction_id
  from audit_log.audit_entries where ${AGENT_1}`);
const writeLate: Change = (id) => writeEntries(id, [{ agent_name: "late" }]);
/** An ordinary deletion of these entries. */
function openly(which: string): Change {
  const statement = `delete from audit_log.audit_entries where organization_id = $1 and ${which}`;
  return (id) => sql.unsafe(statement, [id]);
}
const removeAnother = openly("agent_name = 'agent 2'");
const removeLate = openly("agent_name = 'late'");
const removeFirst = openly("agent_name < 'agent 3'");

const SILENT: Change[][] = [
  [change],
  [change, writeLate],
  [writeLate, change],
  [remove],
  [remove, removeAnother],
  [change, removeAnother],
  [removeAnother, change],
  [writeLate, change, removeLate],
  [change, removeFirst],
  [writeLate, change, removeAnother],
  [smuggle],
];

describe("a change past the triggers", () => {
  it("that edits or deletes an entry, or inserts one with an old transaction number, is found, and not sealed", async () => {
    for (const [n, steps] of SILENT.entries()) {
      const { id, token } = await sealedDay();
      for (const step of steps) await step(id);
      await checkSeals(sql, id);
      const { total, altered } = await getSeals(token);
      const reported = await wrongDays(id, "altered_days");
      assertEquals([total, altered, reported.length], [1, ["2026-03-01"], 1], `SILENT[${n}]`);
    }
  });

  it("is found in the next night, though the clock was ahead by a year when the day was last compared", async () => {
    const { id } = await sealedDay();
    await sql`
      update audit_log_private.sealed_days set check_at = check_at + interval '1 year'
      where organization_id = ${id}`;
    await change(id);
    await runUpkeep(sql);
    assertEquals((await wrongDays(id, "altered_days")).length, 1);
  });

  it("is found each night, though an entry is deleted openly each night: a day that lost some of its entries is compared and reported as long as it has others", async () => {
    const { id, token } = await sealedDay();
    const removeLast = () =>
      sql`
        delete from audit_log.audit_entries where (organization_id, id) in (
          select organization_id, id from audit_log.audit_entries
          where organization_id = ${id} order by created_at desc limit 1)`;
    const night = async () => {
      await removeLast();
      await runUpkeep(sql);
      const { items, altered } = await getSeals(token);
      const reduced = await wrongDays(id, "reduced_days");
      return [items.at(-1)?.entries, altered.length, reduced.length];
    };
    // An entry that comes late and is removed before a seal has it is both in the next seal.
    await writeLate(id);
    await removeLate(id);
    assertEquals(await night(), [4, 0, 1]);
    assertEquals(await night(), [3, 0, 1]);
    await change(id);
    assertEquals(await night(), [3, 1, 1]);
    const other = await sealedDay();
    await sql`delete from audit_log.audit_entries where organization_id = ${other.id}`;
    await runUpkeep(sql);
    assertEquals(await wrongDays(other.id, "reduced_days"), []);
    const left = await sql`
      select from audit_log_private.removed_entries where organization_id = ${other.id}`;
    assertEquals(left.count, 0);
  });

  it("that is an ordinary insert appears as a late entry in the next seal, and as a wrong count", async () => {
    const log = await sealedDay();
    await silently((transaction) => insertEntries(transaction, log.id, "2026-03-01", 1));
    await checkSeals(sql, log.id);
    const seals = await getSeals(log.token);
    assertEquals(seals.altered, []);
    assertEquals(countsOf(seals), [["01", 5, 0], ["01", 6, 1]]);
    assertEquals((await wrongDays(log.id, "miscounted_days")).map((day) => day.difference), [1]);
  });
});

describe("finished days that have entries and no seal, though no count told the upkeep of them", () => {
  const daysOf = async (token: string) => (await getSeals(token, ALL_DAYS)).items.map((s) => s.day);
  const fill = (id: string, day: string, days = 1) =>
    silently((run) => insertEntries(run, id, day, days, { every: "1 day" }));

  it("are sealed in the next night, before, between and after sealed days, and reported as miscounted", async () => {
    const sealed = ["2026-03-02", "2026-03-04"];
    const { id, token } = await sealedLog(...sealed.flatMap((day) => entriesOn(day, 1)));
    const missed = ["0001-01-01", "2026-03-01", "2026-03-03", "2026-03-05", "2026-03-06"];
    for (const day of [...missed, today()]) await fill(id, day);
    await runUpkeep(sql);
    assertEquals(await daysOf(token), [...sealed, ...missed]);
    const reported = await wrongDays(id, "miscounted_days");
    const found = reported.map(({ day, difference }) => `${day} ${difference}`);
    assertEquals(found, missed.map((day) => `${day} 1`));
  });

  it("are sealed in pieces, however many they are", async () => {
    const { id, token } = await newLog();
    await fill(id, "2019-01-01", 450);
    await runUpkeep(sql);
    assertEquals((await getSeals(token, ALL_DAYS)).total, 450);
  });

  it("are queued by the repair of their counts, and sealed in the next night", async () => {
    const { id, token } = await newLog();
    await fill(id, "0001-01-01", 2);
    await sql`select audit_log_private.repair_entry_counts(${id})`;
    const queued = await valueOf(sql`
      select min(day)::text from audit_log_private.days_to_seal where organization_id = ${id}`);
    assertEquals(queued, "0001-01-01");
    await runUpkeep(sql);
    assertEquals(await daysOf(token), ["0001-01-01", "0001-01-02"]);
    assertEquals(await wrongDays(id, "miscounted_days"), []);
  });

  it("are sealed although an owner makes their counts look compacted, or takes them from the queue", async () => {
    const [one, other] = [await newLog(...entriesOn("2026-03-01", 2)), await sealedDay()];
    await sql`update audit_log_private.entry_counts set writer_pid = 0 where organization_id = ${one.id}`;
    await writeEntries(other.id, entriesOn("2026-03-05", 1));
    await sql.begin(async (owner) => {
      await owner`select audit_log_private.compact_entry_counts(${other.id})`;
      await owner`delete from audit_log_private.days_to_seal where organization_id = ${other.id}`;
    });
    await runUpkeep(sql);
    assertEquals(await daysOf(one.token), ["2026-03-01"]);
    assertEquals(await daysOf(other.token), ["2026-03-01", "2026-03-05"]);
  });

  it("are reported as altered if no seal can have their entries", async () => {
    const { id, token } = await sealedDay();
    await silently(async (run) => {
      await insertEntry(run, id, { created_at: "2026-03-05Z", transaction_id: `${2n ** 62n}` });
      await insertEntry(run, id, { created_at: "-infinity" });
    });
    await runUpkeep(sql);
    assertEquals(await daysOf(token), ["2026-03-01"]);
    const reported = await wrongDays(id, "altered_days");
    assertEquals(reported.map(({ day }) => day), ["2026-03-05"]);
  });
});

it("a day that is first sealed after a later day is reported as late, with both days", async () => {
  const sealed = ["2026-03-01", "2026-03-04"].flatMap((day) => entriesOn(day, 1));
  const { id, token } = await sealedLog(...sealed);
  const late = () => healthOf(sql, id, "late_days");
  assertEquals(await late(), []);
  for (const day of ["01", "03", "05", "02"]) await writeAndSeal(id, `2026-03-${day}`);
  assertEquals(await late(), [{
    organization_id: id,
    days: 2,
    first_day: "2026-03-02",
    last_day: "2026-03-03",
    sealed_after: "2026-03-05",
  }]);
  const { notes } = await checkChain((await getSeals(token, ALL_DAYS)).items);
  assertEquals(notes.map(({ code, day }) => [code, day]), [
    ["sealed_late", "2026-03-03"],
    ["sealed_late", "2026-03-02"],
  ]);
});

it("a seal that breaks the rules of the chain is refused, also to the owner", async () => {
  const { id } = await sealedDay();
  const changes: Record<string, string> = {
    "a number that is missing": "sequence = 3",
    "another seal before": "previous = repeat('a', 64)",
    "a time before that of the last seal": "sealed_at = '1999-01-01Z', added = 1, entries = 6",
    "a later seal of a day that declares nothing": "added = 0",
    "sums that do not fit": "added = 1",
    "a number below 0": "entries = -1, removed = 6",
    "a first seal that declares a change": "day = '2026-03-02', added = 1",
  };
  for (const [what, change] of Object.entries(changes)) {
    const code = await rolledBack(sql, async (run) => {
      await run.unsafe(`create temporary table forged on commit drop as
        select * from audit_log_private.seals where organization_id = '${id}';
        update forged set sequence = 2, previous = seal;
        update forged set ${change}`);
      return await codeOf(run`insert into audit_log_private.seals select * from forged`);
    });
    assertEquals(code, "23514", what);
  }
});

// Customers keep files and seals of format 1. A change needs a format 2, which the seals name.
it("format 1 of entries and seals is frozen in the bytes of an entry's line, in the hash of a day, and in the seal", async () => {
  const { id, token } = await newLog();
  await sql`
    insert into audit_log.audit_entries (id, organization_id, created_at, action, user_email, agent_name, data)
    values
      ('01a1b01e-9b04-7e70-8342-9325992eb6a2', ${id}, '2026-03-01 09:09:18.2124Z', 'feedback_given',
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
  const { items: [seal] } = await getSeals(token);
  const hash = "a0d5b6a651c9c9ae19fba2427121e50d2e06ad9acbba5ac0135b4a8de6753ff1";
  assertEquals([seal?.format, seal?.sha256], [1, hash]);
  const line = `1 ${"0".repeat(64)} 1 2026-03-01 2 0 0 ${hash} ${seal?.sealed_at}`;
  assertEquals(seal?.seal, await sha256(line));
});
