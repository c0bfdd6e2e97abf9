import type postgres from "postgres";

/** Runs the upkeep to its end; the seconds that all of it and its longest piece took. */
export async function runUpkeep(sql: postgres.Sql) {
  const start = performance.now();
  let [pieces, longest] = [0, 0];
  for (let more = true; more; pieces++) {
    const begin = performance.now();
    const [row] = await sql`select audit_log_private.run_upkeep() as more`;
    more = row?.["more"];
    longest = Math.max(longest, (performance.now() - begin) / 1000);
  }
  return { seconds: (performance.now() - start) / 1000, pieces, longest };
}
