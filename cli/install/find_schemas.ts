import { posix } from "node:path";
import { parse } from "smol-toml";
import { hasSql, isInside } from "./files.ts";

const COPY_TOO =
  `Copy each migration that you write for the service there, too. Otherwise the next ` +
  `supabase db schema declarative sync takes back what it did (docs/adopting.md, section 1).`;

export const SCHEMAS_TOO =
  `This project has declarative schemas, which now have ours beside yours. ${COPY_TOO}`;

export const SCHEMAS_BY_HAND =
  `This project has declarative schemas outside of the folder supabase, where nothing was changed. Copy the files ` +
  `of our supabase/schemas there, now and after each upgrade. ${COPY_TOO}`;

interface Config {
  experimental?: { pgdelta?: { declarative_schema_path?: string } };
}

/** The Supabase CLI takes this where config.toml names no other. */
const DEFAULT = "schemas";

/** Finds a project's declarative schemas. What is in the migrations, and not there, their next sync would drop. */
export function findSchemas(target: string, config: string | null) {
  const path = schemaPath(config);
  const folder = posix.join("supabase", path);
  if (posix.isAbsolute(path) || !isInside(folder)) return { folder: path, isByHand: true };
  return { folder: hasSql(target, folder) ? folder : null, isByHand: false };
}

/** Relative to the folder supabase. */
function schemaPath(text: string | null): string {
  try {
    const config: Config = parse(text ?? "");
    const path: unknown = config.experimental?.pgdelta?.declarative_schema_path;
    return typeof path === "string" && path !== "" ? path.replace(/\/+$/, "") : DEFAULT;
  } catch {
    return DEFAULT;
  }
}
