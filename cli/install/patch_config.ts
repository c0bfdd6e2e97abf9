import { parse } from "smol-toml";

const SCHEMA = "audit_log";
/** Our functions, and who calls them without the JWT of a signed-in person. */
const FUNCTIONS = {
  "public-audit-log": "Its callers hold API keys (pck_…), not the JWTs of signed-in people.",
  "audit-log-streams": "The database calls it with a secret word, not with a JWT.",
};

function sectionOf([name, callers]: [name: string, callers: string]): string[] {
  return [
    `[functions.${name}]`,
    `# ${callers}`,
    "verify_jwt = false",
    "# Uploaded with it, so that Supabase runs the versions that were tested.",
    `static_files = ["${lockfileOf(name)}"]`,
  ];
}

function lockfileOf(name: string): string {
  return `./functions/${name}/deno.lock`;
}

/** The Supabase CLI takes the first two where config.toml has no `schemas`. */
const SCHEMAS = `schemas = ["public", "graphql_public", "${SCHEMA}"]`;

interface Config {
  api?: { schemas?: string[] };
  functions?: Record<string, { verify_jwt?: boolean; static_files?: string[] }>;
}

/** Adds the functions' sections and the schema. Where not a byte of theirs may stay as it is, returns `null`. */
export function patchConfig(text: string): string | null {
  // The file is not UTF-8.
  if (text.includes("\uFFFD")) return null;
  try {
    const before: Config = parse(text);
    const patched = addSections(addSchema(text, before), before);
    return hasOurs(parse(patched)) ? patched : null;
  } catch {
    return null;
  }
}

export const CONFIG_BY_HAND =
  `In supabase/config.toml, the schemas of [api] must have "${SCHEMA}" ` +
  `beside yours, and the functions' sections must have these values. The file is missing, is not ` +
  `valid, or is unusual, so it was not changed:\n\n` +
  ["[api]", SCHEMAS, ...Object.entries(FUNCTIONS).flatMap((ours) => ["", ...sectionOf(ours)])]
    .filter((line) => !line.startsWith("#")).join("\n");

function hasOurs({ api, functions }: Config): boolean {
  return api?.schemas?.includes(SCHEMA) === true &&
    Object.keys(FUNCTIONS).every((name) =>
      functions?.[name]?.verify_jwt === false &&
      functions[name].static_files?.includes(lockfileOf(name))
    );
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

function addSections(text: string, { functions }: Config): string {
  return Object.entries(FUNCTIONS).filter(([name]) => !functions?.[name])
    .reduce((patched, ours) => append(patched, sectionOf(ours)), text);
}

function append(text: string, lines: string[]): string {
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const lineEnd = text === "" || text.endsWith("\n") ? "" : end;
  const emptyLine = text === "" ? "" : end;
  return text + lineEnd + emptyLine + lines.join(end) + end;
}
