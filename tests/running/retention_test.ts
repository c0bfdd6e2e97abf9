// Needs a stack.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { checkChain } from "../../cli/seals/seal_chain.ts";
import { ALL_DAYS, assertExact, checkSeals, codeOf, deleteEntriesBefore } from "../helpers/mod.ts";
import { entriesOf, errorOf, getPage, getSeals, insertEntries, inTokyo } from "../helpers/mod.ts";
import { daysAgo, newLog, PIECE, runUpkeep, silently, sql } from "../helpers/mod.ts";

/** Seals and checks all days of an organization, and lists its seals. No day may be altered. */
async function sealed(id: string): Promise<string[]> {
  await runUpkeep(sql);
  await checkSeals(sql, id);
  const altered = await sql`
    select day from audit_log_private.sealed_days where organization_id = ${id} and altered_at is not null`;
  assertEquals([...altered], []);
  const seals = await sql`
    select format('%s: %s +%s -%s', day, entries, added, removed) as seal from audit_log_private.seals
    where organization_id = ${id} order by sequence`;
  return seals.map(({ seal }) => seal);
}

async function keepDays(id: string, days: number | null): Promise<void> {
  await sql`update audit_log.organizations set keep_days = ${days} where id = ${id}`;
}

describe("delete_entries_before()", () => {
  it("deletes whole days, 10,000 entries or one longer day at a time; totals are exact after each piece", async () => {
    const [log, other] = [await newLog(), await newLog()];
    for (const day of ["2020-01-01", "2020-01-05", "2020-02-01"]) {
      await insertEntries(sql, log.id, day, 4000);
    }
    await insertEntries(sql, log.id, "2020-02-02", 12000);
    await insertEntries(sql, log.id, "2020-03-01", 10);
    await insertEntries(sql, other.id, "2020-01-01", 1);
    const left: number[] = [];
    await inTokyo(async (session) => {
      for (let more = true; more;) {
        more = await deleteEntriesBefore(session, log.id, "2020-03-01");
        left.push(await entriesOf(log.id));
        await assertExact(log, left.at(-1) ?? 0);
      }
    });
    assertEquals(left, [16010, 12010, 2010, 10, 10]);
    const { items } = await getPage(log.token, `${ALL_DAYS}&limit=1`);
    assertEquals(items[0]?.created_at.slice(0, 10), "2020-03-01");
    await assertExact(other, 1);
  });

  it("makes the next seal of each day declare the deletion, also for half a day and for late entries", async () => {
    const { id } = await newLog();
    const seals: string[] = [];
    const assertNew = async (...expected: string[]) => {
      seals.push(...expected);
      assertEquals(await sealed(id), seals);
    };
    await insertEntries(sql, id, "2020-01-01", 3);
    await insertEntries(sql, id, "2020-01-02", PIECE + 5);
    await assertNew("2020-01-01: 3 +0 -0", `2020-01-02: ${PIECE + 5} +0 -0`);
    await deleteEntriesBefore(sql, id, "2020-01-02");
    await assertNew("2020-01-01: 0 +0 -3");
    await deleteEntriesBefore(sql, id, "2020-02-01");
    await insertEntries(sql, id, "2020-01-02", 2);
    await assertNew(`2020-01-02: 7 +2 -${PIECE}`);
    // An entry is deleted before a seal has it.
    await insertEntries(sql, id, "2020-01-02", 1);
    await deleteEntriesBefore(sql, id, "2020-02-01");
    await assertNew("2020-01-02: 0 +1 -8");
    await insertEntries(sql, id, "2020-01-02", 4);
    await assertNew("2020-01-02: 4 +4 -0");
    await insertEntries(sql, id, "2020-01-02", 1);
    await sql.begin(async (piece) => {
      await deleteEntriesBefore(piece, id, "2020-02-01");
      // The day's seal does not know of the deletion yet.
      await assertNew("2020-01-02: 5 +1 -0");
    });
    await assertNew("2020-01-02: 0 +0 -5");
  });

  it("needs a day that is not in the future and an organization that exists, or deletes nothing", async () => {
    const log = await newLog();
    await insertEntries(sql, log.id, "2020-01-01", 1);
    const unknown = crypto.randomUUID();
    const refusals = [
      [log.id, null, "22023", "entries before null cannot be deleted: give a day"],
      [log.id, "9999-12-31", "22023", "entries before 9999-12-31 cannot be deleted"],
      [log.id, "infinity", "22023", "entries before infinity cannot be deleted"],
      [unknown, "2020-02-01", "P0002", `there is no organization ${unknown}`],
      [null, "2020-02-01", "P0002", "there is no organization null: give its id"],
    ] as const;
    for (const [id, day, code, message] of refusals) {
      const error = await errorOf(
        sql`select audit_log_private.delete_entries_before(${id}, ${day}::text::date)`,
      );
      assertEquals(error.code, code);
      assertStringIncludes(error.message, message);
    }
    assertEquals(await deleteEntriesBefore(sql, log.id, "-infinity"), false);
    await assertExact(log, 1);
  });
});

describe("keep_days", () => {
  it("makes the upkeep delete older entries, and declare it with seals in the same run", async () => {
    const [log, other] = [await newLog(), await newLog()];
    const [kept, expired] = [daysAgo(30), daysAgo(31)];
    for (const { id } of [log, other]) {
      await insertEntries(sql, id, "2020-01-01", PIECE + 1);
      await insertEntries(sql, id, expired, 2);
      await insertEntries(sql, id, kept, 3);
    }
    const first = [`2020-01-01: ${PIECE + 1} +0 -0`, `${expired}: 2 +0 -0`, `${kept}: 3 +0 -0`];
    assertEquals(await sealed(log.id), first);
    await keepDays(log.id, 30);
    await runUpkeep(sql);
    // With that of the change itself.
    await assertExact(log, 4);
    const declared = [`2020-01-01: 0 +0 -${PIECE + 1}`, `${expired}: 0 +0 -2`];
    assertEquals(await sealed(log.id), [...first, ...declared]);
    await assertExact(other, PIECE + 6);
  });

  it("has the emptiness of an altered day declared, so that what it deletes next is no other's deletion. The day stays altered", async () => {
    const { id, token } = await newLog();
    for (const day of ["2020-01-01", "2020-01-02"]) await insertEntries(sql, id, day, 3);
    await runUpkeep(sql);
    await silently((run) =>
      run`update audit_log.audit_entries set agent_name = 'x' where organization_id = ${id} and created_at < '2020-01-02'`
    );
    await checkSeals(sql, id);
    await keepDays(id, 30);
    await runUpkeep(sql);
    await checkSeals(sql, id);
    const { items, altered } = await getSeals(token, ALL_DAYS);
    const declared = items.map(({ day, entries, removed }) => [day, entries, removed]).slice(2, 4);
    assertEquals(declared, [["2020-01-01", 0, 3], ["2020-01-02", 0, 3]]);
    assertEquals([altered, (await checkChain(items)).problems], [["2020-01-01"], []]);
  });

  it("is a number from 1 to 36,500; without it, all entries are kept", async () => {
    const log = await newLog();
    await insertEntries(sql, log.id, "0001-01-01", 1);
    for (const days of [0, -1, 36_501]) assertEquals(await codeOf(keepDays(log.id, days)), "23514");
    // permissions_test.ts lists the columns that the platform may write.
    await keepDays(log.id, 1);
    await keepDays(log.id, null);
    await runUpkeep(sql);
    await assertExact(log, 3);
  });
});
