// deno task migration writes supabase/migrations from supabase/schemas. As long as no version is released, it writes
// all of them anew; from then on one for the next version.

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { PRIVILEGES, readSchemas, type Schema, SEAM } from "./schemas.ts";
import { upgradeTo } from "./upgrade.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const MIGRATIONS = join(ROOT, "supabase/migrations");
const RELEASES = join(ROOT, "docs/releases");
const WRITTEN =
  /^-- Written by deno task migration from supabase\/schemas, sha256 ([0-9a-f]{64})\.\n/;

const FIRST = {
  "20261127000001_audit_log.sql": ({ subject }: Schema) => ![SEAM, PRIVILEGES].includes(subject),
  "20261127000002_people.sql": ({ subject }: Schema) => subject === SEAM,
  "20261127000003_privileges.sql": ({ subject }: Schema) => subject === PRIVILEGES,
};

if (import.meta.main) {
  try {
    await main(Deno.args[0]);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    Deno.exit(1);
  }
}

async function main(name: string | undefined): Promise<void> {
  const schemas = await readSchemas(join(ROOT, "supabase/schemas"));
  const released = releasedMigrations(RELEASES);
  if (released.length === 0) {
    const migrations = Object.entries(firstMigrations(schemas));
    for (const [file, text] of migrations) await writeMigration(join(MIGRATIONS, file), text);
    return;
  }
  const file = nextMigration(released, name);
  const texts = released.map((file) => Deno.readTextFileSync(join(MIGRATIONS, file)));
  await using stack = await startTemporaryStack({ isMigrated: false });
  const { text, missing } = await upgradeTo(schemas, texts, stack.databaseUrl);
  await writeMigration(join(MIGRATIONS, file), withHash(text));
  console.log("Read it: it will run on every customer's log.");
  if (missing.length === 0) return;
  throw new Error(
    `It does not change everything. Add to the file what changes these, and run the tests:\n` +
      missing.map((difference) => `  ${difference}`).join("\n"),
  );
}

export function firstMigrations(schemas: Schema[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(FIRST).map(([file, belongs]) => {
      const texts = schemas.filter(belongs)
        .map(({ file, text }) => `-- From supabase/schemas/${file}.\n\n${text}`);
      return [file, withHash(texts.join("\n"))];
    }),
  );
}

export function releasedMigrations(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const byVersion = new Intl.Collator("en", { numeric: true }).compare;
  const newest = Array.from(Deno.readDirSync(folder), ({ name }) => name)
    .filter((name) => name.endsWith(".migrations.sha256")).sort(byVersion).at(-1);
  const list = newest === undefined ? "" : Deno.readTextFileSync(join(folder, newest));
  return Array.from(list.matchAll(/supabase\/migrations\/(.+)$/gm), ([, file = ""]) => file);
}

/** Returns the file of the next version's migration: the one that is there, or a new one. */
function nextMigration(released: string[], name: string | undefined): string {
  const there = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name)
    .find((file) => !released.includes(file));
  if (there !== undefined) return there;
  if (name === undefined || !/^[a-z0-9_]+$/.test(name)) {
    throw new Error("Give the new migration a name: deno task migration more_filters");
  }
  return `${new Date().toISOString().replace(/\D/g, "").slice(0, 14)}_${name}.sql`;
}

/** Puts a line before a text by which {@linkcode isEdited} finds out whether somebody changed it. */
function withHash(text: string): string {
  return `-- Written by deno task migration from supabase/schemas, sha256 ${hash(text)}.\n${text}`;
}

/** Whether a migration is not as this task wrote it. */
export function isEdited(text: string): boolean {
  const [line, written] = text.match(WRITTEN) ?? [];
  return line === undefined || hash(text.slice(line.length)) !== written;
}

function hash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/**
 * Writes a migration, unless it is there.
 *
 * @throws {Error} if somebody edited the file, which this would undo.
 */
export async function writeMigration(path: string, text: string): Promise<void> {
  const there = await Deno.readTextFile(path).catch(() => null);
  if (there !== null && isEdited(there)) {
    throw new Error(
      `${path} was edited, and was not changed: make the change in supabase/schemas instead, then ` +
        `delete the file and run this again`,
    );
  }
  if (there !== text) await Deno.writeTextFile(path, text);
  console.log(`${there === text ? "Unchanged" : "Written"}: ${path}`);
}
