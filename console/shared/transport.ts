import { AuthClient, isAuthRetryableFetchError } from "@supabase/auth-js";
import * as z from "zod/mini";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";

// How the console asks the project, as the person who has signed in. The database's functions decide what that
// person gets; there is no other wall, and this page needs none. Of supabase-js only its client of Auth is
// here: all of it would weigh 40 kB more.

// Without code made from strings, which the page's policy forbids.
z.config({ jitless: true });

export const { VITE_SUPABASE_URL: PROJECT_URL, VITE_SUPABASE_PUBLISHABLE_KEY: PUBLISHABLE_KEY } =
  import.meta.env;

/** Where external applications read the log. */
export const AUDIT_LOG_URL = `${PROJECT_URL}/functions/v1/public-audit-log`;

/** Under which name this browser keeps the session: that of another application of this origin, to share its. */
const SHARED_KEY = import.meta.env.VITE_AUTH_STORAGE_KEY;
export const IS_SESSION_SHARED = Boolean(SHARED_KEY);
export const STORAGE_KEY = SHARED_KEY || "audit-log-console-auth-token";

/** Whether another page is around this one, and gives it its session. */
export const IS_EMBEDDED = self !== top;

/** What is kept between visits: nothing in a frame, where browsers refuse it. */
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
  // An address may bring the code of a sign-in that began in this browser, and never a session: that would sign
  // its reader into the account of its writer.
  flowType: "pkce",
  detectSessionInUrl: () => false,
  fetch: fetchInTime,
});

/** Why something that was asked for did not happen; `message` says what to do. */
export class RequestError extends Error {
  override name = "RequestError";

  /** Whether it may have happened all the same, because no answer came. */
  readonly isOutcomeUnknown: boolean;

  constructor(message: string, isOutcomeUnknown = false) {
    super(message);
    this.isOutcomeUnknown = isOutcomeUnknown;
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

/** What came from outside, as it should be. */
export function check<T>(schema: z.ZodMiniType<T>, value: unknown): T {
  const { success, data } = z.safeParse(schema, value);
  if (success) return data;
  throw new RequestError(
    "The server sent something unexpected. Reload, and report it if it stays.",
  );
}

/**
 * After the person's token was refused: renews the session, or ends it when Auth says that it is over.
 * When Auth says nothing, it stays.
 */
async function renewSession(): Promise<void> {
  const { error } = await auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await auth.signOut({ scope: "local" });
}

/** What the Data API answers instead of a result. */
const REFUSAL = z.object({ code: z.string(), message: z.string() });

export const NO_ANSWER = "No answer from the server. Check your connection, then try again.";

/** PostgREST's codes for a database that it cannot reach, or whose schema it has not read yet. */
const NO_DATABASE = ["PGRST000", "PGRST001", "PGRST002", "PGRST003"];

function explain(
  status: number,
  { code = "", message = "" }: { code?: string; message?: string } = {},
) {
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
