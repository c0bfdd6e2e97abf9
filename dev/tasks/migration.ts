// deno task migration writes supabase/migrations from supabase/schemas, until a version is released.

import { globSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The source of the database: a folder a room, a file a subject. No file names anything that a later one makes. */
export interface Schema {
  file: string;
  text: string;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MIGRATIONS = join(ROOT, "supabase/migrations");

/** The functions that an adopter replaces have a migration of their own. */
const SEAM = "1_log/04_people.sql";

/** What each migration has. Privileges end it, so that an installation that stops halfway opens nothing. */
const FIRST: Record<string, (file: string) => boolean> = {
  "20261127000001_audit_log.sql": (file) => /^[1-7]_/.test(file) && file !== SEAM,
  "20261127000002_people.sql": (file) => file === SEAM,
  "20261127000003_privileges.sql": (file) => /^9_/.test(file) && !file.endsWith("_streams.sql"),
  "20261127000004_streams.sql": (file) => /^[89]_/.test(file),
};

if (import.meta.main) {
  if (releasedMigrations().length > 0) {
    console.error(
      "The migrations are released, so they never change. Write the next one by hand: CONTRIBUTING.md says how.",
    );
    Deno.exit(1);
  }
  for (const [file, text] of Object.entries(firstMigrations(await readSchemas()))) {
    await Deno.writeTextFile(join(MIGRATIONS, file), text);
  }
}

/**
 * Reads the files of `supabase/schemas`, in their order.
 *
 * @throws {Error} if a file is not in a room, or has no number.
 */
export async function readSchemas(): Promise<Schema[]> {
  const folder = join(ROOT, "supabase/schemas");
  const files = globSync("*/*.sql", { cwd: folder }).sort();
  return await Promise.all(files.map(async (file) => {
    const isNamed = /^\d_[a-z_]+\/\d\d_[a-z_]+\.sql$/.test(file);
    if (!isNamed) throw new Error(`${file} is not named like 1_log/07_entries.sql`);
    return { file, text: await Deno.readTextFile(join(folder, file)) };
  }));
}

export function firstMigrations(schemas: Schema[]): Record<string, string> {
  const note = "-- Written by deno task migration from supabase/schemas: edit the files there.\n\n";
  return Object.fromEntries(
    Object.entries(FIRST).map(([file, belongs]) => {
      const texts = schemas.filter(({ file }) => belongs(file))
        .map(({ file, text }) => `-- From supabase/schemas/${file}.\n\n${text}`);
      return [file, note + texts.join("\n")];
    }),
  );
}

/** Lists the files of the newest release. */
export function releasedMigrations(): string[] {
  const byVersion = new Intl.Collator("en", { numeric: true }).compare;
  const lists = globSync("docs/releases/*.migrations.sha256", { cwd: ROOT }).sort(byVersion);
  const newest = lists.at(-1);
  const list = newest === undefined ? "" : Deno.readTextFileSync(join(ROOT, newest));
  return Array.from(list.matchAll(/supabase\/migrations\/(.+)$/gm), ([, file = ""]) => file);
}
