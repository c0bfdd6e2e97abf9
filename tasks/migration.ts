// deno task migration writes supabase/migrations from supabase/schemas. As long as no version is released, it writes
// all of them anew.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PRIVILEGES, readSchemas, type Schema, SEAM } from "./schemas.ts";

const SUPABASE = fileURLToPath(new URL("../supabase", import.meta.url));
const EDITED =
  /^-- Written by deno task migration from supabase\/schemas, sha256 ([0-9a-f]{64})\.\n/;

/** The migrations of the first version. The last one opens what the others make. */
const FIRST = {
  "20261127000001_audit_log.sql": ({ subject }: Schema) => ![SEAM, PRIVILEGES].includes(subject),
  "20261127000002_people.sql": ({ subject }: Schema) => subject === SEAM,
  "20261127000003_privileges.sql": ({ subject }: Schema) => subject === PRIVILEGES,
};

if (import.meta.main) {
  const migrations = firstMigrations(await readSchemas(join(SUPABASE, "schemas")));
  for (const [file, text] of Object.entries(migrations)) {
    await writeGenerated(join(SUPABASE, "migrations", file), text);
  }
}

/** Returns the texts of the first version's migrations, by file. */
export function firstMigrations(schemas: Schema[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(FIRST).map(([file, belongs]) => [
      file,
      generated(
        schemas.filter(belongs).map(({ file, text }) =>
          `-- From supabase/schemas/${file}.\n\n${text}`
        )
          .join("\n"),
      ),
    ]),
  );
}

/** Puts a line before a text by which {@linkcode isEdited} finds out whether somebody changed it. */
function generated(text: string): string {
  return `-- Written by deno task migration from supabase/schemas, sha256 ${hash(text)}.\n${text}`;
}

/** Whether a generated text is not as it was written. */
export function isEdited(text: string): boolean {
  const [line, written] = text.match(EDITED) ?? [];
  return line === undefined || hash(text.slice(line.length)) !== written;
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/**
 * Writes a migration, or says that it is the same.
 *
 * @throws {Error} if somebody edited the file, which this would undo.
 */
async function writeGenerated(path: string, text: string): Promise<void> {
  const there = await Deno.readTextFile(path).catch(() => null);
  if (there !== null && isEdited(there)) {
    throw new Error(
      `${path} was edited: make the change in supabase/schemas, and delete this file`,
    );
  }
  if (there !== text) await Deno.writeTextFile(path, text);
  console.log(`${there === text ? "Unchanged" : "Written"}: ${path}`);
}
