import { join } from "node:path";

/** The source of the database: a file a subject, in an order in which none names anything of a later one. */
export interface Schema {
  file: string;
  subject: string;
  text: string;
}

/** The functions that an adopter replaces: a migration of their own, which no later one touches. */
export const SEAM = "people";

/** Comes last in each migration, so that one that stops halfway opens nothing. */
export const PRIVILEGES = "privileges";

/**
 * Reads the files of a folder such as `supabase/schemas`, in their order.
 *
 * @throws {Error} if a file's name has no number and subject.
 */
export async function readSchemas(folder: string): Promise<Schema[]> {
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
  return await Promise.all(names.map(async (file) => {
    const [, subject] = file.match(/^\d\d_([a-z_]+)\.sql$/) ?? [];
    if (!subject) throw new Error(`${file} is not named like 07_entries.sql`);
    return { file, subject, text: await Deno.readTextFile(join(folder, file)) };
  }));
}

/** Says which files name something that only a later file makes: `10_scan.sql names count_before of 11_counts.sql`. */
export function namesOfLaterFiles(schemas: Schema[]): string[] {
  const made = schemas.map(({ text }) =>
    Array.from(
      text.matchAll(
        /^create (?:table|type|domain|function) (audit_log(?:_private)?\.(?:\w+|"[^"]+"))/gm,
      ),
      ([, name = ""]) => name,
    )
  );
  return schemas.flatMap(({ file, text }, n) => {
    const named = new Set(code(text).match(/\baudit_log(?:_private)?\.(?:\w+|"[^"]+")/g));
    const earlier = new Set(made.slice(0, n + 1).flat());
    return schemas.slice(n + 1).flatMap((later, m) =>
      (made[n + 1 + m] ?? []).filter((name) => named.has(name) && !earlier.has(name))
        .map((name) => `${file} names ${name} of ${later.file}`)
    );
  });
}

/** What Postgres runs of a file: without its comments, and without messages, which may name what comes later. */
function code(text: string): string {
  return text
    .replace(/--.*$/gm, "")
    .replace(/^comment on (?:.|\n)*?';$/gm, "")
    .replace(/'(?:[^']|'')*'(::reg)?/g, (literal, isName) => isName ? literal : "");
}
