import type { AuthChangeEvent, AuthError, Session } from "@supabase/auth-js";
import { useEffect, useState } from "react";
import { auth, RequestError } from "./data.ts";

export interface SessionState {
  /** `undefined` while it is being read, `null` when nobody has signed in. */
  session: Session | null | undefined;
  /** Why the person has to sign in again, if not by their own doing. */
  reason: string;
}

const ENDED = "Your session has ended. Sign in again.";
const ENDED_ELSEWHERE = "You were signed out elsewhere. Sign in again.";
/** What the next end of the session is due to; empty when the person wished it in this tab. */
let cause = ENDED;

/** The session of the person; kept in this browser by auth-js, and renewed by it. */
export function useSession(): SessionState {
  const [state, setState] = useState<SessionState>({ session: undefined, reason: "" });
  useEffect(() => {
    const { data } = auth.onAuthStateChange((event, session) => {
      // A recovery code signs in before the new password is set: not seen before that has happened.
      if (isRecovering && session) return;
      // Now: by the time that the state is set, the cause is another.
      const next = { session, reason: session ? "" : reason(event) };
      // auth-js may tell the end of a session twice.
      setState((previous) => session === null && previous.session === null ? previous : next);
    });
    return () => data.subscription.unsubscribe();
  }, []);
  return state;
}

function reason(event: AuthChangeEvent): string {
  if (event === "SIGNED_OUT") return cause;
  if (event !== "INITIAL_SESSION") return "";
  const isKept = Object.keys(localStorage).some((name) => name.endsWith("-auth-token"));
  return isKept
    ? "Your session could not be renewed: no answer from the server. Reload, or sign in again."
    : "";
}

export async function signIn(email: string, password: string): Promise<void> {
  const { error } = await auth.signInWithPassword({ email, password });
  if (error) throw new RequestError(explain(error));
}

/** Ends the session in this browser (`local`), or all sessions of the person (`global`). */
export async function signOut(scope: "local" | "global"): Promise<void> {
  cause = "";
  const { error } = await auth.signOut({ scope }).finally(() => cause = ENDED);
  if (error) throw new RequestError(explain(error));
}

/** Asks Auth whether the session still exists; auth-js ends it here if it was ended elsewhere. */
export async function checkSession(): Promise<boolean> {
  cause = ENDED_ELSEWHERE;
  const { error } = await auth.getUser();
  if (error?.status === 401 || error?.status === 403) await auth.signOut({ scope: "local" });
  if (cause === ENDED_ELSEWHERE) cause = ENDED;
  return !error;
}

/** Sends a code for a new password, if there is an account with this address. */
export async function sendRecoveryCode(email: string): Promise<void> {
  const { error } = await auth.resetPasswordForEmail(email);
  if (error) throw new RequestError(explain(error));
}

export interface NewPassword {
  email: string;
  /** As it stands in the message. */
  code: string;
  password: string;
}

let isRecovering = false;

/** Sets a new password with a code. A code and not a link, since a link signs in whoever follows it. */
export async function resetPassword({ email, code, password }: NewPassword): Promise<void> {
  isRecovering = true;
  const verified = await auth.verifyOtp({ email, token: code, type: "recovery" });
  isRecovering = false;
  if (verified.error) throw new RequestError(explain(verified.error));
  const updated = await auth.updateUser({ password });
  if (updated.error) {
    await auth.signOut({ scope: "local" });
    throw new RequestError(`${explain(updated.error)} Ask for a new code.`);
  }
  await auth.signOut({ scope: "others" });
}

function explain(error: AuthError): string {
  switch (error.code) {
    case "invalid_credentials":
      return "E-mail or password is wrong.";
    case "email_not_confirmed":
      return "This e-mail address is not confirmed yet. Open the link in the message you were sent.";
    case "over_request_rate_limit":
    case "over_email_send_rate_limit":
      return "Too many attempts. Wait a few minutes, then try again.";
    case "otp_expired":
      return "The code is wrong, or it has expired.";
    case "weak_password":
    case "same_password":
    case "validation_failed":
      return `${error.message.replace(/\.$/, "")}.`;
  }
  if (!error.status) return "No answer from the server. Check your connection, then try again.";
  return `The server could not do it (${error.status}). Try again in a minute.`;
}
