import type { Run, Sql } from "../harness/project.ts";
import { runCommand } from "../local/run_command.ts";
import { compare, printHead } from "./report.ts";
import type { Bench } from "./stack.ts";

const ID = "00000000-0000-4000-9000-000000000000";
/** The bare table has the same columns and indexes, defaults of Postgres' own, and nothing else. */
const TABLES = {
  bare: "bench.entries",
  ours: "audit_log.audit_entries",
};
type Table = keyof typeof TABLES;
const COLUMNS = "(organization_id, created_at, action, user_email, agent_name, data)";
/** An entry's values after its organization and time. */
const VALUES = `'message_created', 'ada@example.com', 'Assistant',
  '{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}'`;

/** Compares writes into the log with those into a bare table. */
export async function measureWrites(bench: Bench): Promise<void> {
  const { sql, databaseUrl, rounds, entries } = bench;
  await makeTables(bench);
  const size = entries.toLocaleString("en");
  const title = `Milliseconds of inserts into one organization's log of ${size} entries`;
  printHead(`${title}, ${rounds} rounds`, "what", "bare", "ours", "ratio", "bound");
  const tables = ["bare", "ours"] as const;
  const alone = (clients: number) => (table: Table) =>
    measureTransaction(databaseUrl, insertOf(table), clients);
  await compare(rounds, "an entry, one client", tables, alone(1), { most: 1.45 });
  await compare(rounds, "an entry, 16 clients", tables, alone(16), { most: 1.75 });
  const many = (table: Table) => timeOf(sql, manyOf(TABLES[table], 10_000));
  await compare(rounds, "a statement of 10,000", tables, many, { most: 1.4 });
  const slowdown = (table: Table) => slowdownOf(sql, table);
  const what = "the last thousand of 20,000 in a transaction, for each of the first";
  await compare(rounds, what, tables, slowdown, { most: 1.2 });
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

/** Lets so many clients run a script of one transaction. Returns how many milliseconds a client waits for it. */
export async function measureTransaction(
  databaseUrl: string,
  script: string,
  clients: number,
): Promise<number> {
  const path = await Deno.makeTempFile({ suffix: ".sql" });
  await Deno.writeTextFile(path, script);
  const args = [databaseUrl, "-n", "-c", `${clients}`, "-j", "2", "-T", "2", "-f", path];
  const printed = await runCommand("pgbench", { args }).finally(() => Deno.remove(path));
  const [, tps] = printed.match(/tps = ([\d.]+)/) ?? [];
  return 1000 * clients / Number(tps);
}

export function insertOf(table: Table, organization = ID): string {
  return `insert into ${TABLES[table]} ${COLUMNS}
    values ('${organization}', clock_timestamp(), ${VALUES})`;
}

/** A statement that inserts many entries. `createdAt` is SQL of their time, in which n counts up from 1. */
function manyOf(table: string, count: number, createdAt = "clock_timestamp()"): string {
  return `insert into ${table} ${COLUMNS}
    select '${ID}', ${createdAt}, ${VALUES} from generate_series(1, ${count}) as n`;
}

export async function timeOf(run: Run, statement: string): Promise<number> {
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
