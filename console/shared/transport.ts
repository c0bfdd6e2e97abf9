import { AuthClient } from "@supabase/auth-js";

// What the sign-in form also needs. It uses auth-js alone, because all of supabase-js weighs 40 kB more.

export const { VITE_SUPABASE_URL: PROJECT_URL, VITE_SUPABASE_PUBLISHABLE_KEY: PUBLISHABLE_KEY } =
  import.meta.env;

export const AUDIT_LOG_URL = import.meta.env.VITE_PUBLIC_AUDIT_LOG_URL ||
  `${PROJECT_URL}/functions/v1/public-audit-log`;

/** Where people open the console, with a slash at its end. */
export const CONSOLE_URL = import.meta.env.VITE_CONSOLE_URL.replace(/\/?$/, "/");

/** The pages for developers are beside the console. */
export const DOCUMENTATION = "./docs/quick-start.html";

/** The storage key of another application on this origin, whose session the console shares. */
const SHARED_KEY = import.meta.env.VITE_AUTH_STORAGE_KEY;
export const IS_SESSION_SHARED = Boolean(SHARED_KEY);
export const STORAGE_KEY = SHARED_KEY || "audit-log-console-auth-token";

/** Longer than the 8 seconds after which Supabase ends a statement. */
const TIMEOUT_MS = 15_000;

export function fetchInTime(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  return fetch(input, { ...init, signal });
}

export const auth = new AuthClient({
  url: `${PROJECT_URL}/auth/v1`,
  headers: { apikey: PUBLISHABLE_KEY, Authorization: `Bearer ${PUBLISHABLE_KEY}` },
  storageKey: STORAGE_KEY,
  // An address may bring the code of a sign-in that began in this browser, but never a session: a stranger's link
  // would sign its reader into the stranger's account.
  flowType: "pkce",
  detectSessionInUrl: () => false,
  fetch: fetchInTime,
});

/**
 * A request that failed. `message` says what to do, `code` is the database's or PostgREST's. If `isOutcomeUnknown`, it
 * may have had its effect.
 */
export class RequestError extends Error {
  override name = "RequestError";

  constructor(message: string, readonly code = "", readonly isOutcomeUnknown = false) {
    super(message);
  }
}

export const NO_ANSWER = "No answer from the server. Check your connection, then try again.";

/** Waits for a part of the console that is loaded when it is needed. */
export function loaded<Part>(part: Promise<Part>): Promise<Part> {
  return part.catch(() => {
    throw new RequestError("A part of the console did not load. Check your connection.");
  });
}
