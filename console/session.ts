import type { AuthError, Session } from "@supabase/supabase-js";
import { useEffect, useState } from "react";
import { RequestError, supabase } from "./data.ts";

export interface SessionState {
  /** `undefined` while it is being read, `null` when nobody has signed in. */
  session: Session | null | undefined;
  /** Whether the last one ended without the person's doing. */
  hasExpired: boolean;
}

let isLeaving = false;

/** The session of the person; kept in this browser by supabase-js, and renewed by it. */
export function useSession(): SessionState {
  const [state, setState] = useState<SessionState>({ session: undefined, hasExpired: false });
  useEffect(() => {
    const { data } = supabase.auth.onAuthStateChange((event, session) => {
      setState((previous) => ({
        session,
        hasExpired: event === "SIGNED_OUT"
          ? previous.session !== null && !isLeaving
          : !session && previous.hasExpired,
      }));
    });
    return () => data.subscription.unsubscribe();
  }, []);
  return state;
}

export async function signIn(email: string, password: string): Promise<void> {
  const { error } = await supabase.auth.signInWithPassword({ email, password });
  if (error) throw new RequestError(explain(error));
}

/** Ends the session in this browser; those on other machines go on. */
export async function signOut(): Promise<void> {
  isLeaving = true;
  const { error } = await supabase.auth.signOut({ scope: "local" });
  isLeaving = false;
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
