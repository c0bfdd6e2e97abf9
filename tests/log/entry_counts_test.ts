// Needs a stack.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { ACTIONS, assertExactNow, beside, checkSeals, countMismatches } from "../helpers/mod.ts";
import { deleteEntriesBefore, getPage, insertEntry, MESSAGE_DATA, newLog } from "../helpers/mod.ts";
import { type Organization, pick, type Random, randomFrom, runUpkeep } from "../helpers/mod.ts";
import { sql, valueOf } from "../helpers/mod.ts";

const DAYS = ["2024-02-28", "2024-02-29", "2024-03-01", "2026-03-29", "2026-03-30"];

/** Few, so that many entries share one. Among them are the edges of the day. */
const TIMES = ["00:00:00.000", "09:30:00.001", "09:45:00.00", "23:59:59.999"];

/** Writes or deletes entries of several organizations, days and actions in one statement. */
function randomStatement(random: Random, organizations: Organization[]): string {
  if (random(4) === 0) {
    const { id } = pick(random, organizations);
    const [day, action] = [pick(random, DAYS), pick(random, ACTIONS)];
    return `
      delete from audit_log.audit_entries
      where organization_id = '${id}' and (created_at at time zone 'UTC')::date = '${day}'
        and action = '${action}' and extract(minute from created_at) < ${random(60)}`;
  }
  const rows = Array.from({ length: 1 + random(20) }, () => {
    const { id } = pick(random, organizations);
    const time = `${pick(random, DAYS)}T${pick(random, TIMES)}Z`;
    const data = JSON.stringify(MESSAGE_DATA);
    return `('${id}', '${time}', '${pick(random, ACTIONS)}', 'a@b', '', '${data}')`;
  });
  return `
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    values ${rows}`;
}

/** Makes a transaction of a few statements, some in savepoints. A third is rolled back. */
function randomTransaction(random: Random, organizations: Organization[]): string {
  const statements = Array.from({ length: 1 + random(3) }, () => [
    randomStatement(random, organizations),
    "savepoint inner_one",
    randomStatement(random, organizations),
    pick(random, ["rollback to inner_one", "release inner_one"]),
  ]).flat();
  return ["begin", ...statements, pick(random, ["commit", "commit", "rollback"])].join(";\n");
}

it("counts stay exact, and no day altered, while transactions write, delete, roll back, compact, seal and expire entries at random", async () => {
  const organizations = [await newLog(), await newLog(), await newLog()];
  const ids = organizations.map(({ id }) => id);
  const [first = "", second = ""] = ids;
  const expire = () => deleteEntriesBefore(sql, second, "2026-01-01");
  await beside(
    [() => runUpkeep(sql), () => assertExactNow(first), expire, expire],
    () =>
      Promise.all(Array.from({ length: 6 }, async (_, seed) => {
        const random = randomFrom(seed);
        const session = await sql.reserve();
        for (let i = 0; i < 12; i++) {
          await session.unsafe(randomTransaction(random, organizations));
        }
        session.release();
      })),
  );
  for (const id of ids) {
    await checkSeals(sql, id);
    assertEquals(await countMismatches(sql, id), []);
  }
  const altered = await sql`
    select day from audit_log_private.sealed_days
    where organization_id = any(${ids}::uuid[]) and altered_at is not null`;
  assertEquals([...altered], []);
});

it("entry_count_mismatches() and repair_entry_counts() find and repair counts and monthly sums that were changed by hand, while entries are written", async () => {
  const { id, token } = await newLog(
    ...DAYS.flatMap((day) =>
      ["09", "10", "10"].map((hour) => ({ created_at: `${day}T${hour}:00:00Z` }))
    ),
  );
  const [first = "", second = ""] = DAYS;
  await sql`delete from audit_log_private.entry_counts where organization_id = ${id} and day = ${first}`;
  await sql`
    update audit_log_private.entry_counts set entries = entries + 7, hours[11] = hours[11] - 2
    where organization_id = ${id} and day = ${second}`;
  const found = await countMismatches(sql, id);
  assertEquals(found.map(({ hour }) => hour).sort(), [10, 10, 9, null, null]);
  const repair = () => valueOf(sql`select audit_log_private.repair_entry_counts(${id})::int`);
  await sql.begin(async (writer) => {
    await insertEntry(writer, id, { created_at: `${second}T10:30:00Z` });
    assertEquals(await repair(), 2);
  });
  assertEquals([await countMismatches(sql, id), await repair()], [[], 0]);
  assertEquals((await getPage(token, "start=2024-01-01&end=2026-12-31")).total, 16);

  await runUpkeep(sql);
  await sql`
    update audit_log_private.monthly_entry_counts set entries = entries + 7
    where organization_id = ${id} and month = '2024-03-01'`;
  const [mismatch] = await countMismatches(sql, id);
  assertEquals([mismatch?.["hour"], mismatch?.["difference"]], [-1, "-7"]);
  await repair();
  assertEquals(await countMismatches(sql, id), []);
});
