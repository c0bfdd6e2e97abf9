import { z } from "zod";

const SecretKeys = z.string().transform((text, context) => {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue("not JSON");
  }
}).pipe(z.object({ default: z.string().min(1).optional() }));

/** Where the Data API is, and the key that makes a caller `service_role`. */
export interface Environment {
  url: string;
  secretKey: string;
}

/**
 * Reads what the platform gives every Edge Function; nothing has to be set by hand.
 * `SUPABASE_SECRET_KEYS` is a JSON dictionary of keys by name. Projects from before it have
 * `SUPABASE_SERVICE_ROLE_KEY`.
 *
 * @throws {Error} naming the variable that is missing or malformed, never its value.
 */
export function readEnvironment(get: (name: string) => string | undefined): Environment {
  const url = get("SUPABASE_URL");
  if (!url) throw new Error("Cannot start: SUPABASE_URL is not set");
  const secretKey = defaultKey(get("SUPABASE_SECRET_KEYS")) ?? get("SUPABASE_SERVICE_ROLE_KEY");
  if (!secretKey) {
    throw new Error("Cannot start: set SUPABASE_SECRET_KEYS or SUPABASE_SERVICE_ROLE_KEY");
  }
  return { url, secretKey };
}

function defaultKey(keys = "{}"): string | undefined {
  const result = SecretKeys.safeParse(keys);
  if (result.success) return result.data.default;
  throw new Error('Cannot start: SUPABASE_SECRET_KEYS is not JSON like {"default": "sb_secret_…"}');
}
