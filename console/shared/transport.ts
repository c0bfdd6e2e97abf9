import { AuthClient, isAuthRetryableFetchError } from "@supabase/auth-js";
import * as z from "zod/mini";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";

// Asks the project as the person who has signed in. The database's functions alone decide what that person gets.
// This is auth-js without the rest of supabase-js, which weighs 40 kB more.

// The page's policy forbids code made from strings.
z.config({ jitless: true });

export const { VITE_SUPABASE_URL: PROJECT_URL, VITE_SUPABASE_PUBLISHABLE_KEY: PUBLISHABLE_KEY } =
  import.meta.env;

export const AUDIT_LOG_URL = `${PROJECT_URL}/functions/v1/public-audit-log`;

/** Names another application's session of this origin, to share it. */
const SHARED_KEY = import.meta.env.VITE_AUTH_STORAGE_KEY;
export const IS_SESSION_SHARED = Boolean(SHARED_KEY);
export const STORAGE_KEY = SHARED_KEY || "audit-log-console-auth-token";

/** Whether another page is around this one, and gives it its session. */
export const IS_EMBEDDED = self !== top;

/** Null in a frame, where browsers refuse it. */
export const STORAGE = IS_EMBEDDED ? null : localStorage;

/** Longer than the 8 seconds after which the platform ends a statement. */
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
  persistSession: !IS_EMBEDDED,
  autoRefreshToken: !IS_EMBEDDED,
  // An address may bring the code of a sign-in that began in this browser. A session in it would sign the reader
  // into the writer's account.
  flowType: "pkce",
  detectSessionInUrl: () => false,
  fetch: fetchInTime,
});

/** A request that failed. `message` says what to do. `isOutcomeUnknown`: it may have had its effect. */
export class RequestError extends Error {
  override name = "RequestError";

  constructor(message: string, readonly isOutcomeUnknown = false) {
    super(message);
  }
}

type Functions = Database["audit_log"]["Functions"];
export type Arguments<Name extends keyof Functions> = Functions[Name]["Args"];

/** Calls a function of the database as the person who has signed in. */
export async function call<T, Name extends keyof Functions>(
  schema: z.ZodMiniType<T>,
  name: Name,
  args: Arguments<Name>,
  signal: AbortSignal | null = null,
): Promise<T> {
  const { data } = await auth.getSession();
  const answer = await fetchInTime(`${PROJECT_URL}/rest/v1/rpc/${name}`, {
    method: "POST",
    headers: {
      apikey: PUBLISHABLE_KEY,
      Authorization: `Bearer ${data.session?.access_token ?? PUBLISHABLE_KEY}`,
      "Content-Type": "application/json",
      "Content-Profile": "audit_log",
    },
    body: JSON.stringify(args),
    signal,
  }).then(async (response) => ({
    status: response.status,
    body: await (response.ok ? response.json() : response.json().catch(() => null)) as unknown,
  })).catch(() => ({ status: 0, body: null }));
  if (answer.status === 200) return check(schema, answer.body);
  if (answer.status === 401) void renewSession();
  const isOutcomeUnknown = answer.status === 0 || answer.status >= 500;
  const explanation = explain(answer.status, z.safeParse(REFUSAL, answer.body).data);
  throw new RequestError(explanation, isOutcomeUnknown);
}

/** Parses data from outside. */
export function check<T>(schema: z.ZodMiniType<T>, value: unknown): T {
  const { success, data } = z.safeParse(schema, value);
  if (success) return data;
  throw new RequestError(
    "The server sent something unexpected. Reload, and report it if it stays.",
  );
}

/** Renews the session after its token was refused. Ends it only when Auth says that it is over. */
async function renewSession(): Promise<void> {
  const { error } = await auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await auth.signOut({ scope: "local" });
}

const REFUSAL = z.object({ code: z.string(), message: z.string() });

export const NO_ANSWER = "No answer from the server. Check your connection, then try again.";

/** PostgREST's codes for a database that it cannot reach, or whose schema it has not read yet. */
const NO_DATABASE = ["PGRST000", "PGRST001", "PGRST002", "PGRST003"];

function explain(status: number, { code, message } = { code: "", message: "" }): string {
  if (status === 0) return NO_ANSWER;
  if (status === 401) {
    return "Your session could not be renewed. Try again; if it stays so, sign out and in.";
  }
  if (code === "42501") {
    return "You do not administer this organization any more. Ask another administrator, or reload.";
  }
  if (code === "23505") {
    return "An earlier attempt did make this key, but its token was lost on the way. " +
      "Close this, revoke the key in the list, and create another.";
  }
  if (code === "22023" || code.startsWith("AL")) {
    // The database's own words, which say what to change.
    return `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`;
  }
  if (NO_DATABASE.includes(code)) return "The database does not answer. Try again in a minute.";
  const seen = [status, code].filter(Boolean).join(", ");
  return `The server could not do it. Try again in a minute, and report it if it stays (${seen}).`;
}
