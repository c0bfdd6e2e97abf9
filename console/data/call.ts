import { isAuthRetryableFetchError } from "@supabase/auth-js";
import * as z from "zod/mini";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";
import { learnTime } from "../shared/days.ts";
import {
  auth,
  fetchInTime,
  NO_ANSWER,
  PROJECT_URL,
  PUBLISHABLE_KEY,
  RequestError,
} from "../shared/transport.ts";
import { visible } from "../../supabase/functions/_shared/visible.ts";

// Asks the project as the person who has signed in. Only the database's functions decide what that person gets.

// The page's policy forbids code made from strings.
z.config({ jitless: true });

export type Functions = Database["audit_log"]["Functions"];
export type Arguments<Name extends keyof Functions> = Functions[Name]["Args"];

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
  }).then(async (response) => {
    learnTime(response.headers.get("Date"));
    // Functions that return nothing are answered without a body.
    if (response.status === 204) return { status: 200, body: null };
    const body: unknown = await (response.ok ? response.json() : response.json().catch(() => null));
    return { status: response.status, body };
  }).catch(() => ({ status: 0, body: null }));
  if (answer.status === 200) return check(schema, answer.body);
  if (answer.status === 401) void renewSession();
  const isOutcomeUnknown = answer.status === 0 || answer.status >= 500;
  const refusal = z.safeParse(REFUSAL, answer.body).data ?? { code: "", message: "" };
  throw new RequestError(explain(answer.status, refusal), refusal.code, isOutcomeUnknown);
}

/** A text that is only shown. */
export const SHOWN = z.pipe(z.string(), z.transform(visible));

export function check<T>(schema: z.ZodMiniType<T>, value: unknown): T {
  const { success, data } = z.safeParse(schema, value);
  if (success) return data;
  throw new RequestError(
    "The server sent something unexpected. Reload. If that fails, report it.",
  );
}

/** Renews the session after the server refused the session's token. Ends the session only if Auth says that it is over. */
async function renewSession(): Promise<void> {
  const { error } = await auth.refreshSession();
  if (error && !isAuthRetryableFetchError(error)) await auth.signOut({ scope: "local" });
}

const REFUSAL = z.object({ code: z.string(), message: z.string() });

/** PostgREST's codes for a database that it cannot reach, or whose schema it has not read yet. */
const NO_DATABASE = ["PGRST000", "PGRST001", "PGRST002", "PGRST003"];

/** With these codes (docs/keys.md), the database's own message says what to change. */
const EXPLAINED_BY_DATABASE = /^(22023|AL00[1-7])$/;

function explain(status: number, { code, message }: z.infer<typeof REFUSAL>): string {
  if (status === 0) return NO_ANSWER;
  if (status === 401) {
    return "The server did not renew your session. Try again. If that fails, sign out and in.";
  }
  if (code === "42501") {
    return "You may not do this in the organization any more. Ask an administrator, or reload.";
  }
  if (EXPLAINED_BY_DATABASE.test(code)) {
    return `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`;
  }
  if (NO_DATABASE.includes(code)) return "The database does not answer. Try again in a minute.";
  const seen = [status, code].filter(Boolean).join(", ");
  return `The server failed (${seen}). Try again in a minute. If that fails, report it.`;
}
