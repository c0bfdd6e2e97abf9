// Needs a stack.

import { assert, assertEquals, assertMatch, assertObjectMatch } from "@std/assert";
import { assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { checkChain } from "../../cli/seals/seal_chain.ts";
import { actAs, addOrganization, ALL_DAYS, assertExact, beside, call } from "../helpers/mod.ts";
import { checkSeals, client, codeOf, daysAgo, deleteEntriesBefore } from "../helpers/mod.ts";
import { entriesOf, getPage, getProblem, getSeals, HAS_STREAMS } from "../helpers/mod.ts";
import { insertEntries, inTokyo, listApiKeys, newLog, newOrganization } from "../helpers/mod.ts";
import { type Organization, pageQuery, pidOf, PIECE, refusalOf } from "../helpers/mod.ts";
import { rolledBack, type Run, runUpkeep, signUp, silently } from "../helpers/mod.ts";
import { somebodyWaitsFor, sql, until, valueOf } from "../helpers/mod.ts";

const admin = await signUp();

const SEALED_DAYS = pageQuery("2020-01-01", "2020-01-01");

function deleteEntries(run: Run, id: string) {
  return deleteEntriesBefore(run, id, "2020-02-01");
}

/** Deletes one piece of an organization, and says whether there is more. */
async function deletePiece(run: Run, id: string): Promise<boolean> {
  return await valueOf(run`select audit_log_private.delete_organization(${id})`);
}

/** Deletes an organization with the loop of docs/operating.md; not within a transaction. */
async function deleteOrganization(run: Run, id: string): Promise<void> {
  const page = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
  const loop = page.match(/.*do \$\$.*delete_organization.*/)?.[0] ?? "none";
  await run.unsafe(loop.replace("<organization id>", id));
}

async function alter(id: string, values: Record<string, unknown>): Promise<void> {
  await sql`update audit_log.organizations set ${sql(values)} where id = ${id}`;
}

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
      [log.id, null, "22023 entries before null cannot be deleted: give a day"],
      [log.id, "9999-12-31", "22023 entries before 9999-12-31 cannot be deleted"],
      [log.id, "infinity", "22023 entries before infinity cannot be deleted"],
      [unknown, "2020-02-01", `P0002 there is no organization ${unknown}`],
      [null, "2020-02-01", "P0002 there is no organization null: give its id"],
    ] as const;
    for (const [id, day, due] of refusals) {
      const deletion =
        sql`select audit_log_private.delete_entries_before(${id}, ${day}::text::date)`;
      assertStringIncludes(await refusalOf(deletion), due);
    }
    assertEquals(await deleteEntriesBefore(sql, log.id, "-infinity"), false);
    await assertExact(log, 1);
  });
});

it("keep_days is a number from 1 to 36,500, and makes the upkeep delete older entries, and declare it with seals in the same run; without it, all entries are kept", async () => {
  const [log, other] = [await newLog(), await newLog()];
  const [kept, expired] = [daysAgo(30), daysAgo(31)];
  for (const { id } of [log, other]) {
    await insertEntries(sql, id, "2020-01-01", PIECE + 1);
    await insertEntries(sql, id, expired, 2);
    await insertEntries(sql, id, kept, 3);
  }
  // permissions_test.ts lists the columns that the platform may write.
  for (const keep_days of [1, null]) await alter(other.id, { keep_days });
  const first = [`2020-01-01: ${PIECE + 1} +0 -0`, `${expired}: 2 +0 -0`, `${kept}: 3 +0 -0`];
  assertEquals(await sealed(log.id), first);
  for (const days of [0, -1, 36_501]) {
    assertEquals(await codeOf(alter(log.id, { keep_days: days })), "23514");
  }
  await alter(log.id, { keep_days: 30 });
  await runUpkeep(sql);
  // With that of the change itself.
  await assertExact(log, 4);
  const declared = [`2020-01-01: 0 +0 -${PIECE + 1}`, `${expired}: 0 +0 -2`];
  assertEquals(await sealed(log.id), [...first, ...declared]);
  await assertExact(other, PIECE + 8);
});

it("keep_days has the emptiness of an altered day declared, so that what it deletes next is no other's deletion. The day stays altered", async () => {
  const { id, token } = await newLog();
  for (const day of ["2020-01-01", "2020-01-02"]) await insertEntries(sql, id, day, 3);
  await runUpkeep(sql);
  await silently((run) =>
    run`update audit_log.audit_entries set agent_name = 'x' where organization_id = ${id} and created_at < '2020-01-02'`
  );
  await checkSeals(sql, id);
  await alter(id, { keep_days: 30 });
  await runUpkeep(sql);
  await checkSeals(sql, id);
  const { items, altered } = await getSeals(token, ALL_DAYS);
  const declared = items.map(({ day, entries, removed }) => [day, entries, removed]).slice(2, 4);
  assertEquals(declared, [["2020-01-01", 0, 3], ["2020-01-02", 0, 3]]);
  assertEquals([altered, (await checkChain(items)).problems], [["2020-01-01"], []]);
});

/** Closes an organization, as the trigger of the recipe does when the platform deletes its row. */
async function close(id: string, run: Run = sql): Promise<void> {
  await run`select audit_log_private.close_organization(${id})`;
}

/** Says whether somebody who closes an organization waits for writers. */
async function waitsForWriters(): Promise<boolean> {
  return await valueOf(sql`
    select exists (select from pg_stat_activity where wait_event = 'PgSleep' and query ~ 'close_organization')`);
}

describe("close_organization()", () => {
  it("ends keys and streams for good, and lets nobody read or write, until the owner opens the log again; it does nothing for an id that the log does not know", async () => {
    const { id, token } = await fullOrganization();
    await insertEntries(sql, id, "2020-01-03", 1);
    const before = await entriesOf(id);
    for (let n = 0; n < 2; n++) await close(id);
    const unknown = crypto.randomUUID();
    await close(unknown);
    await insertEntries(sql, unknown, "2020-01-03", 1);
    await getProblem(401, token);
    const organizations = await call<{ id: string }[]>(admin, "list_organizations", {});
    assert(organizations.every((each) => each.id !== id));
    const platform = client("service_role");
    for (const who of [admin.client, platform]) {
      const { error } = await who.rpc("create_api_key", { organization_id: id, name: "x" });
      assertEquals(error?.code, "42501");
    }
    const entry = { action: "agent_added", user_email: "ada@example.com", agent_name: "Assistant" };
    const { error } = await platform.rpc("record_entries", {
      entries: [{ ...entry, organization: id }],
    });
    assertEquals(error?.code, "23503");
    const refusal =
      `23503 an entry has the organization ${id}, which is closed (close_organization)`;
    assertEquals(await refusalOf(insertEntries(sql, id, "2020-01-03", 1)), refusal);
    await runUpkeep(sql);
    await alter(id, { closed_at: null });
    await insertEntries(sql, id, "2020-01-03", 1);
    assertEquals(await entriesOf(id), before + 1);
    await getProblem(401, token);
    if (HAS_STREAMS) assertEquals(await call(admin, "list_streams", { organization_id: id }), []);
    const keys = await listApiKeys(admin, id);
    assertEquals(new Set(keys.map(({ state }) => state)), new Set(["revoked"]));
  });

  it("waits for writers, also for those that have written nothing there before, and refuses their next entries", async () => {
    const { id } = await newLog();
    const before = await entriesOf(id);
    for (const day of ["2020-01-01", "2020-01-01", "2020-01-02"]) {
      const writer = await sql.reserve();
      await writer`begin`;
      await insertEntries(writer, id, day, 1);
      let isClosed = false;
      const closing = close(id).then(() => isClosed = true);
      await until(async () => isClosed || await waitsForWriters());
      assert(!isClosed);
      // Another action, which it looks up.
      await insertEntries(writer, id, day, 1, { action: "conversation_created" });
      await writer`commit`;
      await closing;
      assertEquals(await codeOf(insertEntries(writer, id, day, 1)), "23503");
      writer.release();
      await alter(id, { closed_at: null });
    }
    assertEquals(await entriesOf(id), before + 6);
  });

  it("keeps all who write, or make a key or a stream, waiting until it is committed, and then refuses them", async () => {
    const { id } = await newOrganization(admin);
    const before = await entriesOf(id);
    const stream = { name: "x", destination: { kind: "webhook", url: "https://a.example/" } };
    const attempts: [code: string, attempt: () => Promise<unknown>][] = [
      ["42501", () => call(admin, "create_api_key", { organization_id: id, name: "x" })],
      ["23503", () => insertEntries(sql, id, "2020-01-01", 1)],
    ];
    if (HAS_STREAMS) {
      attempts.push(["42501", () => call(admin, "create_stream", { organization_id: id, stream })]);
    }
    for (const [code, attempt] of attempts) {
      let refused: Promise<unknown> | undefined;
      await sql.begin(async (closing) => {
        await close(id, closing);
        refused = attempt().then(() => "done", ({ code }) => code);
        await somebodyWaitsFor(sql, await pidOf(closing));
      });
      assertEquals(await refused, code);
      await alter(id, { closed_at: null });
    }
    assertEquals(await entriesOf(id), before);
  });

  it("ends the key that is committed meanwhile. No key reads that was made in another way", async () => {
    const { id, token } = await newOrganization(admin);
    let closing: Promise<void> | undefined;
    await sql.begin(async (making) => {
      // As it is, before close_organization looks at the keys, and commits after.
      await making`select from audit_log.organizations where id = ${id} for key share`;
      closing = close(id);
      await until(waitsForWriters);
      await making`select audit_log_private.insert_api_key(${id}, 'meanwhile')`;
    });
    await closing;
    const live = sql`
      select count(*)::int from audit_log_private.api_keys where organization_id = ${id} and revoked_at is null`;
    assertEquals(await valueOf(live), 0);
    await sql`update audit_log_private.api_keys set revoked_at = null where organization_id = ${id}`;
    await getProblem(401, token);
  });
});

describe("a hold", () => {
  it("stops retention and both deletion functions until its reason is null. Their error has the reason, of at most 200 characters, and so has the list of seals", async () => {
    const log = await newOrganization(admin);
    const { id } = log;
    for (const reason of ["", " ", "x".repeat(201)]) {
      assertEquals(await codeOf(alter(id, { hold_reason: reason })), "23514");
    }
    await insertEntries(sql, id, "2020-01-01", 2);
    for (const hold_reason of [null, "Matter 7"]) {
      await alter(id, { hold_reason });
      const given = { organization_id: id, query: SEALED_DAYS };
      assertObjectMatch(await call(admin, "list_seals", given), { hold_reason });
    }
    await alter(id, { keep_days: 1 });
    const refusal =
      `55006 organization ${id} is on hold, so nothing of it may be deleted: Matter 7`;
    for (const remove of [deleteEntries, deletePiece]) {
      assertEquals(await refusalOf(remove(sql, id)), refusal);
    }
    await runUpkeep(sql);
    await assertExact(log, 4);
    await alter(id, { hold_reason: null });
    await runUpkeep(sql);
    await assertExact(log, 3);
  });

  it("waits for the piece of a deletion that runs, and prevents the next, also with an older snapshot", async () => {
    const { id } = await newLog();
    await insertEntries(sql, id, "2020-01-01", PIECE + 1);
    const deletion = await sql.reserve();
    await deletion`begin`;
    await deleteEntries(deletion, id);
    const holding = alter(id, { hold_reason: "Matter 7" });
    await somebodyWaitsFor(sql, await pidOf(deletion));
    await deletion`commit`;
    await holding;
    assertEquals(await codeOf(deleteEntries(deletion, id)), "55006");
    await alter(id, { hold_reason: null });

    await deletion`begin isolation level repeatable read`;
    await deletion`select from audit_log.organizations`;
    await alter(id, { hold_reason: "Matter 7" });
    assertEquals(await codeOf(deleteEntries(deletion, id)), "40001");
    await deletion`rollback`;
    deletion.release();
    const left = await sql`
      select action, count(*)::int as entries from audit_log.audit_entries where organization_id = ${id}
      group by action order by action`;
    assertEquals(left.map((row) => Object.values(row)), [["agent_added", 1], ["hold_changed", 3]]);
  });
});

it("a change of retention or of a hold is an entry of the organization's own log, which says what it was before, and the role in the database or the person who changed it", async () => {
  const [{ id }, other] = [await newOrganization(admin), await newLog()];
  const updates = [
    { keep_days: 365 },
    { keep_days: 30, hold_reason: "Matter 7" },
    { keep_days: 30, hold_reason: "Matter 8", logs_key_events: true },
    { hold_reason: null },
  ];
  for (const values of updates) await alter(id, values);
  const headers = JSON.stringify({ "x-forwarded-for": "203.0.113.7" });
  await sql.begin(async (run) => {
    await actAs(run, { sub: admin.id, email: admin.email });
    await run`select set_config('request.headers', ${headers}, true)`;
    await run`reset role`;
    await run`update audit_log.organizations set keep_days = null where id = ${id}`;
  });
  const entries = await sql`
    select concat_ws(' ', action, user_email, data) as shown from audit_log.audit_entries
    where organization_id in (${id}, ${other.id}) and agent_name = 'Audit log settings'
    order by created_at, id`;
  const by = (changes: string) => `"changes": ${changes}, "database_role": "postgres"}`;
  const unknown = (action: string, changes: string) =>
    `${action}_changed unknown@invalid {${by(changes)}`;
  const caller = `{"id": "${admin.id}", "kind": "person", "address": "203.0.113.7"}`;
  assertEquals(entries.map(({ shown }) => shown), [
    unknown("retention", '{"keep_days": [null, 365]}'),
    unknown("retention", '{"keep_days": [365, 30]}'),
    unknown("hold", '{"hold_reason": [null, "Matter 7"]}'),
    unknown("hold", '{"hold_reason": ["Matter 7", "Matter 8"]}'),
    unknown("hold", '{"hold_reason": ["Matter 8", null]}'),
    `retention_changed ${admin.email} {"caller": ${caller}, ${by('{"keep_days": [30, null]}')}`,
  ]);
});

it("a change of retention or of a hold adds its actions to the catalogue when it first happens, and fits into an entry whatever the reason is", async () => {
  await rolledBack(sql, async (run) => {
    const { id } = await addOrganization(run);
    // As in a database that has had none.
    const settings = ["hold_changed", "retention_changed"];
    await run`alter table audit_log.actions disable trigger change_action`;
    await run`delete from audit_log.actions where code = any (${settings})`;
    const codes = () =>
      valueOf<string[]>(run`
        select array(select code from audit_log.actions where code = any (${settings}) order by 1)`);
    await run`update audit_log.organizations set logs_key_events = true, hold_reason = null where id = ${id}`;
    assertEquals(await codes(), []);
    for (const reason of ["\u0001", "\u0002"].map((text) => `x${text.repeat(199)}`)) {
      await run`update audit_log.organizations set hold_reason = ${reason} where id = ${id}`;
    }
    assertEquals(await codes(), settings);
  });
});

/** Reads all rows of an organization, by table. */
async function rowsOf(id: string): Promise<Record<string, string[]>> {
  const tables = await sql`
    select a.attrelid::regclass::text as name, a.attname as column
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private')
      and a.attname = case c.oid when 'audit_log.organizations'::regclass then 'id' else 'organization_id' end`;
  const rows: Record<string, string[]> = {};
  for (const { name, column } of tables) {
    const query = `select t::text as row from ${name} as t where ${column} = $1 order by 1`;
    rows[name] = (await sql.unsafe(query, [id])).map(({ row }) => row);
  }
  return rows;
}

async function assertGone(id: string): Promise<void> {
  for (const [table, rows] of Object.entries(await rowsOf(id))) assertEquals(rows, [], table);
  const members =
    await sql`select from audit_log.organization_members where lower(organization_id) = ${id}`;
  assertEquals(members.length, 0);
}

/** Makes an organization that has rows in every table. */
async function fullOrganization(): Promise<Organization> {
  const organization = await newOrganization(admin);
  const { id, apiKeyId, token } = organization;
  await insertEntries(sql, id, "2020-01-01", 30);
  await runUpkeep(sql);
  for (const day of ["2020-01-02", "9999-12-31"]) await insertEntries(sql, id, day, 30);
  await getPage(token, ALL_DAYS);
  await call(admin, "rotate_api_key", { organization_id: id, api_key_id: apiKeyId });
  await call(admin, "read_audit_log", { organization_id: id, query: SEALED_DAYS });
  await sql`insert into audit_log_private.days_to_seal values (${id}, '2020-01-02')`;
  await sql`delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2020-01-02'`;
  await sql`
    insert into audit_log.organization_members (organization_id, user_id) values (${id.toUpperCase()}, 'other')`;
  if (HAS_STREAMS) await addStream(id);
  return organization;
}

/** Makes a stream that has rows in each of its tables. */
async function addStream(id: string): Promise<void> {
  const stream = { name: "SIEM", destination: { kind: "webhook", url: "https://example.com" } };
  await call(admin, "create_stream", { organization_id: id, stream });
  await sql`
    with stream as (
      update audit_log_private.streams set batch_what = 'test', batch_entries = 1 where organization_id = ${id}
      returning organization_id, id
    )
    insert into audit_log_private.rejected_entries (organization_id, stream_id, created_at, entry_id, rejected_at)
    select organization_id, id, now(), id, now() from stream`;
  await sql`
    select audit_log_private.note_attempt(s, '{"decision": "wait"}') from audit_log_private.streams s
    where organization_id = ${id}`;
}

describe("delete_organization()", () => {
  it("empties every table of an organization and of no other, in the loop of docs/operating.md", async () => {
    const [other, { id }] = [await fullOrganization(), await fullOrganization()];
    const before = await rowsOf(id);
    assertEquals(Object.keys(before).length, HAS_STREAMS ? 17 : 13);
    for (const [table, rows] of Object.entries(before)) assert(rows.length > 0, table);
    const others = await rowsOf(other.id);
    await deleteOrganization(sql, id);
    await assertGone(id);
    assertEquals(await rowsOf(other.id), others);
    assertEquals(await refusalOf(deletePiece(sql, id)), `P0002 there is no organization ${id}`);
  });

  it("leaves nothing of a person, an entry or a key in the statistics, which nobody has while it is there either", async () => {
    // Columns with texts, JSON or addresses of the network that Postgres keeps statistics of, also where an index has an
    // expression of them.
    const shown = await sql`
      select concat_ws('.', c.relname, a.attname) as name from pg_attribute a
      join pg_class c on c.oid = a.attrelid
      join pg_type t on t.oid = a.atttypid
      left join pg_index i on i.indexrelid = c.oid
      where c.relnamespace::regnamespace::text in ('audit_log', 'audit_log_private') and a.attnum > 0
        and not a.attisdropped and a.attstattarget is distinct from 0
        and (c.relkind = 'r' or c.relkind = 'i' and i.indkey[a.attnum - 1] = 0)
        and (t.typcategory in ('S', 'I') or t.typname = 'jsonb')
        and a.attname not in ('action', 'code')
      order by 1`;
    assertEquals(shown.map(({ name }) => name), []);
  });

  it("ends all access with its first piece, and then deletes 10,000 entries at a time. A hold stops it then, too, and is not logged, because nobody reads the log any more", async () => {
    const { id, token } = await newOrganization(admin);
    await insertEntries(sql, id, "2020-01-01", 2 * PIECE + 1);
    assert(await deletePiece(sql, id));
    await getProblem(401, token);
    const { error } = await admin.client.rpc("list_api_keys", { organization_id: id });
    assertEquals(error?.code, "42501");
    await alter(id, { hold_reason: "Matter 7" });
    assertEquals(await codeOf(deletePiece(sql, id)), "55006");
    await alter(id, { hold_reason: null });
    const left = [await entriesOf(id)];
    while (await deletePiece(sql, id)) left.push(await entriesOf(id));
    assertEquals(left, [2 * PIECE + 1, PIECE + 1, 1]);
  });

  it("ends even while the upkeep and writers run. The writers' next entries are refused and told why", async () => {
    const { id } = await fullOrganization();
    await beside([() => runUpkeep(sql)], async () => {
      const writers = Array.from({ length: 4 }, async () => {
        for (;;) await insertEntries(sql, id, "2020-01-03", 1);
      });
      const refusals = Promise.all(writers.map(refusalOf));
      assert(await deletePiece(sql, id));
      const why = new RegExp(`^23503 .*${id}, which is closed`);
      for (const refusal of await refusals) assertMatch(refusal, why);
      while (await deletePiece(sql, id));
    });
    await assertGone(id);
  });

  it("gives up after 5 seconds if a writer does not commit, so that the upkeep can go on. The next call deletes what was written", async () => {
    const { id } = await newLog();
    await sql.begin(async (writer) => {
      await insertEntries(writer, id, "2020-01-01", 1);
      assertEquals(await codeOf(deletePiece(sql, id)), "55P03");
      await runUpkeep(sql);
    });
    await deleteOrganization(sql, id);
    await assertGone(id);
  });

  it("is the only way to delete an organization with entries or seals, and seals cannot be changed", async () => {
    const { id } = await newLog({});
    const deletion = "delete from audit_log.organizations where id = $1";
    assertEquals(await codeOf(sql.unsafe(deletion, [id])), "23503");
    await runUpkeep(sql);
    await deleteEntriesBefore(sql, id, "2026-04-01");
    const attempts = [
      ["23503", deletion],
      ["42501", "delete from audit_log_private.seals where organization_id = $1"],
      ["42501", "update audit_log_private.seals set entries = 0 where organization_id = $1"],
    ] as const;
    for (const [code, attempt] of attempts) {
      for (const checked of ["immediate", "deferred"]) {
        const change = sql.begin(async (transaction) => {
          await transaction.unsafe(`set constraints all ${checked}`);
          await transaction.unsafe(attempt, [id]);
        });
        assertEquals(await codeOf(change), code, attempt);
      }
    }
    assertEquals(await codeOf(sql`truncate audit_log_private.seals`), "42501");
  });
});
