import { isDeepStrictEqual } from "node:util";
import { parse, patch } from "@decimalturn/toml-patch";

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
const API = ["[api]", `schemas = ["public", "graphql_public", "${SCHEMA}"]`];

interface Config {
  api?: { schemas?: unknown };
  functions?: Record<string, { verify_jwt?: unknown; static_files?: unknown } | undefined>;
}

export interface PatchedConfig {
  text: string;
  /** Paragraphs for a person: add this by hand, and why. */
  byHand: string[];
}

/**
 * Adds the function's section and the schema to a config.toml. Each addition is one insertion: not a
 * byte of theirs changes. Where that is impossible, it returns text for a person.
 */
export function patchConfig(text: string): PatchedConfig {
  try {
    parse(text);
  } catch (error) {
    // The library's message has the position, the line, a caret and what is wrong, on four lines.
    const reason = (error as Error).message.replace(/:\n[^]*\n/, ": ");
    return { text, byHand: allByHand(`the file is not valid TOML: ${reason}`) };
  }
  const byHand: string[] = [];
  const withSchema = addSchema(text);
  if (withSchema === null) byHand.push(schemaByHand("the list is missing or unusual"));
  const withBoth = addSection(withSchema ?? text);
  if (withBoth === null) byHand.push(sectionByHand("the section is there, or is unusual"));
  return { text: withBoth ?? withSchema ?? text, byHand };
}

/** Asks a person to add everything, because the file cannot be edited here. */
export function allByHand(why: string): string[] {
  return [sectionByHand(why), schemaByHand(why)];
}

function sectionByHand(why: string): string {
  return `In supabase/config.toml, the function's section must have these values (${why}):\n\n` +
    SECTION.filter((line) => !line.startsWith("#")).join("\n");
}

function schemaByHand(why: string): string {
  return `In supabase/config.toml, the schemas of [api] must have "${SCHEMA}" beside yours, as in ` +
    `this example (${why}):\n\n${API.join("\n")}`;
}

/** Adds the schema, if it is missing; `null` if it cannot. */
function addSchema(text: string): string | null {
  const config: Config = parse(text);
  const theirs = config.api?.schemas;
  const schemas = theirs ?? DEFAULT_SCHEMAS;
  if (!Array.isArray(schemas)) return null;
  if (schemas.includes(SCHEMA)) return text;
  const expected = { ...config, api: { ...config.api, schemas: [...schemas, SCHEMA] } };
  if (config.api === undefined) return checked(text, () => append(text, API), expected);
  // The library would put a new key behind the comment on the next section.
  if (theirs === undefined) {
    return checked(text, () => text.replace(/^\[api\].*(\r?\n)/m, `$&${API[1]}$1`), expected);
  }
  // The library would change all line ends to one kind, and print that it does.
  if (/\r\n/.test(text) && /(?<!\r)\n/.test(text)) return null;
  return checked(text, () => patch(text, expected), expected);
}

/** Adds the function's section at the end, if it is missing; `null` if it cannot. */
function addSection(text: string): string | null {
  const config: Config = parse(text);
  const section = config.functions?.["public-audit-log"];
  if (section !== undefined) {
    const { verify_jwt, static_files } = section;
    const isRight = verify_jwt === false && Array.isArray(static_files) &&
      static_files.includes(LOCKFILE);
    return isRight ? text : null;
  }
  const added = { verify_jwt: false, static_files: [LOCKFILE] };
  const functions = { ...config.functions, "public-audit-log": added };
  return checked(text, () => append(text, SECTION), { ...config, functions });
}

function append(text: string, lines: string[]): string {
  const end = text.includes("\r\n") ? "\r\n" : "\n";
  const lineEnd = text === "" || text.endsWith("\n") ? "" : end;
  const emptyLine = text === "" ? "" : end;
  return text + lineEnd + emptyLine + lines.join(end) + end;
}

/** Returns the edited text, if it means what is expected and only inserts; else `null`. */
function checked(text: string, edit: () => string, expected: unknown): string | null {
  try {
    const edited = edit();
    let start = 0;
    while (start < text.length && text[start] === edited[start]) start++;
    if (!edited.endsWith(text.slice(start))) return null;
    // The library's objects have no prototype, and clones have one.
    const [actual, wanted] = [parse(edited), expected].map((config) => structuredClone(config));
    return isDeepStrictEqual(actual, wanted) ? edited : null;
  } catch {
    return null;
  }
}
