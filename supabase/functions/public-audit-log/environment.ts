import * as z from "zod";

const SecretKeys = z.record(z.string(), z.string().min(1));

export interface Environment {
  /** Where the Data API is. */
  url: string;
  /** The key that makes a caller `service_role`. */
  secretKey: string;
  /** Where callers reach the function, for the links to other pages. */
  publicUrl: string;
}

/**
 * Reads the variables that Supabase gives every Edge Function. Set `PUBLIC_AUDIT_LOG_URL` only when
 * callers reach the function at an address of your own. `SUPABASE_SECRET_KEYS` is a JSON dictionary of keys
 * by name: the key `default` is used, or any other when that one was deleted. Older projects have
 * `SUPABASE_SERVICE_ROLE_KEY` instead.
 *
 * @throws {Error} naming the variable that is missing or malformed, never its value.
 */
export function readEnvironment(get: (name: string) => string | undefined): Environment {
  const url = get("SUPABASE_URL");
  if (!url) throw new Error("Cannot start: SUPABASE_URL is not set");
  const secretKey = anyKey(get("SUPABASE_SECRET_KEYS")) ?? get("SUPABASE_SERVICE_ROLE_KEY");
  if (!secretKey) {
    throw new Error("Cannot start: set SUPABASE_SECRET_KEYS or SUPABASE_SERVICE_ROLE_KEY");
  }
  const publicUrl = get("PUBLIC_AUDIT_LOG_URL") ?? `${url}/functions/v1/public-audit-log`;
  if (!URL.canParse(publicUrl)) {
    throw new Error("Cannot start: PUBLIC_AUDIT_LOG_URL is not an address like https://…");
  }
  return { url, secretKey, publicUrl };
}

function anyKey(dictionary = "{}"): string | undefined {
  try {
    const keys = SecretKeys.parse(JSON.parse(dictionary));
    return keys["default"] ?? Object.values(keys)[0];
  } catch {
    // Without the cause, which would show the value.
    throw new Error(
      'Cannot start: SUPABASE_SECRET_KEYS is not JSON like {"default": "sb_secret_…"}',
    );
  }
}
