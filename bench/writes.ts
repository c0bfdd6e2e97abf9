import type { Sql } from "../tests/project.ts";
import { byTurns, printHead, printRow, ratios, spread } from "./report.ts";
import { type BenchOptions, type BenchStack, costOf, startBenchStack } from "./stack.ts";

type Run = BenchOptions & BenchStack;

const ID = "00000000-0000-4000-9000-000000000000";
/** The bare table has the same columns and indexes, defaults of Postgres' own, and nothing else. */
const TABLES = { bare: "bench.entries", ours: "audit_log.audit_entries" };
type Table = keyof typeof TABLES;
const COLUMNS = "(organization_id, created_at, action, user_email, agent_name, data)";
/** An entry's values after its organization and time. */
const VALUES = `'message_created', 'ada@example.com', 'Assistant',
  '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'`;

/** Compares writes with those into a table without rules and counts, and with supa_audit's. */
export async function measureWrites(options: BenchOptions): Promise<void> {
  await using stack = await startBenchStack();
  const run = { ...options, ...stack };
  await makeTables(run);
  await measureInserts(run);
  await measureLongTransactions(run);
  await measureLogged(run);
}

async function makeTables({ sql, entries }: Run): Promise<void> {
  await sql`insert into audit_log.organizations (id, external_id, name) values (${ID}, 'benchmark', 'Benchmark')`;
  await sql.unsafe(`
    ${manyOf(TABLES.ours, entries, `now() - (${entries} - n) * interval '30 seconds'`)};
    create schema bench;
    create table ${TABLES.bare} (like ${TABLES.ours} including indexes);
    alter table ${TABLES.bare}
      alter id set default gen_random_uuid(), alter transaction_id set default pg_current_xact_id();
    insert into ${TABLES.bare} select * from ${TABLES.ours}`);
  // Vacuum cannot run in a transaction.
  await sql.unsafe(`vacuum (analyze) ${TABLES.ours}, ${TABLES.bare}`);
}

async function measureInserts(run: Run): Promise<void> {
  console.log(`\nInto one organization's log of ${run.entries} entries, in milliseconds`);
  printHead("what", "ours", "bare", "ratio");
  const print = async (what: string, measure: (table: Table) => Promise<number>) => {
    const seen = await byTurns(run.rounds, ["bare", "ours"] as const, measure);
    const [ours, bare] = [seen.get("ours"), seen.get("bare")];
    printRow(what, spread(ours, 2), spread(bare, 2), spread(ratios(ours, bare), 2));
  };
  const alone = (clients: number) => (table: Table) =>
    measureTransaction(run, insertOf(table), clients);
  await print("an entry, one client", alone(1));
  await print("an entry, 16 clients", alone(16));
  await print("a statement of 10,000", (table) => timeOf(run, manyOf(TABLES[table], 10_000)));
}

/** Lets so many clients run a script of one transaction. Returns how many milliseconds a client waits for it. */
async function measureTransaction(
  { databaseUrl, seconds }: Run,
  script: string,
  clients: number,
): Promise<number> {
  const path = await Deno.makeTempFile({ suffix: ".sql" });
  await Deno.writeTextFile(path, script);
  const args = [databaseUrl, "-n", "-c", `${clients}`, "-j", "2", "-T", `${seconds}`, "-f", path];
  const pgbench = await new Deno.Command("pgbench", { args, stderr: "inherit" }).output();
  await Deno.remove(path);
  if (!pgbench.success) throw new Error(`pgbench failed: exit code ${pgbench.code}`);
  const [, tps] = new TextDecoder().decode(pgbench.stdout).match(/tps = ([\d.]+)/) ?? [];
  return 1000 * clients / Number(tps);
}

function insertOf(table: Table): string {
  return `insert into ${TABLES[table]} ${COLUMNS} values ('${ID}', clock_timestamp(), ${VALUES})`;
}

/** A statement that inserts many entries. `createdAt` is SQL of their time, in which n counts up from 1. */
function manyOf(table: string, count: number, createdAt = "clock_timestamp()"): string {
  return `insert into ${table} ${COLUMNS}
    select '${ID}', ${createdAt}, ${VALUES} from generate_series(1, ${count}) as n`;
}

async function timeOf({ sql }: Run, statement: string): Promise<number> {
  const start = performance.now();
  await sql.unsafe(statement);
  return performance.now() - start;
}

/** Prints whether a transaction becomes slower while it inserts entries one by one. */
async function measureLongTransactions(run: Run): Promise<void> {
  console.log("\nOf 20,000 single inserts in a transaction, a thousand in milliseconds");
  printHead("table", "the first", "the last", "ratio");
  const seen = await byTurns(run.rounds, ["bare", "ours"] as const, (table) => {
    return run.sql.begin(async (transaction) => {
      const times: number[] = [];
      for (let thousand = 0; thousand < 20; thousand++) {
        const start = performance.now();
        for (let n = 0; n < 1000; n++) await transaction.unsafe(insertOf(table));
        times.push(performance.now() - start);
      }
      return times;
    });
  });
  for (const [table, thousands] of seen) {
    const [first, last] = [0, 19].map((n) => thousands.map((times) => times[n] ?? NaN));
    printRow(table, spread(first), spread(last), spread(ratios(last, first), 2));
  }
}

/** Tables of messages, and how each is logged. `hand` is a trigger that somebody would write for this table alone. */
const LOGGED = {
  plain: "",
  hand:
    `create trigger log_messages after insert on bench.messages_hand referencing new table as new_messages
    for each statement execute function bench.log_messages()`,
  ours: logTable("ours", "refuse", "author, body"),
  carry_on: logTable("carry_on", "carry_on", "author, body"),
  without_changes: logTable("without_changes", "refuse", ""),
};
type Logged = keyof typeof LOGGED | "supa";

function logTable(table: string, onFailure: string, changes: string): string {
  return `select audit_log_private.log_table('bench.messages_${table}', on_failure => '${onFailure}',
    organization => $$'benchmark'$$, agent_name => $$'Assistant'$$, person => 'author',
    on_insert => 'message_created', on_update => 'message_created', changes => '${changes}',
    data => $$id as message_id, 'c' as conversation_id, 'a' as agent_id, 's' as platform_agent_sid$$)`;
}

const messageInto = (table: Logged, messages: number) =>
  `insert into bench.messages_${table} (author, body) ` +
  `select 'ada@example.com', 'Hello' from generate_series(1, ${messages})`;
/** Updates the first messages of a table. */
const updateOf = (table: Logged, column: string, messages: number) =>
  `update bench.messages_${table} set ${column} = md5(clock_timestamp()::text) where id <= ${messages}`;
const HEADERS = `{"x-forwarded-for":"203.0.113.7","user-agent":"${"x".repeat(100)}"}`;

/** Prints the prices of log_table, and what it and supa_audit add to an insert of messages. */
async function measureLogged(run: Run): Promise<void> {
  await makeLoggedTables(run.sql);
  console.log("\nA table that log_table logs, in milliseconds of processor time");
  printHead("what", "log_table", "compared with", "ratio");
  const print = async (
    what: string,
    [logged, other]: [Logged, Logged],
    measure: (table: Logged) => Promise<number>,
  ) => {
    const seen = await byTurns(run.rounds, [logged, other], measure);
    const [ours, theirs] = [seen.get(logged), seen.get(other)];
    const compared = `${other}: ${spread(theirs, 3)}`;
    printRow(`${what}, ${logged}`, spread(ours, 3), compared, spread(ratios(ours, theirs), 2));
  };
  const cost = (statement: (table: Logged) => string, calls: number) => (table: Logged) =>
    costOf(run, statement(table), calls);
  const one = cost((table) => messageInto(table, 1), 2_000);
  const inRequest = (table: Logged) =>
    `perform set_config('request.headers', '${HEADERS}', true); ${messageInto(table, 1)}`;
  const update = (column: string) => async (table: Logged) => {
    // A plan for one row must not be kept for many.
    for (let n = 0; n < 6; n++) await run.sql.unsafe(updateOf(table, column, 1));
    return await costOf(run, updateOf(table, column, 10_000), 1);
  };
  await print("a message", ["ours", "hand"], one);
  await print("a message", ["carry_on", "hand"], one);
  await print("a message in a request", ["ours", "hand"], cost(inRequest, 2_000));
  const many = cost((table) => messageInto(table, 10_000), 1);
  await print("a statement of 10,000", ["ours", "hand"], many);
  for (const table of ["plain", "without_changes"] as const) {
    await run.sql.unsafe(messageInto(table, 10_000));
  }
  await print("an update of 10,000", ["ours", "without_changes"], update("body"));
  await print("10,000, nothing of interest", ["ours", "plain"], update("note"));
  const oneNote = cost((table) => updateOf(table, "note", 1), 2_000);
  await print("1, nothing of interest", ["ours", "plain"], oneNote);
  await measureSupaAudit(run);
}

async function measureSupaAudit(run: Run): Promise<void> {
  if (!run.supaAudit) {
    return console.log("\nsupa_audit is left out: give its SQL with --supa-audit=path");
  }
  // Only an extension's own script may call this.
  const script = (await Deno.readTextFile(run.supaAudit))
    .replaceAll(/^select pg_catalog\.pg_extension_config_dump\(.*$/gm, "");
  await run.sql.unsafe(`
    create extension if not exists "uuid-ossp" schema public;
    ${script}
    create table bench.messages_supa (like bench.messages_plain including all);
    select audit.enable_tracking('bench.messages_supa')`);
  console.log("\nWhat logging adds to an insert of messages, in milliseconds");
  printHead("what", "the insert", "ours adds", "supa_audit adds", "ratio");
  const print = async (what: string, measure: (table: Logged) => Promise<number>) => {
    const seen = await byTurns(run.rounds, ["plain", "ours", "supa"], measure);
    const plain = seen.get("plain") ?? [];
    const added = (table: Logged) => plain.map((ms, round) => (seen.get(table)?.[round] ?? 0) - ms);
    const [ours, supa] = [added("ours"), added("supa")];
    const cells = [plain, ours, supa, ratios(ours, supa)].map((each) => spread(each, 2));
    printRow(what, ...cells);
  };
  const one = (clients: number) => (table: Logged) =>
    measureTransaction(run, messageInto(table, 1), clients);
  await print("a message", one(1));
  await print("a message, 16 clients", one(16));
  await print("a statement of 10,000", (table) => timeOf(run, messageInto(table, 10_000)));
}

async function makeLoggedTables(sql: Sql): Promise<void> {
  await sql.unsafe(`
    create function bench.log_messages() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
    begin
      insert into ${TABLES.ours} ${COLUMNS}
      select
        o.id, m.created_at, 'message_created', coalesce(audit_log_private.valid_email(m.author), 'unknown@invalid'),
        audit_log_private.name_or_unnamed('Assistant'), jsonb_build_object(
          'message_id', audit_log_private.cut(m.id::text, 100), 'conversation_id', 'c', 'agent_id', 'a', 'platform_agent_sid', 's'
        )
      from new_messages m left join audit_log.organizations o on o.external_id = 'benchmark';
      return null;
    end
    $$`);
  for (const [table, log] of Object.entries(LOGGED)) {
    await sql.unsafe(`
      create table bench.messages_${table} (
        id bigint generated always as identity primary key, author text not null, body text not null,
        note text, created_at timestamptz not null default now()
      );
      ${log}`);
  }
}
