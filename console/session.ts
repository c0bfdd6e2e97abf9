import type { AuthChangeEvent, AuthError, Session } from "@supabase/supabase-js";
import { useEffect, useState } from "react";
import { RequestError, supabase } from "./data.ts";

export interface SessionState {
  /** `undefined` while it is being read, `null` when nobody has signed in. */
  session: Session | null | undefined;
  /** Why the person has to sign in again, if not by their own doing. */
  reason: string;
}

let isLeaving = false;

/** The session of the person; kept in this browser by supabase-js, and renewed by it. */
export function useSession(): SessionState {
  const [state, setState] = useState<SessionState>({ session: undefined, reason: "" });
  useEffect(() => {
    const { data } = supabase.auth.onAuthStateChange((event, session) => {
      setState((previous) => ({
        session,
        reason: session ? "" : reason(event) || previous.reason,
      }));
    });
    return () => data.subscription.unsubscribe();
  }, []);
  return state;
}

function reason(event: AuthChangeEvent): string {
  if (event === "SIGNED_OUT" && !isLeaving) return "Your session has ended. Sign in again.";
  if (event !== "INITIAL_SESSION") return "";
  const isKept = Object.keys(localStorage).some((name) => name.endsWith("-auth-token"));
  return isKept
    ? "Your session could not be renewed: no answer from the server. Reload, or sign in again."
    : "";
}

export async function signIn(email: string, password: string): Promise<void> {
  const { error } = await supabase.auth.signInWithPassword({ email, password });
  if (error) throw new RequestError(explain(error));
}

/** Ends the session in this browser; those on other machines go on. */
export async function signOut(): Promise<void> {
  isLeaving = true;
  const { error } = await supabase.auth.signOut({ scope: "local" }).finally(() =>
    isLeaving = false
  );
  if (error) throw new RequestError(explain(error));
}

function explain(error: AuthError): string {
  switch (error.code) {
    case "invalid_credentials":
      return "E-mail or password is wrong.";
    case "email_not_confirmed":
      return "This e-mail address is not confirmed yet. Open the link in the message you were sent.";
    case "over_request_rate_limit":
      return "Too many attempts. Wait a few minutes, then try again.";
  }
  if (!error.status) return "No answer from the server. Check your connection, then try again.";
  return `The server could not do it (${error.status}). Try again in a minute.`;
}
