import { isDeepStrictEqual } from "node:util";
import { parse } from "smol-toml";

const SCHEMA = "audit_log";
const LOCKFILE = "./functions/public-audit-log/deno.lock";
const SECTION = [
  "[functions.public-audit-log]",
  "# Its callers hold API keys (pck_…), not the JWTs of signed-in people.",
  "verify_jwt = false",
  "# Uploaded with it, so that Supabase runs the versions that were tested.",
  `static_files = ["${LOCKFILE}"]`,
];

/** The Supabase CLI takes these where config.toml has no `schemas`. */
const DEFAULT_SCHEMAS = ["public", "graphql_public"];
const SCHEMAS = `schemas = ["public", "graphql_public", "${SCHEMA}"]`;

interface Config {
  api?: { schemas?: string[] };
  functions?: Record<string, { static_files?: string[] }>;
}

/**
 * Adds the function's section and the schema to a config.toml. Each addition is one insertion: not a byte of
 * theirs changes. Where that is impossible, it returns `null`: {@linkcode CONFIG_BY_HAND} is for a person.
 */
export function patchConfig(text: string): string | null {
  // The file is not UTF-8.
  if (text.includes("\uFFFD")) return null;
  try {
    const before: Config = parse(text);
    const patched = addSection(addSchema(text, before), before);
    // The library's objects have no prototype, and clones have one.
    const [actual, wanted] = [parse(patched), withAdditions(before)]
      .map((config) => structuredClone(config));
    return isDeepStrictEqual(actual, wanted) ? patched : null;
  } catch {
    return null;
  }
}

export const CONFIG_BY_HAND =
  `In supabase/config.toml, the schemas of [api] must have "${SCHEMA}" ` +
  `beside yours, and the function's section must have these values. The file is missing, is not ` +
  `valid, or is unusual, so it was not changed:\n\n` +
  ["[api]", SCHEMAS, "", ...SECTION.filter((line) => !line.startsWith("#"))].join("\n");

function withAdditions(config: Config): Config {
  const schemas = config.api?.schemas ?? DEFAULT_SCHEMAS;
  const section = config.functions?.["public-audit-log"];
  const files = section?.static_files?.includes(LOCKFILE) ? section.static_files : [LOCKFILE];
  const wanted = { ...section, verify_jwt: false, static_files: files };
  return {
    ...config,
    api: { ...config.api, schemas: schemas.includes(SCHEMA) ? schemas : [...schemas, SCHEMA] },
    functions: { ...config.functions, "public-audit-log": wanted },
  };
}

/** Adds the schema at the end of the list, because the first one is the Data API's default. */
function addSchema(text: string, { api }: Config): string {
  if (api === undefined) return append(text, ["[api]", SCHEMAS]);
  if (api.schemas === undefined) return text.replace(/^\[api\].*(\r?\n)/m, `$&${SCHEMAS}$1`);
  if (api.schemas.includes(SCHEMA)) return text;
  const separator = api.schemas.length > 0 ? ", " : "";
  const list = /^((?:api\.)?schemas\s*=\s*\[[^\]]*?)(,?\s*\])/m;
  return text.replace(list, `$1${separator}"${SCHEMA}"$2`);
}

function addSection(text: string, { functions }: Config): string {
  return functions?.["public-audit-log"] ? text : append(text, SECTION);
}

function append(text: string, lines: string[]): string {
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const lineEnd = text === "" || text.endsWith("\n") ? "" : end;
  const emptyLine = text === "" ? "" : end;
  return text + lineEnd + emptyLine + lines.join(end) + end;
}
