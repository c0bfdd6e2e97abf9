import postgres from "postgres";

/** The demonstration data of a year takes some twenty. */
const MOST_PIECES = 100;

/** Runs the upkeep that `cron.schedule` runs on a hosted project, so that past days are sealed. */
export async function runUpkeep(databaseUrl: string): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  try {
    for (let piece = 0; piece < MOST_PIECES; piece++) {
      const [row] = await sql`select audit_log_private.run_upkeep() as more`;
      if (!row?.["more"]) break;
    }
  } finally {
    await sql.end();
  }
}
