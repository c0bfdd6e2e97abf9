import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { countMismatches, refusalOf, type Run, valueOf } from "../../../harness/project.ts";
import { inKit, logTable, makeThings } from "./starter_kit.ts";

// Tests backfill_table. tests/local/adopting_entries_test.ts runs it as docs/adopting.md says, with commits.

const KEY = `"Id" integer, part text, made_at timestamptz, primary key (part, "Id")`;
const NAMED = { data: `part, "Id" as thing_id`, log_if: "title <> 'Draft'" };

/** Makes `kit.things` with rows that no entry has, and then logs it. */
async function makeOld(run: Run, values: string, given: Record<string, string | null> = {}) {
  const { columns, ...args } = { columns: KEY, ...NAMED, ...given };
  await makeThings(run, { columns: columns ?? KEY, on_failure: "carry_on" });
  await run`select audit_log_private.unlog_table('kit.things')`;
  await run`delete from audit_log_private.backfills`;
  await run.unsafe(`insert into kit.things ("Id", part, made_at, team, title) ${values}`);
  await logTable(run, "kit.things", args);
}

/** Writes one piece, and says whether there may be more. */
function piece(run: Run, at: string | null = "made_at"): Promise<boolean> {
  return valueOf(run`select audit_log_private.backfill_table('kit.things', at => ${at})`);
}

async function backfill(run: Run, at?: string): Promise<void> {
  while (await piece(run, at));
}

/** Shows each entry of an insert as `key title time`, those that were backfilled with a `*`. */
async function inserts(run: Run): Promise<string[]> {
  const rows = await run`
    select concat(
      e.data ->> 'part', e.data ->> 'thing_id', ' ', e.agent_name, ' ',
      case
        when e.created_at = b.since::timestamptz(3) then 'since' when e.created_at > b.since then 'now'
        else to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI')
      end,
      case when e.data -> 'backfilled' = 'true' then ' *' end
    ) as shown
    from audit_log.audit_entries e cross join audit_log_private.backfills b
    where e.transaction_id = audit_log_private.transaction_number() and not e.data ? 'changes'
    order by 1`;
  return rows.map(({ shown }) => shown);
}

describe("backfill_table() writes each row of before once", () => {
  it("whatever time it has, and no row that the log has already, whatever its time", async () => {
    await inKit(async (run) => {
      await makeOld(
        run,
        `values (1, 'a', '2026-03-01 10:00+02', 'a', 'Old'), (2, 'a', null, 'a', 'No time'),
        (3, 'b', 'infinity', 'b', 'Endless'), (4, 'b', '-infinity', 'b', 'Ever'), (5, 'b', '2999-01-01', 'a', 'To come'),
        (6, 'b', '2026-03-01', 'a', 'Draft'), (1, 'b', '2026-03-01', 'a', 'Changed'), (7, 'b', null, 'b', 'Untimed')`,
      );
      // Since then: new rows with old times or none, and old rows with new values.
      await run`
        insert into kit.things values (8, 'b', '2020-01-01', 'a', 'Back'), (9, 'b', null, 'a', 'New'),
          (10, 'b', now(), 'a', 'Waited')`;
      await run`update kit.things set title = title || '!' where part = 'b'`;
      await run`update kit.things set title = 'Two' where "Id" = 8`;
      const old = [
        "a1 Old 2026-03-01 08:00 *",
        "a2 No time since *",
        "b1 Changed! 2026-03-01 00:00 *",
        "b3 Endless! since *",
        "b4 Ever! since *",
        "b5 To come! since *",
        "b6 Draft! 2026-03-01 00:00 *",
        "b7 Untimed! since *",
      ];
      const added = ["b10 Waited now", "b8 Back now", "b9 New now"];
      for (let n = 0; n < 2; n++) {
        await backfill(run);
        assertEquals(await inserts(run), [...old, ...added].toSorted());
      }
      // Not what came after it, either.
      await run`insert into kit.things values (11, 'b', '2020-01-01', 'a', 'Late')`;
      await logTable(run, "kit.things", NAMED);
      await backfill(run);
      assertEquals((await inserts(run)).length, old.length + added.length + 1);
    });
  });

  it("from a table without times: at the moment when log_table was called", async () => {
    await inKit(async (run) => {
      await makeOld(run, "select n, 'a', null, 'a', 'Old' from generate_series(1, 3) n");
      await run`insert into kit.things values (4, 'a', null, 'a', 'New')`;
      await run`update kit.things set title = 'Changed' where "Id" < 3`;
      await backfill(run, "null");
      assertEquals(await inserts(run), [
        "a1 Changed since *",
        "a2 Changed since *",
        "a3 Old since *",
        "a4 New now",
      ]);
    });
  });

  it("in pieces, of which one fails and is repeated. The counts are exact", async () => {
    await inKit(async (run) => {
      await makeOld(
        run,
        `select n % 6000, n / 6000, '2025-01-01'::timestamptz + n * interval '1 hour',
          case when n % 2 = 0 then 'a' else 'b' end, 'Old' from generate_series(0, 11999) n`,
      );
      assert(await piece(run));
      await run`savepoint before`;
      assert(await piece(run));
      await run`rollback to before`;
      await run`alter table kit.things rename to objects`;
      await run`alter table kit.objects rename "Id" to number`;
      await logTable(run, "kit.objects", { data: `part, number as thing_id` });
      await run`alter table kit.objects rename to things`;
      await backfill(run);
      const [found] = await run`
        select count(*)::int, count(distinct e.id)::int as ids,
          count(distinct (e.data ->> 'part', e.data ->> 'thing_id'))::int as rows
        from audit_log.audit_entries e
        where e.transaction_id = audit_log_private.transaction_number() and created_at < '2027-01-01'`;
      assertEquals({ ...found }, { count: 12000, ids: 12000, rows: 12000 });
      const organizations =
        await run`select id from audit_log.organizations where name in ('A', 'B')`;
      for (const { id } of organizations) assertEquals(await countMismatches(run, id), []);
    });
  });

  it("also where data did not name the key at first", async () => {
    await inKit(async (run) => {
      await makeOld(run, "values (1, 'a', null, 'a', 'Old')", { data: "" });
      await run`insert into kit.things values (2, 'a', clock_timestamp(), 'a', 'New')`;
      await logTable(run, "kit.things", NAMED);
      await backfill(run);
      assertEquals(await inserts(run), [" New now", "a1 Old since *"]);
    });
  });

  it("not for organizations that have no log or leave, and as the log calls the person of the row", async () => {
    await inKit(async (run) => {
      await makeOld(
        run,
        "values (1, 'a', '2026-03-01', 'a', 'x'), (2, 'a', '2026-03-01', gen_random_uuid()::text, 'x'), (3, 'a', null, 'b', 'x')",
        { person: "part || '@example.com'" },
      );
      await run`update audit_log.organizations set leaving_at = now() where external_id = 'b'`;
      await backfill(run);
      assertEquals(await inserts(run), ["a1 x 2026-03-01 00:00 *"]);
      const email = run`
        select user_email from audit_log.audit_entries
        where transaction_id = audit_log_private.transaction_number()`;
      assertEquals(await valueOf(email), "a@example.com");
    });
  });
});

describe("backfill_table() says before it writes anything", () => {
  const BAD: Record<string, Record<string, string | null>> = {
    '22023 data does not name the primary key ("Id")': { data: `part, "Id" + 1 as thing_id` },
    "22023 data does not name the primary key (part": { data: "" },
    "22023 give the table a primary key": { columns: `"Id" integer, part text, made_at text` },
    "22023 inserts have the action of updates": { changes: "" },
    "22023 log_table does not log the inserts": { on_insert: null },
    '42703 column "mad_at" does not exist': { at: "mad_at" },
    "42846 cannot cast type integer": { at: `"Id"` },
    "22023 say when a row was inserted": { at: null },
  };
  for (const [error, { at = "made_at", ...given }] of Object.entries(BAD)) {
    it(error.slice(6), async () => {
      await inKit(async (run) => {
        await makeOld(run, "values (1, 'a', '2026-03-01', 'a', 'Old')", given);
        assertStringIncludes(await refusalOf(piece(run, at)), error.slice(6));
      });
    });
  }

  it("where data names the key only in a subquery, or beside one of the same name", async () => {
    await inKit(async (run) => {
      const deep = `(select o."Id" as thing_id from kit.things o limit 1)`;
      await makeOld(run, "values (1, 'a', null, 'a', 'Old')", { data: `part, ${deep}` });
      assertStringIncludes(await refusalOf(piece(run)), 'primary key ("Id")');
    });
    await inKit(async (run) => {
      const other = `(select x.slug as part from kit.accounts x limit 1) as other`;
      await makeOld(run, "values (1, 'a', null, 'a', 'Old')", {
        data: `"Id" as thing_id, part, ${other}`,
      });
      assertEquals(await piece(run), false);
    });
  });
});
