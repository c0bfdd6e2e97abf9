import postgres from "postgres";

/** What a database has of ours: each object with all that a migration can set of it, as text. */
export type Catalogue = Map<string, string>;

const QUERY = await Deno.readTextFile(new URL("catalogue.sql", import.meta.url));

export async function readCatalogue(databaseUrl: string): Promise<Catalogue> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  try {
    // The answer of its last statement.
    const rows = (await sql.unsafe<postgres.Row[][]>(QUERY)).at(-1) ?? [];
    return new Map(rows.map(({ object, facts }) => [object, JSON.stringify(facts)]));
  } finally {
    await sql.end();
  }
}

/** Names the objects in which two databases differ, and says how. */
export function differences(from: Catalogue, to: Catalogue): string[] {
  return [...new Set([...from.keys(), ...to.keys()])].sort().flatMap((object) => {
    const [before, after] = [from.get(object), to.get(object)];
    if (before === after) return [];
    if (before === undefined) return [`${object} is missing`];
    if (after === undefined) return [`${object} is too much`];
    return [`${object} is ${before}, not ${after}`];
  });
}
