import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { beforeAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { type Catalogue, differences, readCatalogue } from "../../tasks/migration/catalogue.ts";
import {
  firstMigrations,
  isEdited,
  releasedMigrations,
  writeMigration,
} from "../../tasks/migration/migration.ts";
import { readSchemas, type Schema } from "../../tasks/migration/schemas.ts";
import { run, scratchDatabase } from "../../tasks/migration/scratch_database.ts";
import { type Upgrade, upgradeTo } from "../../tasks/migration/upgrade.ts";
import { DATABASE_URL } from "../api.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MIGRATIONS = join(ROOT, "supabase/migrations");
const SCHEMAS = await readSchemas(join(ROOT, "supabase/schemas"));
const RELEASED = releasedMigrations(join(ROOT, "docs/releases"));
const migrations = new Map(
  Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name).sort()
    .map((file) => [file, Deno.readTextFileSync(join(MIGRATIONS, file))]),
);

/** Reads what a database has after these texts were run in it. */
async function catalogueOf(texts: Iterable<string>): Promise<Catalogue> {
  await using database = await scratchDatabase(DATABASE_URL, [...texts]);
  return await readCatalogue(database.url);
}
const newDatabase = await catalogueOf(SCHEMAS.map(({ text }) => text));

/** The schemas with a text of one file replaced. Fails where the file does not have it. */
function changed(schemas: Schema[], subject: string, from: string, to: string): Schema[] {
  assert(schemas.some((schema) => schema.subject === subject && schema.text.includes(from)), from);
  return schemas.map((schema) =>
    schema.subject === subject
      ? { ...schema, text: schema.text.replaceAll(from, () => to) }
      : schema
  );
}

describe("the migrations", () => {
  it("make the same database as the schemas", async () => {
    assertEquals(differences(await catalogueOf(migrations.values()), newDatabase), []);
  });

  it("are as the task writes them, until they are released", () => {
    if (RELEASED.length > 0) return;
    assertEquals(Object.fromEntries(migrations), firstMigrations(SCHEMAS), "deno task migration");
  });

  it("are not written over where somebody edited them", async () => {
    const path = await Deno.makeTempFile();
    const [text = ""] = Object.values(firstMigrations(SCHEMAS));
    await Deno.writeTextFile(path, text);
    await writeMigration(path, text);
    assert(!isEdited(text));
    await Deno.writeTextFile(path, `${text}-- and more\n`);
    await assertRejects(() => writeMigration(path, text), Error, "was edited");
    await Deno.remove(path);
  });
});

/** Each kind of change that a migration can make, below the object in the catalogue that tells it. */
const CHANGES: Record<string, string[]> = {
  "schema audit_log": [
    "comment on schema audit_log is 'x'",
    "grant usage on schema audit_log to anon",
  ],
  "relation audit_log.actions": [
    "comment on table audit_log.actions is 'x'",
    "grant select on audit_log.actions to anon",
    "alter table audit_log.actions set (fillfactor = 50)",
    "alter table audit_log.actions disable row level security",
  ],
  "column audit_log.actions.1 code": [
    "comment on column audit_log.actions.code is 'x'",
    "grant select (code) on audit_log.actions to anon",
    "alter table audit_log.actions alter code set statistics 0",
    "alter table audit_log.actions alter code set (n_distinct = 7)",
  ],
  "column audit_log.actions.2 description": [
    "alter table audit_log.actions alter description set default 'x'",
    "alter table audit_log.actions alter description drop not null",
  ],
  "column audit_log.actions.7 x": ["alter table audit_log.actions add x text"],
  "function audit_log.record_entries(json)": [
    "comment on function audit_log.record_entries is 'x'",
    "grant execute on function audit_log.record_entries to anon",
  ],
  "function audit_log_private.quota()": [
    "create or replace function audit_log_private.quota() returns integer language sql as 'select 7'",
    "grant create on schema audit_log_private to pg_monitor; alter function audit_log_private.quota() owner to pg_monitor",
  ],
  "type audit_log.page_query": ["comment on type audit_log.page_query is 'x'"],
  "column audit_log_private.place.3 x": [
    "alter type audit_log_private.place add attribute x text",
  ],
  "default privileges audit_log postgres r": [
    "alter default privileges in schema audit_log grant select on tables to anon",
  ],
  "constraint audit_log.actions x": [
    "alter table audit_log.actions add constraint x check (code <> 'x')",
  ],
  "relation audit_log.x": ["create index x on audit_log.actions (description)"],
  "trigger audit_log.actions change_action": [
    "alter table audit_log.actions disable trigger change_action",
  ],
  "policy audit_log.actions x": ["create policy x on audit_log.actions"],
  "row audit_log.actions y": [
    "insert into audit_log.actions (code, description) values ('y', 'y')",
  ],
};

it("the comparison of two databases sees every kind of change", async () => {
  await using database = await scratchDatabase(DATABASE_URL, SCHEMAS.map(({ text }) => text));
  let before = await readCatalogue(database.url);
  const unseen: string[] = [];
  for (const [object, statements] of Object.entries(CHANGES)) {
    for (const statement of statements) {
      await run(database.url, statement);
      const after = await readCatalogue(database.url);
      const seen = differences(before, after);
      if (!seen.some((line) => line.startsWith(`${object} `))) unseen.push(statement);
      before = after;
    }
  }
  assertEquals(unseen, []);
});

/** A released version whose `twice` is called by a function that Postgres has parsed. */
const OLD = changed(
  SCHEMAS,
  "installed",
  "create table audit_log_private.installed_functions (",
  `create function audit_log_private.twice(value integer) returns integer
language sql immutable
return value * 2;
comment on function audit_log_private.twice is 'Twice a number.';

create function audit_log_private.four_times(value integer) returns integer
language sql immutable
return audit_log_private.twice(audit_log_private.twice(value));
comment on function audit_log_private.four_times is 'Four times a number.';

create function audit_log_private.unused() returns integer
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return 1;
end $$;
comment on function audit_log_private.unused is 'Goes with the next version.';

create table audit_log_private.installed_functions (`,
);
const released = Object.values(firstMigrations(OLD));

/** A later version of a file, in which a text is replaced. One is of a function that people call, made by serve(). */
const LATER: [subject: string, from: string, to: string][] = [
  [
    "installed",
    "create function audit_log_private.unused() returns integer\nlanguage plpgsql immutable set search_path = pg_catalog, pg_temp as $$\nbegin\n  return 1;\nend $$;\ncomment on function audit_log_private.unused is 'Goes with the next version.';\n",
    "",
  ],
  [
    "installed",
    "twice(value integer) returns integer",
    "twice(value integer, more integer default 0) returns integer",
  ],
  ["installed", "'Four times a number.'", "'A number times four.'"],
  [
    "queries",
    "\n);\ncomment on type audit_log.page_query is",
    ",\n  later text\n);\ncomment on type audit_log.page_query is",
  ],
  [
    "organizations",
    "\n);\ncomment on table audit_log.organizations is",
    ",\n  note text check (note <> '')\n);\ncomment on table audit_log.organizations is",
  ],
  ["organizations", "'A customer of the platform.", "'Some customer of the platform."],
  [
    "entries",
    "create index audit_entries_action_idx",
    "create index later_idx on audit_log.audit_entries (organization_id, agent_name);\ncreate index audit_entries_action_idx",
  ],
  ["writing", "-- The catalogue is small", "-- The whole catalogue is small"],
  [
    "keys",
    "create table audit_log_private.api_key_hashes (",
    `create table audit_log_private.later (
  organization_id uuid primary key references audit_log.organizations on delete cascade
);
comment on table audit_log_private.later is 'A new table.';

create function audit_log_private.check_later() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- A comment that only the file has.
  return new;
end $$;
comment on function audit_log_private.check_later is 'A new function.';
create trigger check_later before insert on audit_log_private.later
  for each row execute function audit_log_private.check_later();

create table audit_log_private.api_key_hashes (`,
  ],
  [
    "console",
    "function audit_log_private.latest_seal(organization_id uuid) returns json",
    "function audit_log_private.latest_seal(organization_id uuid, later text default null) returns json",
  ],
  [
    "privileges",
    "grant select on audit_log.actions to service_role;",
    "grant select on audit_log.actions to service_role, authenticated;",
  ],
];
const NEXT = LATER.reduce((schemas, change) => changed(schemas, ...change), OLD);

describe("the migration to the next version", () => {
  let upgrade: Upgrade;
  const assertRefused = (next: Schema[], why: string) =>
    assertRejects(() => upgradeTo(next, released, DATABASE_URL), Error, why);
  beforeAll(async () => {
    upgrade = await upgradeTo(NEXT, released, DATABASE_URL);
  });

  it("makes an installed database like a new one, with functions as the files have them", () => {
    const { text, missing } = upgrade;
    assertEquals(missing, []);
    assertMatch(text, /-- A comment that only the file has\./);
    assertEquals(text.match(/create or replace function/gi)?.length, 6);
  });

  it("gives up rather than wait long for an open transaction, because requests wait behind it", async () => {
    await using database = await scratchDatabase(DATABASE_URL, released);
    const reader = postgres(database.url, { max: 1 });
    const waited = reader.begin(async (open) => {
      await open`select from audit_log.organizations`;
      await assertRejects(() => run(database.url, upgrade.text), Error, "due to lock timeout");
    });
    await waited.finally(() => reader.end());
  });

  it("names what the engine does not find, for a person to add", async () => {
    const statistics = changed(OLD, "entries", "n_distinct = 100", "n_distinct = 200");
    const [from, to] = ["('agent_added',", "('later', 'Later', '{}'),\n  ('agent_added',"];
    const row = changed(statistics, "entries", from, to);
    const { missing } = await upgradeTo(row, released, DATABASE_URL);
    assertEquals(missing.map((line) => line.replace(/ is .*/, "")), [
      "column audit_log.audit_entries.4 action",
      "row audit_log.actions later",
    ]);
  });

  it("refuses to touch functions that others replace", async () => {
    const caller = changed(OLD, "people", "->> 'email';", "->> 'mail';");
    const next = changed(caller, "keys", "return 60;", "return 600;");
    await assertRefused(next, "audit_log_private.caller, audit_log_private.quota");
  });

  it("refuses other signatures of what log_table and recipes call in an adopter's project", async () => {
    const recipe = changed(
      OLD,
      "organizations",
      "_gone(external_id text",
      "_gone(external_id text, more text",
    );
    const trigger = changed(recipe, "acting", "fallback_email", "other_email");
    const cut = "cut(value text, length integer";
    const next = changed(trigger, "values", `${cut})`, `${cut}, more text default '')`);
    const names = ["cut", "organization_gone", "request_context"];
    await assertRefused(next, names.map((name) => `audit_log_private.${name}`).join(", "));
  });

  it("is tried with writes to a table that was logged before", async () => {
    // The key in the comment of the trigger function.
    const names = "l.arguments -> 'change_names'";
    const next = changed(OLD, "log_table", names, "l.arguments -> 'names'");
    await assertRefused(next, "not logged as before");
  });

  it("changes nothing where an adopter has replaced a function that is not theirs, and health() names it", async () => {
    await using database = await scratchDatabase(DATABASE_URL, [
      ...released,
      "create or replace function audit_log_private.quota() returns integer language sql as 'select 600'",
      "create or replace function audit_log_private.twice(value integer) returns integer language sql immutable return 3",
    ]);
    const sql = postgres(database.url, { max: 1, onnotice: () => {} });
    const [row] = await sql`select audit_log_private.health() -> 'replaced_functions' as names`;
    await sql.end();
    assertEquals(row?.names, ["audit_log_private.twice(integer)"]);
    const before = await readCatalogue(database.url);
    const upgrading = () => run(database.url, upgrade.text);
    await assertRejects(upgrading, Error, "audit_log_private.twice(integer)");
    assertEquals(differences(before, await readCatalogue(database.url)), []);
  });
});
