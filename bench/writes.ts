import type postgres from "postgres";
import { byTurns, printHead, printRow, ratios, spread } from "./report.ts";

const ORGANIZATIONS = Array.from(
  { length: 5 },
  (_, i) => `00000000-0000-4000-9000-00000000000${i}`,
);
const SECONDS = 4;

/** Inserts by 1 and 16 writers into one organization, with the counts and without, by turns. */
export async function measureWrites(
  sql: postgres.Sql,
  databaseUrl: string,
  rounds: number,
): Promise<void> {
  console.log("\nInserts a second into one organization (pgbench), one entry a transaction");
  await makeOrganizations(sql);
  const insert = insertOf(`'${ORGANIZATIONS[0]}'`, "clock_timestamp()");
  printHead("writers", "with counts, 1/s", "without, 1/s", "cost");
  for (const clients of [1, 16]) {
    const seen = await byTurns(rounds, ["enable", "disable"], async (state) => {
      await sql.unsafe(`alter table audit_log.audit_entries ${state} trigger count_inserted`);
      return (await pgbench(databaseUrl, insert, clients, SECONDS)).perSecond;
    });
    const [counted, bare] = [seen.get("enable"), seen.get("disable")];
    printRow(clients, spread(counted), spread(bare), spread(ratios(bare, counted), 2));
  }
  await sql`alter table audit_log.audit_entries enable trigger count_inserted`;
  await sql`select audit_log_private.repair_entry_counts(${ORGANIZATIONS[0] ?? ""})`;
}

/** Random transactions over five organizations and many days, beside folds: how many deadlocks. */
export async function measureDeadlocks(sql: postgres.Sql, databaseUrl: string): Promise<void> {
  const seconds = 60;
  console.log(
    `\nRandom transactions over 5 organizations for ${seconds} s, 16 writers, beside folds`,
  );
  const random = insertOf(
    `('00000000-0000-4000-9000-00000000000' || :organization)::uuid`,
    `now() - :day * interval '1 day'`,
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
  let folds = 0;
  const folder = (async () => {
    for (; writing; folds++) {
      await sql`
        select audit_log_private.compact_entry_counts(o) from unnest(${ORGANIZATIONS}::uuid[]) as o`;
    }
  })();
  const { transactions, failed } = await pgbench(databaseUrl, script, 16, seconds);
  writing = false;
  await folder;
  await sql`select pg_stat_clear_snapshot()`;
  const [errors] = await sql`
    select count(*)::int as n
    from unnest(${ORGANIZATIONS}::uuid[]) as o, audit_log_private.entry_count_mismatches(o)`;
  console.log(
    `  ${transactions} transactions, ${folds} folds: ${await deadlocks() - before} deadlocks, ` +
      `${failed} failed, ${errors?.["n"]} counts wrong`,
  );
}

async function makeOrganizations(sql: postgres.Sql): Promise<void> {
  for (const id of ORGANIZATIONS) {
    await sql`
      insert into audit_log.organizations (id, name) values (${id}, 'Benchmark writes')
      on conflict do nothing`;
  }
}

/** A statement that inserts one entry; its organization and time as SQL. */
export function insertOf(organization: string, createdAt: string): string {
  return "insert into audit_log.audit_entries " +
    "(organization_id, created_at, action, user_email, agent_name, data) values " +
    `(${organization}, ${createdAt}, 'message_created', 'ada@example.com', 'Assistant', ` +
    `'{"message_id":"m","conversation_id":"c","agent_id":"a","platform_agent_sid":"s"}');`;
}

/** Runs a script for some seconds, once a transaction. */
export async function pgbench(
  databaseUrl: string,
  script: string,
  clients: number,
  seconds: number,
) {
  const path = await Deno.makeTempFile({ suffix: ".sql" });
  await Deno.writeTextFile(path, script);
  const command = new Deno.Command("pgbench", {
    args: [databaseUrl, "-n", "-c", `${clients}`, "-j", "2", "-T", `${seconds}`, "-f", path],
  });
  const { success, stdout, stderr } = await command.output().catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Error("pgbench is missing: install Debian's postgresql-contrib");
  });
  await Deno.remove(path);
  const text = new TextDecoder().decode(stdout);
  if (!success) throw new Error(text + new TextDecoder().decode(stderr));
  const number = (pattern: RegExp) => Number(text.match(pattern)?.[1]);
  return {
    perSecond: number(/tps = ([\d.]+)/),
    transactions: number(/transactions actually processed: (\d+)/),
    failed: number(/failed transactions: (\d+)/),
  };
}
