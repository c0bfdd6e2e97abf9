// Needs a stack.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { actAs, codeOf, errorOf, refusalOf, type Run, valueOf } from "../../dev/harness/project.ts";
import { inKit, logTable, makeThings, shown, written } from "./starter_kit.ts";

// Tests log_table as an adopter meets it. logged_writes_test.ts has the odd writes.

/** Makes a person, whose sign-up makes a personal account, and the person's team. */
async function newTeam(run: Run): Promise<{ owner: string; id: string }> {
  const owner: string = await valueOf(
    run`insert into kit.users (email) values ('ada@example.com') returning id`,
  );
  const id: string = await valueOf(run`
    insert into kit.accounts (name, slug, owner_id) values ('Engines', 'Engines', ${owner}) returning id`);
  return { owner, id };
}

it("README.md has a call that logs a table", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const [, call = ""] = readme.match(/```sql\n([^]*?)```/) ?? [];
  await inKit(async (run) => {
    await run.unsafe(`
      create table public.documents (
        id uuid primary key default gen_random_uuid(), organization_id text, title text, status text, updated_by text
      );
      insert into audit_log.actions (code, description)
      select 'document_' || what, what from unnest(array['created', 'changed', 'deleted']) as what;
      ${call}
      insert into public.documents (organization_id, title, updated_by) values ('acme', 'Plan', 'ada@example.com');
      update public.documents set status = 'done';
      delete from public.documents`);
    assertEquals(await shown(run), [
      "acme: document_created: Plan",
      'acme: document_changed: Plan {"status":[null,"done"]}',
      "acme: document_deleted: Plan",
    ]);
  });
});

describe("a starter kit's actions are logged", () => {
  it("from the first team on, although its owner is inserted before our trigger runs, to the cascade that ends it; not for accounts without a log", async () => {
    await inKit(async (run) => {
      const { id, owner } = await newTeam(run);
      await run`update kit.members set role = 'admin' where account_id = ${id}`;
      await run`update kit.accounts set name = 'Analytical', slug = 'Not shown here' where id = ${id}`;
      const [added, created] = await written(run);
      assertEquals(added?.data["member_id"], owner);
      // As the BEFORE trigger left it.
      assertEquals(created?.data["slug"], "engines");
      await run`delete from kit.accounts`;
      const entries = await shown(run);
      assertEquals([...entries.slice(0, 4), ...entries.slice(4).toSorted()], [
        `${id}: member_added: owner`,
        `${id}: team_created: Engines`,
        `${id}: member_changed: admin {"role":["owner","admin"]}`,
        `${id}: team_changed: Analytical {"name":["Engines","Analytical"],"slug":["engines","not-shown-here"]}`,
        `${id}: member_removed: admin`,
        `${id}: team_deleted: Analytical`,
      ]);
    });
  });

  it("no more once its organization is closed: a write is refused, or not logged and counted, as on_failure says", async () => {
    await inKit(async (run) => {
      await makeThings(run);
      await run`insert into kit.things values (1, 'a', 'First'), (2, 'b', 'Other')`;
      await run`select audit_log_private.close_organization('a')`;
      await run`savepoint closed`;
      const change = "update kit.things set title = 'Late'";
      assertEquals(
        await refusalOf(run.unsafe(change)),
        "23503 an entry has the organization a, which is closed (close_organization)",
      );
      await run`rollback to closed`;
      await logTable(run, "kit.things", { on_failure: "carry_on" });
      await run.unsafe(change);
      assertEquals(await shown(run), ["a: First", "b: Other"]);
      assertEquals(
        await valueOf(run`select failures::int from audit_log_private.logging_failures`),
        1,
      );
    });
  });

  it("with the person, the address and the user agent of the request, for writers without rights on the log", async () => {
    await inKit(async (run) => {
      await makeThings(run, { data: "id as thing_id" });
      await run.unsafe(`
        grant usage on schema kit to authenticated, service_role;
        grant insert on kit.things to authenticated, service_role`);
      const headers = { "x-forwarded-for": "forged, 203.0.113.7", "user-agent": "x".repeat(300) };
      await run`select set_config('request.headers', ${JSON.stringify(headers)}, true)`;
      await actAs(run, { sub: "user_2b", email: "ada@example.com" });
      await run`insert into kit.things values (1, 'a', 'One')`;
      await run`select
        set_config('request.headers', '{"x-forwarded-for":"203.0.113.7"}', true),
        set_config('request.jwt.claims', '', true)`;
      await run`set local role service_role`;
      await run`insert into kit.things values (2, 'a', 'Two')`;
      await run`reset role`;
      await run`select set_config('request.headers', '', true)`;
      await run`insert into kit.things values (3, 'a', 'Three')`;
      // An application writes as the person who authorized it.
      const application = { sub: "user_2b", email: "ada@example.com", client_id: "app_1" };
      await actAs(run, application);
      await run`insert into kit.things values (4, 'a', 'Four')`;
      await run`reset role`;
      const [person, key, job, through] = await written(run);
      assertEquals([through?.user_email, through?.data["caller"]], ["ada@example.com", {
        id: "user_2b",
        kind: "person",
        client_id: "app_1",
      }]);
      assertEquals(person?.user_email, "ada@example.com");
      assertEquals(person?.data, {
        thing_id: "1",
        caller: {
          id: "user_2b",
          kind: "person",
          address: "203.0.113.7",
          user_agent: `${"x".repeat(199)}…`,
        },
      });
      assertEquals([key?.user_email, key?.data["caller"]], ["unknown@invalid", {
        kind: "secret_key",
        address: "203.0.113.7",
      }]);
      assertEquals([job?.user_email, job?.data["caller"]], ["unknown@invalid", undefined]);
    });
  });

  it("with the person for whom the secret key says that it writes; nobody else is believed", async () => {
    await inKit(async (run) => {
      await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
      await run.unsafe(`
        grant usage on schema kit to anon, authenticated, service_role;
        grant insert on kit.things to anon, authenticated, service_role;
        create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin
          id := auth.jwt() ->> 'sub';
          email := coalesce(auth.jwt() ->> 'email', 'jobs@example.com');
        end $$`);
      const NUL = "%00", LONG = `${"x".repeat(5000)}@example.com`;
      const named = { kind: "secret_key" };
      // What the headers say, the address of the entry, and what data.caller says.
      const cases: [Record<string, unknown>, string, unknown][] = [
        [{}, "row@example.com", named],
        [{ "x-audit-person": "", "x-audit-person-id": " " }, "row@example.com", named],
        [{ "x-audit-person": "ada@example.com" }, "ada@example.com", {
          ...named,
          on_behalf_of: { email: "ada@example.com" },
        }],
        [
          {
            "x-audit-person": encodeURIComponent("añé+%41@łódź.example"),
            "x-audit-person-id": "user_%C5%82",
          },
          "añé+%41@łódź.example",
          { ...named, on_behalf_of: { email: "añé+%41@łódź.example", id: "user_ł" } },
        ],
        [
          { "x-audit-person": "%0Aada%40example.com%0D%0A", "x-audit-person-id": "%09" },
          "ada@example.com",
          { ...named, on_behalf_of: { email: "ada@example.com" } },
        ],
        // Somebody who is known by an id alone is not the person of the row.
        [{ "x-audit-person-id": "user_2b" }, "jobs@example.com", {
          ...named,
          on_behalf_of: { id: "user_2b" },
        }],
        [{ "x-audit-person": "no address" }, "jobs@example.com", {
          ...named,
          on_behalf_of: { email: "no address" },
        }],
        [{ "x-audit-person": "ada@example.com, eve@example.com" }, "jobs@example.com", {
          ...named,
          on_behalf_of: { email: "ada@example.com, eve@example.com" },
        }],
        [{ "x-audit-person": `%FF${NUL}%4@x`, "x-audit-person-id": NUL }, `%FF${NUL}%4@x`, {
          ...named,
          on_behalf_of: { email: `%FF${NUL}%4@x`, id: NUL },
        }],
        [{ "x-audit-person": LONG, "x-audit-person-id": LONG }, "jobs@example.com", {
          ...named,
          on_behalf_of: { email: `${"x".repeat(99)}…`, id: `${"x".repeat(99)}…` },
        }],
        [{ "x-audit-person": ["a@b"], "x-audit-person-id": {} }, '["a@b"]', {
          ...named,
          on_behalf_of: { email: '["a@b"]', id: "{}" },
        }],
        [
          {
            "x-audit-person": "ada@example.com",
            "x-audit-person-address": "[2001:db8::1]:443",
            "x-audit-person-agent": "%0AŁ%5B1%5D (KHTML, like Gecko)%20",
          },
          "ada@example.com",
          {
            ...named,
            on_behalf_of: {
              email: "ada@example.com",
              address: "2001:db8::1",
              user_agent: "Ł[1] (KHTML, like Gecko)",
            },
          },
        ],
        // They name nobody.
        [
          { "x-audit-person-address": "203.0.113.7:5678", "x-audit-person-agent": LONG },
          "row@example.com",
          {
            ...named,
            on_behalf_of: { address: "203.0.113.7", user_agent: `${"x".repeat(199)}…` },
          },
        ],
        ...["203.0.113.7, 203.0.113.8", "x", "::1%0A", `1${NUL}`, LONG, "\u200b::1", "[::1"].map((
          address,
        ): [Record<string, string>, string, unknown] => [
          { "x-audit-person-address": address, "x-audit-person-agent": " " },
          "row@example.com",
          address === "::1%0A" ? { ...named, on_behalf_of: { address: "::1" } } : named,
        ]),
      ];
      const write = async (headers: Record<string, unknown>, id: number) => {
        await run`select set_config('request.headers', ${JSON.stringify(headers)}, true)`;
        await run`insert into kit.things values (${id}, 'row@example.com', 'a', 'One')`;
        await run`reset role`;
      };
      for (const [id, [headers]] of cases.entries()) {
        await run`set local role service_role`;
        await write(headers, id);
      }
      const eve = { "x-audit-person": "eve@example.com", "x-audit-person-id": "eve" };
      await run`set local role anon`;
      await write(eve, 100);
      await actAs(run, { sub: "user_2b", email: "ada@example.com" });
      await write(eve, 101);
      // As the owner, with the claims of a person, and of nobody.
      await write(eve, 102);
      await run`select set_config('request.jwt.claims', '', true)`;
      await write(eve, 103);
      const person = { kind: "person", id: "user_2b" };
      assertEquals(
        (await written(run)).map(({ user_email, data }) => [user_email, data["caller"]]),
        [
          ...cases.map(([, email, caller]) => [email, caller]),
          // What they write into the row is no proof of who they are.
          ["unknown@invalid", { kind: "nobody" }],
          ["ada@example.com", person],
          ["ada@example.com", person],
          ["unknown@invalid", { kind: "nobody" }],
        ],
      );
    });
  });

  it("with the person of the row where nobody is signed in, or the address that caller() gives", async () => {
    await inKit(async (run) => {
      await run.unsafe(`
        create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin
          id := auth.jwt() ->> 'sub';
          email := coalesce(auth.jwt() ->> 'email', 'jobs@example.com');
        end $$`);
      await makeThings(run, {
        columns: "id integer primary key, made_by uuid, mail text",
        person: "mail",
      });
      await run.unsafe(`create table kit.more (like kit.things including all)`);
      await logTable(run, "kit.more", { person: "made_by" });
      const account: string = await valueOf(run`
        insert into auth.users (id, email) values (gen_random_uuid(), 'grace@example.com') returning id`);
      await run`
        insert into kit.things values (1, null, 'mail@example.com', 'a'), (2, null, 'user_2b', 'a')`;
      await run`insert into kit.more values (1, ${account}, null, 'a'), (2, gen_random_uuid(), null, 'a')`;
      // Whoever wrote the row need not be who deletes it.
      await run`delete from kit.more where id = 1`;
      const emails = (await written(run)).map(({ user_email }) => user_email.split("@")[0]);
      // The entries of one statement have no order.
      assertEquals(emails.toSorted(), ["grace", "jobs", "jobs", "jobs", "mail"]);
    });
  });

  it("with nobody else's address for a signed-in person who has none, such as an anonymous user", async () => {
    await inKit(async (run) => {
      await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
      await run`insert into kit.things values (1, 'ada@example.com', 'a', 'One')`;
      for (const claims of [{ sub: "anonymous" }, { sub: "phone", email: "" }]) {
        await run`select set_config('request.jwt.claims', ${JSON.stringify(claims)}, true)`;
        await run`update kit.things set title = ${claims.sub}`;
      }
      const emails = (await written(run)).map(({ user_email }) => user_email);
      assertEquals(emails, ["ada@example.com", "unknown@invalid", "unknown@invalid"]);
    });
  });
});

describe("the address of a caller", () => {
  it("is that of the nearest proxy, without a port", async () => {
    await inKit(async (run) => {
      const cases = {
        "198.51.100.1, 203.0.113.7:5678": "203.0.113.7",
        "[::1]:5678": "::1",
        "[2001:db8::1]": "2001:db8::1",
        "2001:db8::1": "2001:db8::1",
        "203.0.113.7:": undefined,
        "[::1]:x": undefined,
        "203.0.113.7:5678:1": undefined,
        "::ffff:203.0.113.7": "::ffff:203.0.113.7",
        "::ffff:203.0.113.7:5678": "::ffff:203.0.113.7",
        [`::${"1".repeat(50)}`]: undefined,
        "ad": undefined,
        "evil": undefined,
        "12:34": undefined,
        "1::2::3": undefined,
        "203.0.113.256": undefined,
      };
      for (const [forwarded, expected] of Object.entries(cases)) {
        for (const name of ["x-forwarded-for", "cf-connecting-ip"]) {
          const given = name === "cf-connecting-ip" ? forwarded.split(", ").at(-1) : forwarded;
          await run`select set_config('request.headers', ${
            JSON.stringify({ [name]: given })
          }, true)`;
          const data = await valueOf<{ caller: { address?: string } }>(
            run`select data from audit_log_private.request_context()`,
          );
          assertEquals(data.caller.address, expected, `${name}: ${given}`);
        }
      }
    });
  });
});

describe("log_table() says at the push", () => {
  const NEVER = { on_insert: null, on_update: null, on_delete: null };
  const WIDE = Array.from({ length: 70 }, (_, n) => `id as ${"name".repeat(4)}${n}`).join(", ");
  const BAD: Record<string, Record<string, string | null>> = {
    "22023 the table does not store titel, x.id": { agent_name: "titel", data: "x.id" },
    "22023 the action 'thing_don' is not in the table": { on_insert: "thing_don" },
    "22023 the action 'member_added' requires member_id": { on_insert: "member_added", data: "id" },
    "22023 on_failure is refuse or carry_on": { on_failure: "ignore" },
    "22023 give on_insert, on_update or on_delete": NEVER,
    "22023 say to which organization a row belongs": { organization: null },
    "22023 to which organization a row belongs": { organization: " " },
    "22023 organization, agent_name and person name one column each": {
      organization: "team, title",
    },
    "22023 person name one column each": { person: "team, title" },
    "22023 data and changes no name twice": { data: "id as a, title as a" },
    "22023 changes no name twice": { changes: "team, title as team" },
    "22023 the names caller": { data: "id as caller" },
    "22023 caller and changes in data are reserved": { data: "id, team as changes" },
    "22023 those that begin with audit_log_": { data: "id as audit_log_x" },
    '22023 string is not a valid identifier: "id + 1"': { data: "title, id + 1" },
    '22023 string is not a valid identifier: ""': { changes: "title," },
    '22023 string is not a valid identifier: "a as b"': { data: "id as a as b" },
    '22023 string is not a valid identifier: "lower(team)"': { organization: "lower(team)" },
    "22023 too many columns": { data: WIDE },
    "22023 not a table of the platform": { logged: "audit_log.actions", changes: "code" },
    "22023 there is no function kit.facts(jsonb) that returns jsonb": { computed: "kit.facts" },
    "22023 there is no function kit.count(jsonb) that returns jsonb": { computed: "kit.count" },
    "22023 there is no function kit.rows(jsonb) that returns jsonb": { computed: "kit.rows" },
  };
  for (const [error, args] of Object.entries(BAD)) {
    it(error.slice(6), async () => {
      await inKit(async (run) => {
        await makeThings(run);
        await run`create function kit.count(jsonb) returns integer language sql as 'select 1'`;
        await run`create function kit.rows(jsonb) returns setof jsonb language sql as 'select $1'`;
        assertStringIncludes(await refusalOf(logTable(run, "kit.things", args)), error.slice(6));
      });
    });
  }
});

describe("a failure", () => {
  /** The causes, each with what the platform's function returns, the row, and the error. */
  const CAUSES: Record<string, [facts: string, row: string, error: string]> = {
    "an organization whose id is too long": [
      '{"extra":1}',
      "(1, repeat('x', 201), 'secret')",
      "23514",
    ],
    "no organization": ['{"extra":1}', "(1, null, 'secret')", "23514"],
    "an organization that is closed": ['{"extra":1}', "(1, 'closed', 'secret')", "23503"],
    "a function that raises": ["{", "(1, 'a', 'secret')", "22P02"],
    "a function that returns a list": ['["extra"]', "(1, 'a', 'secret')", "22023"],
    "a function that returns a string": ['"extra"', "(1, 'a', 'secret')", "22023"],
    "a function that returns null in JSON": ["null", "(1, 'a', 'secret')", "22023"],
    "a function that leaves a field out": ['{"extr":1}', "(1, 'a', 'secret')", "22023"],
    "an action that is not in the catalogue": [
      '{"extra":1,"action":"x"}',
      "(1, 'a', 'secret')",
      "23503",
    ],
    "an action that requires more": [
      '{"extra":1,"action":"member_added"}',
      "(1, 'a', 'secret')",
      "23514",
    ],
  };
  for (const [cause, [facts, row, error]] of Object.entries(CAUSES)) {
    it(`is an error, or counted with carry_on, and shows no value of the row: ${cause}`, async () => {
      await inKit(async (run) => {
        await makeThings(run);
        await run`select audit_log_private.ensure_organization('closed'), audit_log_private.close_organization('closed')`;
        await run.unsafe(`create function kit.facts(jsonb) returns jsonb language plpgsql as
          $$ begin return '${facts}'; end $$`);
        const given = { data: "extra", computed: "kit.facts" };
        await logTable(run, "kit.things", given);
        const insert = () => run.unsafe(`insert into kit.things values ${row}`);
        await run`savepoint before_it`;
        const { code, message, detail = "" } = await errorOf(insert());
        await run`rollback to before_it`;
        assertEquals([code, `${message} ${detail}`.includes("secret")], [error, false]);
        await logTable(run, "kit.things", { ...given, on_failure: "carry_on" });
        await insert();
        const [failure] =
          await run`select logged, failures::int, last_error from audit_log_private.logging_failures`;
        assertEquals([failure?.["logged"], failure?.["failures"]], ["kit.things", 1]);
        assertEquals(failure?.["last_error"], `${error}: ${message}`);
      });
    });
  }

  it("lets the statement go on with on_failure => carry_on, and is counted with its last message", async () => {
    await inKit(async (run) => {
      await makeThings(run, { on_failure: "carry_on" });
      await run`insert into kit.things values (2, null, 'secret title')`;
      await run`update kit.things set title = 'x'`;
      await run`insert into kit.things values (1, 'a', 'logged')`;
      assertEquals((await run`select from kit.things`).length, 2);
      assertEquals(await shown(run), ["a: logged"]);
      // Also what caller() raises.
      await run`create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin raise exception 'down'; end $$`;
      await run`delete from kit.things`;
      const failures = await valueOf<Record<string, unknown>[]>(
        run`select audit_log_private.health() -> 'logging_failures'`,
      );
      const expected = ["kit.things", 3, "P0001: down"];
      assertEquals(
        failures.map(({ logged, failures, last_error }) => [logged, failures, last_error]),
        [expected],
      );
    });
  });

  it("ends the transaction if another one caused it, also with on_failure => carry_on: its repetition is logged", async () => {
    await inKit(async (run) => {
      await makeThings(run, { on_failure: "carry_on" });
      await run`create or replace function audit_log_private.caller(out id text, out email text)
        language plpgsql stable as $$ begin raise exception using errcode = 'serialization_failure'; end $$`;
      assertEquals(await codeOf(run`insert into kit.things values (1, 'a', 'x')`), "40001");
    });
  });
});
