// Needs a stack.

import { assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { addOrganization, askFeed, callAs, countMismatches } from "../../dev/harness/project.ts";
import { insertEntries, insertEntry, runUpkeep, valueOf } from "../../dev/harness/project.ts";
import { readSchemas } from "../../dev/tasks/migration.ts";
import { servedFunctions, value } from "../attacks/data_api_attacks.ts";
import { MIGRATIONS, withDatabase } from "../helpers/scratch_database.ts";

// deno task test --without-streams runs all other tests so. tests/attacks/permissions_test.ts compares the privileges.

const CORE = Object.entries(MIGRATIONS).filter(([file]) => !file.endsWith("_streams.sql"))
  .map(([, text]) => text);

/** Beside the stack's database, there is no Supabase Auth. */
const SESSIONS = `
  create table auth.sessions (id uuid, user_id uuid);
  create or replace function audit_log_private.is_valid_session() returns boolean language plpgsql stable
    set search_path = pg_catalog, pg_temp as 'begin return true; end'`;

it("the rooms before streams name nothing of theirs", async () => {
  const naming = (await readSchemas()).filter(({ file, text }) =>
    /^[1-7]_/.test(file) && /stream/i.test(text)
  );
  assertEquals(naming.map(({ file }) => file), []);
});

it("without streams, people read the log and manage keys, the upkeep, health() and the metrics work, a person who leaves is followed, a restored log is adopted, and an organization deleted", () =>
  withDatabase([...CORE, SESSIONS], async (sql) => {
    const { id, apiKeyId } = await addOrganization(sql);
    await sql`update audit_log.organizations set logs_key_events = true where id = ${id}`;
    await sql`
      insert into audit_log.organization_members (organization_id, user_id, role) values (${id}, 'admin', 'admin')`;
    await insertEntries(sql, id, "2026-03-01", 30);
    await insertEntry(sql, id, { agent_name: "Today", created_at: new Date().toISOString() });
    await runUpkeep(sql);

    const [row] = await sql`
      select audit_log_private.health() as health, audit_log_private.metrics_text() as metrics`;
    const { page, workday } = row?.["health"] ?? {};
    assertEquals([page, workday], [[], []]);
    assertMatch(row?.["metrics"], /^audit_log_upkeep_age_seconds\{\} \d/m);

    const day = `{"start_date": "2026-03-01", "end_date": "2026-03-01"}`;
    const read = `read_audit_log('${id}', '${day}')`;
    assertEquals((await callAs<{ total: number }>(sql, "admin", read)).total, 30);
    const { cursor = "" } = await askFeed(sql, id, "beginning") ?? {};
    await sql`select audit_log_private.adopt_restored_log()`;
    assertEquals(await askFeed(sql, id, cursor), null);
    await sql`update audit_log.organizations set keep_days = 30 where id = ${id}`;
    await runUpkeep(sql);
    assertEquals(await countMismatches(sql, id), []);
    // Retention has deleted the first day. The change of keep_days is an entry, too.
    assertEquals((await askFeed(sql, id, "beginning"))?.total, 2);

    assertEquals(await valueOf(sql`select audit_log.person_left(${id}, 'admin', true)`), {
      keys: 0,
    });
    const guess = { organizationId: id, apiKeyId, entryId: id, email: "ada@example.com" };
    const faults: string[] = [];
    for (const { name, parameters, isForPeople } of await servedFunctions(sql)) {
      const given = parameters.map((each) => `${each.name} => '${value(each, guess)}'`);
      const outcome = await callAs(sql, "admin", `${name}(${given})`).then(
        () => "answered",
        ({ code }) => String(code),
      );
      // Of undefined functions and tables, columns, and of what nobody may do.
      if (isForPeople && outcome.startsWith("42")) faults.push(`${name}: ${outcome}`);
    }
    assertEquals(faults, []);
    while (await valueOf(sql`select audit_log_private.delete_organization(${id})`));
    assertEquals(await valueOf(sql`select count(*)::int from audit_log.organizations`), 0);
  }));
