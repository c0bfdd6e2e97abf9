import { parse } from "smol-toml";

const SCHEMA = "audit_log";
export const FUNCTIONS = ["public-audit-log", "audit-log-streams"];
const lockfileOf = (name: string) => `./functions/${name}/deno.lock`;

interface Config {
  api?: { schemas?: string[] };
  functions?: Record<string, { verify_jwt?: boolean; static_files?: string[] }>;
}

/**
 * Adds the sections of functions, and the schema to a list as `supabase init` writes it, on one line. Returns `null` for
 * any other file, which a person changes.
 */
export function patchConfig(text: string, names = FUNCTIONS): string | null {
  // The file is not UTF-8.
  if (text.includes("\uFFFD")) return null;
  try {
    const before: Config = parse(text);
    const patched = addSections(addSchema(text, before), before, names);
    return hasOurs(parse(patched), names) ? patched : null;
  } catch {
    return null;
  }
}

export function configByHand(names: string[]): string {
  return `supabase/config.toml is missing, not valid, or unusual, so it was not changed. Add
"${SCHEMA}" to your list of schemas in [api], and the functions' sections with these values:

[api]
schemas = ["public", "graphql_public", "${SCHEMA}"]
${names.map(sectionOf).join("")}`;
}

function sectionOf(name: string): string {
  return `
[functions.${name}]
# Nobody calls it with the JWT of a signed-in person.
verify_jwt = false
# Uploaded with it, so that Supabase runs the versions that were tested.
static_files = ["${lockfileOf(name)}"]
`;
}

function hasOurs({ api, functions }: Config, names: string[]): boolean {
  return api?.schemas?.includes(SCHEMA) === true &&
    names.every((name) =>
      functions?.[name]?.verify_jwt === false &&
      functions[name].static_files?.includes(lockfileOf(name))
    );
}

/** Adds the schema at the end of the list, because the first one is the Data API's default. */
function addSchema(text: string, { api }: Config): string {
  if (api?.schemas?.includes(SCHEMA)) return text;
  return text.replace(/^(schemas = \[".*")\]/m, `$1, "${SCHEMA}"]`);
}

function addSections(text: string, { functions }: Config, names: string[]): string {
  const added = names.filter((name) => !functions?.[name]).map(sectionOf).join("");
  return added === "" || text.endsWith("\n") ? text + added : `${text}\n${added}`;
}
