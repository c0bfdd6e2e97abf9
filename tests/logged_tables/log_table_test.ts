// Needs a stack.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { actAs, codeOf, errorOf, refusalOf, type Run, valueOf } from "../../dev/harness/project.ts";
import { it, logTable, makeThings, shown, written } from "./starter_kit.ts";

// Tests log_table as an adopter meets it. logged_writes_test.ts has the odd writes.

/** What an adopter's caller() returns who knows an address for jobs. */
const JOBS =
  `id := auth.jwt() ->> 'sub'; email := coalesce(auth.jwt() ->> 'email', 'jobs@example.com');`;

async function replaceCaller(run: Run, body: string): Promise<void> {
  await run.unsafe(`create or replace function audit_log_private.caller(out id text, out email text)
    language plpgsql stable as $$ begin ${body} end $$`);
}

it("README.md has a call that logs a table", async (run) => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  const [, call = ""] = readme.match(/```sql\n([^]*?)```/) ?? [];
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

describe("a starter kit's actions are logged", () => {
  it("from the first team on, although its owner is inserted before our trigger runs, to the cascade that ends it; not for accounts without a log", async (run) => {
    const owner = crypto.randomUUID();
    await run`insert into kit.accounts (name, is_personal, owner_id) values ('ada', true, ${owner})`;
    const id: string = await valueOf(run`
      insert into kit.accounts (name, slug, owner_id) values ('Engines', 'Engines', ${owner}) returning id`);
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

  it("with the person, the address and the user agent of the request, for writers without rights on the log", async (run) => {
    await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
    const address = "203.0.113.7";
    const forwarded = { "x-forwarded-for": `forged, ${address}`, "user-agent": "x".repeat(300) };
    const [row, unknown] = ["row@example.com", "unknown@invalid"];
    const ada = { sub: "user_2b", email: "ada@example.com" };
    const application = { ...ada, client_id: "app_1" };
    const person = { id: ada.sub, kind: "person" };
    const user_agent = `${"x".repeat(199)}…`;
    type Given = object | "";
    type Write = [role: string, claims: Given, headers: Given, email: string, caller?: object];
    const writes: Write[] = [
      ["authenticated", ada, forwarded, ada.email, { ...person, address, user_agent }],
      ["service_role", {}, { "x-forwarded-for": address }, row, { kind: "secret_key", address }],
      ["postgres", "", "", row],
      // An application writes as the person who authorized it.
      ["authenticated", application, {}, ada.email, { ...person, client_id: "app_1" }],
      // A person without an address, such as an anonymous user, gets nobody else's.
      ["postgres", { sub: "anonymous" }, {}, unknown, { ...person, id: "anonymous" }],
      ["postgres", { sub: "phone", email: "" }, {}, unknown, { ...person, id: "phone" }],
    ];
    for (const [id, [role, claims, headers]] of writes.entries()) {
      const settings = { "request.headers": headers, "request.jwt.claims": claims };
      for (const [name, given] of Object.entries(settings)) {
        await run`select set_config(${name}, ${given && JSON.stringify(given)}, true)`;
      }
      await run.unsafe(`set local role ${role}`);
      await run`insert into kit.things values (${id}, ${row}, 'a', 'One')`;
      await run`reset role`;
    }
    const seen = (await written(run)).map(({ user_email, data }) => [user_email, data["caller"]]);
    assertEquals(seen, writes.map(([, , , email, caller]) => [email, caller]));
  });

  it("with the person for whom the secret key says that it writes; nobody else is believed", async (run) => {
    await makeThings(run, { columns: "id integer primary key, mail text", person: "mail" });
    await replaceCaller(run, JOBS);
    const NUL = "%00", LONG = `${"x".repeat(5000)}@example.com`;
    const [ada, row, jobs] = ["ada@example.com", "row@example.com", "jobs@example.com"];
    const [odd, both] = ["añé+%41@łódź.example", `${ada}, eve@example.com`];
    const [email, user_agent] = [99, 199].map((count) => `${"x".repeat(count)}…`);
    // What the headers X-Audit-Person… say, the address of the entry, and for whom it says that it was.
    const cases: [said: Record<string, unknown>, email: string, on_behalf_of?: object][] = [
      [{}, row],
      [{ "": "", "-id": " " }, row],
      [{ "": ada }, ada, { email: ada }],
      [{ "": encodeURIComponent(odd), "-id": "a%C5%82" }, odd, { email: odd, id: "ał" }],
      [{ "": "%0Aada%40example.com%0D%0A", "-id": "%09" }, ada, { email: ada }],
      // Somebody who is known by an id alone is not the person of the row.
      [{ "-id": "user_2b" }, jobs, { id: "user_2b" }],
      [{ "": "no address" }, jobs, { email: "no address" }],
      [{ "": both }, jobs, { email: both }],
      [{ "": `%FF${NUL}%4@x`, "-id": NUL }, `%FF${NUL}%4@x`, { email: `%FF${NUL}%4@x`, id: NUL }],
      [{ "": LONG, "-id": LONG }, jobs, { email, id: email }],
      [{ "": ["a@b"], "-id": {} }, '["a@b"]', { email: '["a@b"]', id: "{}" }],
      [
        { "": ada, "-address": "[2001:db8::1]:443", "-agent": "%0AŁ%5B1%5D (KHTML, Gecko)%20" },
        ada,
        { email: ada, address: "2001:db8::1", user_agent: "Ł[1] (KHTML, Gecko)" },
      ],
      // They name nobody.
      [{ "-address": "1.2.3.4:5678", "-agent": LONG }, row, { address: "1.2.3.4", user_agent }],
      [{ "-address": "::1%0A", "-agent": " " }, row, { address: "::1" }],
      ...["203.0.113.7, 203.0.113.8", "x", `1${NUL}`, LONG, "\u200b::1", "[::1"]
        .map((address): [object, string] => [{ "-address": address }, row]),
    ];
    const write = async (said: Record<string, unknown>, id: number) => {
      const headers = Object.fromEntries(
        Object.entries(said).map(([name, value]) => [`x-audit-person${name}`, value]),
      );
      await run`select set_config('request.headers', ${JSON.stringify(headers)}, true)`;
      await run`insert into kit.things values (${id}, 'row@example.com', 'a', 'One')`;
      await run`reset role`;
    };
    for (const [id, [said]] of cases.entries()) {
      await run`set local role service_role`;
      await write(said, id);
    }
    const eve = { "": "eve@example.com", "-id": "eve" };
    await run`set local role anon`;
    await write(eve, 100);
    await actAs(run, { sub: "user_2b", email: "ada@example.com" });
    await write(eve, 101);
    // As the owner, with the claims of a person, and of nobody.
    await write(eve, 102);
    await run`select set_config('request.jwt.claims', '', true)`;
    await write(eve, 103);
    const person = [ada, { kind: "person", id: "user_2b" }];
    // What they write into the row is no proof of who they are.
    const nobody = ["unknown@invalid", { kind: "nobody" }];
    assertEquals(
      (await written(run)).map(({ user_email, data }) => [user_email, data["caller"]]),
      [
        ...cases.map(([, email, on_behalf_of]) => [
          email,
          { kind: "secret_key", ...on_behalf_of && { on_behalf_of } },
        ]),
        ...[nobody, person, person, nobody],
      ],
    );
  });

  it("with the person of the row where nobody is signed in, or the address that caller() gives", async (run) => {
    await replaceCaller(run, JOBS);
    const columns = "id integer primary key, made_by uuid, mail text";
    await makeThings(run, { columns, person: "mail" });
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

it("the address of a caller is that of the nearest proxy, without a port", async (run) => {
  const none = "203.0.113.7: [::1]:x 203.0.113.7:5678:1 ad evil 12:34 1::2::3 203.0.113.256";
  const cases: [forwarded: string, address?: string][] = [
    ["198.51.100.1, 203.0.113.7:5678", "203.0.113.7"],
    ["[::1]:5678", "::1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["2001:db8::1", "2001:db8::1"],
    ["::ffff:203.0.113.7", "::ffff:203.0.113.7"],
    ["::ffff:203.0.113.7:5678", "::ffff:203.0.113.7"],
    [`::${"1".repeat(50)}`],
    ...none.split(" ").map((each): [string] => [each]),
  ];
  for (const [forwarded, address] of cases) {
    const given = {
      "x-forwarded-for": forwarded,
      "cf-connecting-ip": forwarded.split(", ").at(-1),
    };
    for (const header of Object.entries(given)) {
      const headers = JSON.stringify(Object.fromEntries([header]));
      await run`select set_config('request.headers', ${headers}, true)`;
      const seen = run`select data #>> '{caller,address}' from audit_log_private.request_context()`;
      assertEquals(await valueOf(seen), address ?? null, headers);
    }
  }
});

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
  "22023 agent_name and person name one column each": { organization: "team, title" },
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
  it(`log_table() says at the push: ${error.slice(6)}`, async (run) => {
    await makeThings(run);
    await run`create function kit.count(jsonb) returns integer language sql as 'select 1'`;
    await run`create function kit.rows(jsonb) returns setof jsonb language sql as 'select $1'`;
    assertStringIncludes(await refusalOf(logTable(run, "kit.things", args)), error.slice(6));
  });
}

describe("a failure", () => {
  /** The causes, each with the error, what the platform's function returns, and the organization. */
  const CAUSES: Record<string, (string | undefined)[]> = {
    "an organization whose id is too long": ["23514", undefined, "repeat('x', 201)"],
    "no organization": ["23514", undefined, "null"],
    "an organization that is closed": ["23503", undefined, "'closed'"],
    "a function that raises": ["22P02", "{"],
    "a function that returns a list": ["22023", '["extra"]'],
    "a function that returns a string": ["22023", '"extra"'],
    "a function that returns null in JSON": ["22023", "null"],
    "a function that leaves a field out": ["22023", '{"extr":1}'],
    "an action that is not in the catalogue": ["23503", '{"extra":1,"action":"x"}'],
    "an action that requires more": ["23514", '{"extra":1,"action":"member_added"}'],
  };
  for (
    const [cause, [error, facts = '{"extra":1}', organization = "'a'"]] of Object.entries(CAUSES)
  ) {
    it(`is an error, or counted with carry_on, and shows no value of the row: ${cause}`, async (run) => {
      await makeThings(run);
      await run`select audit_log_private.ensure_organization('closed'), audit_log_private.close_organization('closed')`;
      await run.unsafe(`create function kit.facts(jsonb) returns jsonb language plpgsql as
      $$ begin return '${facts}'; end $$`);
      const given = { data: "extra", computed: "kit.facts" };
      await logTable(run, "kit.things", given);
      const insert = () =>
        run.unsafe(`insert into kit.things values (1, ${organization}, 'secret')`);
      await run`savepoint before_it`;
      const { code, message, detail = "" } = await errorOf(insert());
      await run`rollback to before_it`;
      assertEquals([code, `${message} ${detail}`.includes("secret")], [error, false]);
      await logTable(run, "kit.things", { ...given, on_failure: "carry_on" });
      await insert();
      const failures =
        await run`select logged, failures::int, last_error from audit_log_private.logging_failures`;
      const last_error = `${error}: ${message}`;
      assertEquals([...failures], [{ logged: "kit.things", failures: 1, last_error }]);
    });
  }

  it("lets the statement go on with on_failure => carry_on, and is counted with its last message; but ends the transaction if another one caused it", async (run) => {
    await makeThings(run, { on_failure: "carry_on" });
    await run`insert into kit.things values (2, null, 'secret title')`;
    await run`update kit.things set title = 'x'`;
    await run`insert into kit.things values (1, 'a', 'logged')`;
    assertEquals((await run`select from kit.things`).length, 2);
    assertEquals(await shown(run), ["a: logged"]);
    // Also what caller() raises.
    await replaceCaller(run, "raise exception 'down';");
    await run`delete from kit.things`;
    const [failure, ...others] = await valueOf<Record<string, unknown>[]>(
      run`select audit_log_private.health() -> 'logging_failures'`,
    );
    const expected = { logged: "kit.things", failures: 3, last_error: "P0001: down" };
    assertEquals([{ ...failure, ...expected }, others], [failure, []]);
    // Caused by another transaction: its repetition is logged.
    await replaceCaller(run, "raise exception using errcode = 'serialization_failure';");
    assertEquals(await codeOf(run`insert into kit.things values (1, 'a', 'x')`), "40001");
  });
});
