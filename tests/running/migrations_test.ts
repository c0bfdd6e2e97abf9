// Needs a stack.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import type postgres from "postgres";
import { firstMigrations, readSchemas, releasedMigrations } from "../../dev/tasks/migration.ts";
import { MIGRATIONS, withDatabase } from "../helpers/scratch_database.ts";

const CATALOGUE = await Deno.readTextFile(new URL("catalogue.sql", import.meta.url));

const schemas = await readSchemas();
const texts = schemas.map(({ text }) => text);
/** Each object of a database, with all that a migration can set of it, as text. */
type Catalogue = Map<string, string>;

async function readCatalogue(sql: postgres.Sql): Promise<Catalogue> {
  // The answer of its last statement.
  const rows = (await sql.unsafe<postgres.Row[][]>(CATALOGUE)).at(-1) ?? [];
  return new Map(rows.map(({ object, facts }) => [object, JSON.stringify(facts)]));
}

/** What is not the same in another database. */
function different(catalogue: Catalogue, other: Catalogue) {
  return [...catalogue].filter(([object, facts]) => other.get(object) !== facts);
}

it("the migrations make the same database as the schemas", async () => {
  const migrated = await withDatabase(Object.values(MIGRATIONS), readCatalogue);
  const declared = await withDatabase(texts, readCatalogue);
  assertEquals(different(migrated, declared), different(declared, migrated));
});

it("the migrations are as the task writes them, until they are released", () => {
  if (releasedMigrations().length > 0) return;
  assertEquals(MIGRATIONS, firstMigrations(schemas), "deno task migration");
});

/** Each kind of change that a migration can make, after the object in the catalogue that tells it. */
const CHANGES = `
schema audit_log: comment on schema audit_log is 'x'
schema audit_log: grant usage on schema audit_log to anon
relation audit_log.actions: comment on table audit_log.actions is 'x'
relation audit_log.actions: grant select on audit_log.actions to anon
relation audit_log.actions: alter table audit_log.actions set (fillfactor = 50)
relation audit_log.actions: alter table audit_log.actions disable row level security
column audit_log.actions.1 code: comment on column audit_log.actions.code is 'x'
column audit_log.actions.1 code: grant select (code) on audit_log.actions to anon
column audit_log.actions.1 code: alter table audit_log.actions alter code set statistics 0
column audit_log.actions.1 code: alter table audit_log.actions alter code set (n_distinct = 7)
column audit_log.actions.2 description: alter table audit_log.actions alter description set default 'x'
column audit_log.actions.2 description: alter table audit_log.actions alter description drop not null
column audit_log.actions.9 x: alter table audit_log.actions add x text
function audit_log.record_entries(jsonb): comment on function audit_log.record_entries is 'x'
function audit_log.record_entries(jsonb): grant execute on function audit_log.record_entries to anon
function audit_log_private.quota(): create or replace function audit_log_private.quota() returns integer language sql as 'select 7'
function audit_log_private.quota(): grant create on schema audit_log_private to pg_monitor; alter function audit_log_private.quota() owner to pg_monitor
type audit_log.page_query: comment on type audit_log.page_query is 'x'
column audit_log_private.place.3 x: alter type audit_log_private.place add attribute x text
default privileges audit_log postgres r: alter default privileges in schema audit_log grant select on tables to anon
constraint audit_log.actions x: alter table audit_log.actions add constraint x check (code <> 'x')
relation audit_log.x: create index x on audit_log.actions (description)
trigger audit_log.actions change_action: alter table audit_log.actions disable trigger change_action
policy audit_log.actions x: create policy x on audit_log.actions
row audit_log.actions y: insert into audit_log.actions (code, description) values ('y', 'y')`;

it("the comparison of two databases sees every kind of change", async () => {
  const unseen = await withDatabase(texts, async (sql) => {
    let before = await readCatalogue(sql);
    const unseen: string[] = [];
    for (const [, object = "", statement = ""] of CHANGES.matchAll(/^(.+): (.+)$/gm)) {
      await sql.unsafe(statement);
      const after = await readCatalogue(sql);
      if (before.get(object) === after.get(object)) unseen.push(statement);
      before = after;
    }
    return unseen;
  });
  assertEquals(unseen, []);
});
