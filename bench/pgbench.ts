/** A statement that inserts one entry; its organization and time as SQL. */
export function insertOf(
  organization: string,
  createdAt: string,
  table = "audit_log.audit_entries",
): string {
  return `insert into ${table} ` +
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
