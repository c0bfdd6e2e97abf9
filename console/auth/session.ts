import type { AuthChangeEvent, Session } from "@supabase/auth-js";
import { useEffect, useState } from "react";
import { auth, RequestError, STORAGE, STORAGE_KEY } from "../shared/transport.ts";
import { comeBack, explain, settle } from "./sign_in_with.ts";

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
      // Either may be the first. Before the router reads the address.
      const hasComeBack = /^(INITIAL_SESSION|SIGNED_IN)$/.test(event) && comeBack();
      // Now: by the time that the state is set, the cause is another.
      const next = { session, reason: session ? "" : reason(event, hasComeBack) };
      // auth-js may tell the end of a session twice.
      setState((previous) => session === null && previous.session === null ? previous : next);
    });
    return () => data.subscription.unsubscribe();
  }, []);
  return state;
}

function reason(event: AuthChangeEvent, hasComeBack: boolean): string {
  if (event === "SIGNED_OUT") return cause;
  if (event !== "INITIAL_SESSION") return "";
  if (hasComeBack) return "The provider did not sign you in. Try again, or sign in in another way.";
  return STORAGE?.getItem(STORAGE_KEY)
    ? "Your session could not be renewed: no answer from the server. Reload, or sign in again."
    : "";
}

/** Whether the person has a second factor and has not used it in this session. */
export function needsSecondFactor({ user, access_token }: Session): boolean {
  if (!user.factors?.some(({ status }) => status === "verified")) return false;
  const payload = access_token.split(".")[1]?.replaceAll("-", "+").replaceAll("_", "/") ?? "";
  const claims: unknown = JSON.parse(atob(payload));
  return !(typeof claims === "object" && claims && "aal" in claims && claims.aal === "aal2");
}

/** Ends the session in this browser (`local`), or all sessions of the person (`global`). */
export async function signOut(scope: "local" | "global"): Promise<void> {
  cause = "";
  settle(await auth.signOut({ scope }).finally(() => cause = ENDED));
}

/** Asks Auth whether the session still exists; auth-js ends it here if it was ended elsewhere. */
export async function checkSession(): Promise<boolean> {
  cause = ENDED_ELSEWHERE;
  const { error } = await auth.getUser();
  if (error?.status === 401 || error?.status === 403) await auth.signOut({ scope: "local" });
  if (cause === ENDED_ELSEWHERE) cause = ENDED;
  return !error;
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
  settle(verified);
  const updated = await auth.updateUser({ password });
  if (updated.error) {
    await auth.signOut({ scope: "local" });
    throw new RequestError(`${explain(updated.error)} Ask for a new code.`);
  }
  await auth.signOut({ scope: "others" });
}
