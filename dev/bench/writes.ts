import type { Run, Sql } from "../harness/project.ts";
import { printRatio, printRatios } from "./report.ts";
import type { Bench } from "./stack.ts";

const ID = "00000000-0000-4000-9000-000000000000";
/** The bare table has the same columns and indexes, defaults of Postgres' own, and nothing else. */
const TABLES = { bare: "bench.entries", ours: "audit_log.audit_entries" };
type Table = keyof typeof TABLES;
const COLUMNS = "(organization_id, created_at, action, user_email, agent_name, data)";
/** An entry's values after its organization and time. */
export const VALUES = `'message_created', 'ada@example.com', 'Assistant',
  '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'`;

const SECONDS = 2;

/** Compares writes with those into a table without rules and counts, and with supa_audit's. */
export async function measureWrites(bench: Bench): Promise<void> {
  await makeTables(bench);
  await measureInserts(bench);
  await measureLogged(bench);
}

async function makeTables({ sql, entries }: Bench): Promise<void> {
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

async function measureInserts({ sql, databaseUrl, rounds, entries }: Bench): Promise<void> {
  const size = entries.toLocaleString("en");
  printRatios(`Milliseconds of inserts into one organization's log of ${size} entries`, rounds);
  const tables = ["ours", "bare"] as const;
  const alone = (clients: number) => (table: Table) =>
    measureTransaction(databaseUrl, insertOf(table), clients);
  await printRatio(rounds, "an entry, one client", tables, alone(1), 1.9);
  await printRatio(rounds, "an entry, 16 clients", tables, alone(16), 2.4);
  const many = (table: Table) => timeOf(sql, manyOf(TABLES[table], 10_000));
  await printRatio(rounds, "a statement of 10,000", tables, many, 1.4);
  const slowdown = (table: Table) => slowdownOf(sql, table);
  const what = "the last thousand of 20,000 in a transaction, for each of the first";
  await printRatio(rounds, what, tables, slowdown, "flat");
}

/** Lets so many clients run a script of one transaction. Returns how many milliseconds a client waits for it. */
export async function measureTransaction(
  databaseUrl: string,
  script: string,
  clients: number,
): Promise<number> {
  const path = await Deno.makeTempFile({ suffix: ".sql" });
  await Deno.writeTextFile(path, script);
  const args = [databaseUrl, "-n", "-c", `${clients}`, "-j", "2", "-T", `${SECONDS}`, "-f", path];
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

async function timeOf(run: Run, statement: string): Promise<number> {
  const start = performance.now();
  await run.unsafe(statement);
  return performance.now() - start;
}

/** How many times longer the last thousand of 20,000 inserts in a transaction takes than the first. */
async function slowdownOf(sql: Sql, table: Table): Promise<number> {
  return await sql.begin(async (transaction) => {
    const times: number[] = [];
    for (let n = 0; n < 20_000; n++) times.push(await timeOf(transaction, insertOf(table)));
    const sum = (part: number[]) => part.reduce((total, time) => total + time);
    return sum(times.slice(-1000)) / sum(times.slice(0, 1000));
  });
}

/** Tables of messages: as they are, and logged. */
type Messages = "plain" | "ours" | "supa_audit";

const LOG_TABLE = `select audit_log_private.log_table('bench.messages_ours', on_failure => 'refuse',
    organization => 'organization', agent_name => 'agent', person => 'author', on_insert => 'message_created',
    data => 'id as message_id, conversation_id, agent_id, platform_agent_sid')`;

async function measureLogged({ sql, databaseUrl, rounds, supaAudit }: Bench): Promise<void> {
  if (!supaAudit) {
    return console.log("\nsupa_audit is left out: give its SQL with --supa-audit=path");
  }
  // Only an extension's own script may call this.
  const script = (await Deno.readTextFile(supaAudit))
    .replaceAll(/^select pg_catalog\.pg_extension_config_dump\(.*$/gm, "");
  await sql.unsafe(`create extension if not exists "uuid-ossp" schema public; ${script}`);
  const logs = {
    plain: "",
    ours: LOG_TABLE,
    supa_audit: "select audit.enable_tracking('bench.messages_supa_audit')",
  };
  for (const [messages, log] of Object.entries(logs)) {
    await sql.unsafe(`
      create table bench.messages_${messages} (
        id bigint generated always as identity primary key, author text not null, body text not null,
        organization text not null default 'benchmark', agent text not null default 'Assistant',
        conversation_id text not null default 'c', agent_id text not null default 'a',
        platform_agent_sid text not null default 's'
      );
      ${log}`);
  }
  printRatios("Milliseconds that logging adds to an insert of messages", rounds);
  const tables = ["ours", "supa_audit"] as const;
  const added = (measure: (messages: Messages) => Promise<number>) => async (messages: Messages) =>
    await measure(messages) - await measure("plain");
  const insertion = (messages: Messages, count: number) =>
    `insert into bench.messages_${messages} (author, body)
    select 'ada@example.com', 'Hello' from generate_series(1, ${count})`;
  const alone = (clients: number) =>
    added((messages) => measureTransaction(databaseUrl, insertion(messages, 1), clients));
  await printRatio(rounds, "a message", tables, alone(1), 0.75);
  await printRatio(rounds, "a message, 16 clients", tables, alone(16));
  const many = added((messages) => timeOf(sql, insertion(messages, 10_000)));
  await printRatio(rounds, "a statement of 10,000", tables, many);
}
