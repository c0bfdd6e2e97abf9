import { parseArgs } from "node:util";
import postgres from "postgres";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { insertOf, pgbench } from "./pgbench.ts";
import { byTurns, printHead, printRow, ratios, spread } from "./report.ts";

// What a logged action costs the platform: beside a table without rules and counts, and beside supa_audit.

const { values: given } = parseArgs({
  options: {
    /** How many entries the log has before. */
    entries: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "9" },
    seconds: { type: "string", default: "3" },
    /** Path of supa_audit's SQL: supa_audit--0.3.1.sql of github.com/supabase/supa_audit. */
    "supa-audit": { type: "string" },
  },
});
const ENTRIES = Number(given.entries);
const ROUNDS = Number(given.rounds);
const SECONDS = Number(given.seconds);

const ORGANIZATIONS = Array.from(
  { length: 5 },
  (_, i) => `00000000-0000-4000-9000-00000000000${i}`,
);
const ORGANIZATION = `'${ORGANIZATIONS[0]}'`;
/** The bare table has the same columns and indexes, defaults of Postgres' own, and nothing else. */
const TABLES = { bare: "bench.entries", ours: "audit_log.audit_entries" };
type Table = keyof typeof TABLES;

await using stack = await startTemporaryStack();
const sql = postgres(stack.databaseUrl, { max: 2, onnotice: () => {} });
await makeTables();
await measureInserts();
await measureRecipes(given["supa-audit"]);
await measureDeadlocks();
await sql.end();

async function makeTables(): Promise<void> {
  await sql`
    insert into audit_log.organizations (id, name)
    select id, 'Benchmark' from unnest(${ORGANIZATIONS}::uuid[]) as id`;
  const before = `now() - (${ENTRIES} - n) * interval '30 seconds'`;
  await sql.unsafe(`
    ${manyOf(TABLES.ours, ENTRIES, before)};
    create schema bench;
    create table ${TABLES.bare} (like ${TABLES.ours} including indexes);
    alter table ${TABLES.bare}
      alter id set default gen_random_uuid(), alter transaction_id set default pg_current_xact_id();
    insert into ${TABLES.bare} select * from ${TABLES.ours}`);
  // Not in one transaction.
  await sql.unsafe(`vacuum (analyze) ${TABLES.ours}, ${TABLES.bare}`);
}

async function measureInserts(): Promise<void> {
  const alone = (table: Table, clients: number) =>
    measureTransaction(insertOf(ORGANIZATION, "clock_timestamp()", TABLES[table]), clients);
  console.log(`\nInto one organization's log of ${ENTRIES} entries, in milliseconds`);
  printHead("what", "ours", "bare", "ratio");
  const print = async (what: string, measure: (table: Table) => Promise<number>) => {
    const seen = await byTurns(ROUNDS, ["bare", "ours"] as const, measure);
    const [ours, bare] = [seen.get("ours"), seen.get("bare")];
    printRow(what, spread(ours, 2), spread(bare, 2), spread(ratios(ours, bare), 2));
  };
  await print("an entry, one client", (table) => alone(table, 1));
  await print("an entry, 16 clients", (table) => alone(table, 16));
  await print("a statement of 10,000", (table) => timeOf(manyOf(TABLES[table], 10_000)));

  console.log("\nOf 20,000 single inserts in a transaction, a thousand in milliseconds");
  printHead("table", "the first", "the last", "ratio");
  for (const table of ["bare", "ours"] as const) {
    const seen = await byTurns(Math.min(ROUNDS, 3), [table], longTransaction);
    const thousands = seen.get(table) ?? [];
    const [first, last] = [thousands.map(([one]) => one), thousands.map(([, two]) => two)];
    printRow(table, spread(first), spread(last), spread(ratios(last, first), 2));
  }
}

/** Milliseconds of a transaction, as one of so many clients sees it. */
async function measureTransaction(script: string, clients: number): Promise<number> {
  const { perSecond } = await pgbench(stack.databaseUrl, script, clients, SECONDS);
  return 1000 * clients / perSecond;
}

/** A statement that inserts many entries; their time as SQL, in which n counts up from 1. */
function manyOf(table: string, count: number, createdAt = "clock_timestamp()"): string {
  return `
    insert into ${table} (organization_id, created_at, action, user_email, agent_name, data)
    select ${ORGANIZATION}, ${createdAt}, 'message_created', 'ada@example.com', 'Assistant',
      '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'
    from generate_series(1, ${count}) as n`;
}

async function timeOf(statement: string): Promise<number> {
  const start = performance.now();
  await sql.unsafe(statement);
  return performance.now() - start;
}

/** What the first and the last thousand of 20,000 single inserts take. */
async function longTransaction(table: Table): Promise<[number, number]> {
  const insert = insertOf(ORGANIZATION, "clock_timestamp()", TABLES[table]);
  const thousands = await sql.begin(async (transaction) => {
    const times: number[] = [];
    for (let thousand = 0; thousand < 20; thousand++) {
      const start = performance.now();
      for (let n = 0; n < 1000; n++) await transaction.unsafe(insert);
      times.push(performance.now() - start);
    }
    return times;
  });
  return [thousands[0] ?? NaN, thousands[19] ?? NaN];
}

/** What triggers add to an insert into a table of messages: the log's own recipe, and supa_audit. */
async function measureRecipes(path?: string): Promise<void> {
  if (!path) return console.log("\nsupa_audit is left out: give its SQL with --supa-audit=path");
  await makeRecipes(await Deno.readTextFile(path));
  const tables = ["plain", "ours", "supa"] as const;
  type Recipe = typeof tables[number];
  const insertion = (table: Recipe, messages: number) =>
    `insert into bench.messages_${table} (author, body) ` +
    `select 'ada@example.com', 'Hello' from generate_series(1, ${messages})`;
  console.log("\nWhat logging adds to an insert of messages, in milliseconds");
  printHead("what", "the insert", "ours adds", "supa_audit adds", "ratio");
  const print = async (what: string, measure: (table: Recipe) => Promise<number>) => {
    const seen = await byTurns(ROUNDS, tables, measure);
    const plain = seen.get("plain") ?? [];
    const added = (table: Recipe) => plain.map((ms, round) => (seen.get(table)?.[round] ?? 0) - ms);
    const [ours, supa] = [added("ours"), added("supa")];
    printRow(
      what,
      spread(plain, 2),
      spread(ours, 2),
      spread(supa, 2),
      spread(ratios(ours, supa), 2),
    );
  };
  await print("a message", (table) => measureTransaction(insertion(table, 1), 1));
  await print("a message, 16 clients", (table) => measureTransaction(insertion(table, 1), 16));
  await print("a statement of 10,000", (table) => timeOf(insertion(table, 10_000)));
}

async function makeRecipes(supaAudit: string): Promise<void> {
  // Only an extension's own script may call this.
  const script = supaAudit.replaceAll(/^select pg_catalog\.pg_extension_config_dump\(.*$/gm, "");
  await sql.unsafe(`
    create extension if not exists "uuid-ossp" schema public;
    ${script}
    create table bench.messages_plain (
      id bigint generated always as identity primary key, author text not null, body text not null,
      created_at timestamptz not null default now()
    );
    create table bench.messages_ours (like bench.messages_plain including all);
    create table bench.messages_supa (like bench.messages_plain including all);
    select audit.enable_tracking('bench.messages_supa');
    create function bench.log_messages() returns trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
    begin
      insert into ${TABLES.ours} (organization_id, created_at, action, user_email, agent_name, data)
      select ${ORGANIZATION}, m.created_at, 'message_created', m.author, 'Assistant', jsonb_build_object(
        'message_id', m.id::text, 'conversation_id', 'c', 'agent_id', 'a', 'platform_agent_sid', 's'
      )
      from new_messages m;
      return null;
    end
    $$;
    create trigger log_messages after insert on bench.messages_ours referencing new table as new_messages
      for each statement execute function bench.log_messages()`);
}

/** Random transactions over five organizations and many days, beside compactions: how many deadlocks. */
async function measureDeadlocks(): Promise<void> {
  const seconds = 60;
  console.log(
    `\nRandom transactions over 5 organizations for ${seconds} s, 16 writers, beside compactions`,
  );
  const random = insertOf(
    `('00000000-0000-4000-9000-00000000000' || :organization)::uuid`,
    `now() - :day * interval '1 day'`,
    TABLES.ours,
  );
  const step = `\\set organization random(0, 4)\n\\set day random(0, 30)\n${random}\n`;
  const script = `begin;\n${step.repeat(4)}end;\n`;
  const deadlocks = async () => {
    const [row] =
      await sql`select deadlocks::int as n from pg_stat_database where datname = current_database()`;
    return row?.["n"];
  };
  const before = await deadlocks();
  let writing = true;
  let compactions = 0;
  const compactor = (async () => {
    for (; writing; compactions++) {
      await sql`
        select audit_log_private.compact_entry_counts(o) from unnest(${ORGANIZATIONS}::uuid[]) as o`;
    }
  })();
  const { transactions, failed } = await pgbench(stack.databaseUrl, script, 16, seconds);
  writing = false;
  await compactor;
  await sql`select pg_stat_clear_snapshot()`;
  const [wrong] = await sql`
    select count(*)::int as n
    from unnest(${ORGANIZATIONS}::uuid[]) as o, audit_log_private.entry_count_mismatches(o)`;
  console.log(
    `  ${transactions} transactions, ${compactions} compactions: ${
      await deadlocks() - before
    } deadlocks, ` +
      `${failed} failed, ${wrong?.["n"]} counts wrong`,
  );
}
