import * as z from "zod";

export type Environment = ReturnType<typeof readEnvironment>;

export type Get = (name: string) => string | undefined;

/**
 * Reads the variables of this function. Set `PUBLIC_AUDIT_LOG_URL` only when callers reach it at an address of your own,
 * and `PUBLIC_AUDIT_LOG_CONSOLE_URL` to let errors lead to the console's pages.
 */
export function readEnvironment(get: Get) {
  const project = readProject(get);
  const publicUrl = address("PUBLIC_AUDIT_LOG_URL", get);
  const consoleUrl = address("PUBLIC_AUDIT_LOG_CONSOLE_URL", get);
  return {
    ...project,
    /** Where callers reach the function, without a slash at its end, for the links to other pages. */
    publicUrl: publicUrl?.replace(/\/+$/, "") ?? `${project.url}/functions/v1/public-audit-log`,
    /** Where the console and its pages for developers are, with a slash at its end, for the links of errors. */
    consoleUrl: consoleUrl && folder(consoleUrl),
  };
}

/** Names the variable that is missing or malformed, never its value. */
export function refuse(why: string): never {
  throw new Error(`Cannot start: ${why}`);
}

function address(name: string, get: Get): string | undefined {
  const value = get(name);
  if (value === undefined || /^https?:/.test(value) && URL.canParse(value)) return value;
  refuse(`${name} is not an address like https://…`);
}

/**
 * Reads what Supabase gives every Edge Function. `SUPABASE_SECRET_KEYS` is a JSON dictionary of keys by name: the key
 * `default` is used, or any other when that one was deleted. Without any, as in older projects,
 * `SUPABASE_SERVICE_ROLE_KEY` is.
 */
export function readProject(get: Get) {
  const url = get("SUPABASE_URL");
  if (!url) refuse("SUPABASE_URL is not set");
  const secretKey = anyKey(get("SUPABASE_SECRET_KEYS")) || get("SUPABASE_SERVICE_ROLE_KEY");
  if (!secretKey) refuse("there is no key in SUPABASE_SECRET_KEYS or SUPABASE_SERVICE_ROLE_KEY");
  return { url, secretKey };
}

/** The folder that an address names, without what a browser adds to it, and fit for a header. */
function folder(address: string): string {
  const { origin, pathname } = new URL(address);
  return origin + pathname.replace(/\/*$/, "/");
}

function anyKey(dictionary: string | undefined): string | undefined {
  try {
    const keys = z.record(z.string(), z.string()).parse(JSON.parse(dictionary || "{}"));
    return keys["default"] || Object.values(keys).find((key) => key !== "");
  } catch {
    // Without the cause, which would show the value.
    refuse('SUPABASE_SECRET_KEYS is not JSON like {"default": "sb_secret_…"}');
  }
}
