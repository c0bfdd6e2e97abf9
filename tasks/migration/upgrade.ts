import { loadModule, type Node, parse, type ParseResult } from "libpg-query";
import postgres from "postgres";
import { supabase } from "../../local/supabase_cli.ts";
import { type Catalogue, differences, readCatalogue } from "./catalogue.ts";
import { PRIVILEGES, type Schema } from "./schemas.ts";
import { run, scratchDatabase } from "./scratch_database.ts";

/** A migration from what is released to what the schemas say. */
export interface Upgrade {
  text: string;
  /** What a database that was upgraded with it still lacks: a person adds it to the text. */
  missing: string[];
}

const RECIPES = new URL("../../examples/adopting/", import.meta.url);

const FIRST_STATEMENTS =
  `-- Otherwise customers' writes would wait behind a change that waits for a lock. If it fails, push again.
set local lock_timeout = '5s';

select audit_log_private.refuse_replaced_functions();`;

/** As adopters do: an upgrade must get along with the functions that this makes. */
const LOGGED = `
  insert into audit_log.organizations (external_id, name) values ('acme', 'Acme');
  create table public.documents (id uuid primary key, owner text, title text);
  create table public.notes (owner text);
  insert into public.documents values (gen_random_uuid(), 'acme', 'Old');
  select audit_log_private.log_table(
    'public.documents', on_failure => 'refuse', organization => 'owner', agent_name => 'title', person => 'owner',
    on_insert => 'agent_added', on_update => 'agent_added', on_delete => 'agent_added',
    data => 'id, title', changes => 'title'
  );
  select audit_log_private.log_table(
    'public.notes', on_failure => 'carry_on', organization => 'owner', on_insert => 'agent_added'
  );`;

/** Three entries. */
const WRITES = `
  insert into public.documents values (gen_random_uuid(), 'acme', 'One');
  update public.documents set title = 'Two';
  delete from public.documents;`;

/** What was logged before the upgrade is logged after it: also while a column has a new name, and made anew. */
const TRIAL = `
  select audit_log_private.backfill_table('public.documents', at => 'null');
  delete from public.documents;
  ${WRITES}
  alter table public.documents rename owner to organization;
  ${WRITES}
  select audit_log_private.follow_renames();
  ${WRITES}
  insert into public.notes values ('nobody');
  do $$ begin
    assert (select (count(*), count(data -> 'changes')) = (11, 3) from audit_log.audit_entries)
      and (select sum(f.failures) = 1 from audit_log_private.logging_failures f)
      and not exists (select from audit_log_private.logging_problems()),
      'tables that log_table logged before this migration are not logged as before';
  end $$;
  select audit_log_private.unlog_table('public.documents'), audit_log_private.unlog_table('public.notes');`;

/**
 * Writes the migration that makes an installed database like a new one. Functions come whole from the schema files.
 * The rest, and the order, is what the Supabase CLI's engine finds. It is tried on a database that logs tables.
 *
 * @throws {Error} if a function that others have replaced or call would change, or the trial fails.
 */
export async function upgradeTo(
  schemas: Schema[],
  released: string[],
  databaseUrl: string,
): Promise<Upgrade> {
  await using from = await scratchDatabase(databaseUrl, released);
  await using to = await scratchDatabase(databaseUrl, schemas.map(({ text }) => text));
  await using upgraded = await scratchDatabase(databaseUrl, [...released, LOGGED]);
  const [before, after] = [await readCatalogue(from.url), await readCatalogue(to.url)];
  const made = [...await readCatalogue(upgraded.url)].filter(([object]) => !before.has(object));
  await refuseChangesForAdopters(before, after, `${made}`, to.url);

  const functions = await functionTexts(schemas);
  const drafted = await statements(await draft(from.url, to.url));
  const changes = drafted.flatMap((statement) => verbatim(statement, drafted, functions));
  const privileges = schemas.find(({ subject }) => subject === PRIVILEGES)?.text ?? "";
  const text = [FIRST_STATEMENTS, ...changes, privileges].join("\n\n");

  await run(upgraded.url, text, TRIAL);
  return { text, missing: differences(await readCatalogue(upgraded.url), after) };
}

/** Adopters have replaced some functions, and what log_table and the recipes made in their projects calls others. */
async function refuseChangesForAdopters(
  before: Catalogue,
  after: Catalogue,
  made: string,
  databaseUrl: string,
): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1 });
  const [{ replaced }] = await sql<[{ replaced: string[] }]>`
    select array(select 'audit_log_private.' || unnest(audit_log_private.replaceable_functions())) as replaced`;
  await sql.end();
  const recipes = Array.from(
    Deno.readDirSync(RECIPES),
    ({ name }) => Deno.readTextFileSync(new URL(name, RECIPES)),
  );
  const called = new Set(`${made} ${recipes}`.match(/audit_log(_private)?\.\w+(?=\()/g));
  const isChanged = (name: string, part: RegExp) => {
    const parts = (catalogue: Catalogue) =>
      [...catalogue].filter(([object]) => object.startsWith(`function ${name}(`))
        .map(([, facts]) => facts.match(part)?.[0]);
    return parts(before).join() !== parts(after).join();
  };
  const changed = [
    ...replaced.filter((name) => isChanged(name, /.*/)),
    ...[...called].filter((name) => isChanged(name, /.*? LANGUAGE /)).sort(),
  ];
  if (changed.length === 0) return;
  throw new Error(
    `${changed.join(", ")} cannot change any more, because others have replaced them ` +
      `(replaceable_functions) or call them with these parameters and results (log_table, recipes): ` +
      `take the change back, and add another function`,
  );
}

/** Asks the Supabase CLI's engine what to change. It needs no Docker between two addresses. */
async function draft(from: string, to: string): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".sql" });
  try {
    await supabase(
      "db",
      "diff",
      "--use-pg-delta",
      `--from=${from}`,
      `--to=${to}`,
      `--output=${file}`,
    );
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(file);
  }
}

interface Statement {
  text: string;
  /** Such as `CreateFunctionStmt`, as Postgres's parser calls it. */
  kind: string;
  functionName: string | undefined;
}

async function statements(text: string): Promise<Statement[]> {
  // The parser refuses a text without statements.
  if (text.trim() === "") return [];
  await loadModule();
  const bytes = new TextEncoder().encode(text);
  const { stmts = [] } = await parse(text) as ParseResult;
  return stmts.flatMap(({ stmt, stmt_location: start = 0, stmt_len: length }) => {
    if (!stmt) return [];
    const end = length === undefined ? bytes.length : start + length;
    return [{
      text: `${new TextDecoder().decode(bytes.subarray(start, end)).trim()};`,
      kind: Object.keys(stmt)[0] ?? "",
      functionName: functionName(stmt),
    }];
  });
}

function functionName(statement: Node): string | undefined {
  if ("CreateFunctionStmt" in statement) return qualified(statement.CreateFunctionStmt.funcname);
  if (!("CommentStmt" in statement) || statement.CommentStmt.objtype !== "OBJECT_FUNCTION") return;
  const { object } = statement.CommentStmt;
  return object && "ObjectWithArgs" in object
    ? qualified(object.ObjectWithArgs.objname)
    : undefined;
}

function qualified(names: Node[] = []): string {
  return names.map((name) => "String" in name ? name.String.sval : "").join(".");
}

interface FunctionText {
  create: string;
  comment: string;
}

/** Finds the text of each function and of its comment in the schema files, by its qualified name. */
async function functionTexts(schemas: Schema[]): Promise<Map<string, FunctionText>> {
  const functions = new Map<string, FunctionText>();
  for (const { text } of schemas) {
    for (const { text: statement, kind, functionName } of await statements(text)) {
      if (functionName === undefined) continue;
      const found = functions.get(functionName) ?? { create: "", comment: "" };
      if (kind === "CommentStmt") found.comment = statement;
      else found.create = statement.replace(/^create function/, "create or replace function");
      functions.set(functionName, found);
    }
  }
  return functions;
}

/** What a migration has in the place of a drafted statement. Privileges come at the end, all at once. */
function verbatim(
  { kind, functionName, text }: Statement,
  drafted: Statement[],
  functions: Map<string, FunctionText>,
): string[] {
  if (kind === "GrantStmt") return [];
  const ours = functionName === undefined ? undefined : functions.get(functionName);
  if (!ours) return [text];
  if (kind === "CreateFunctionStmt") return [`${ours.create}\n${ours.comment}`];
  const isMade = drafted.some((other) =>
    other.kind === "CreateFunctionStmt" && other.functionName === functionName
  );
  return isMade ? [] : [ours.comment];
}
