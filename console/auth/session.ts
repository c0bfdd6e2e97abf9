import type { AuthChangeEvent, Session } from "@supabase/auth-js";
import { useEffect, useState } from "react";
import { auth, RequestError, STORAGE, STORAGE_KEY } from "../shared/transport.ts";
import { comeBack, explain, settle } from "./sign_in_with.ts";

export interface SessionState {
  /** `undefined` until it is read, `null` when nobody has signed in. */
  session: Session | null | undefined;
  /** Why the person has to sign in again, if not by their own doing. */
  reason: string;
}

const ENDED = "Your session has ended. Sign in again.";
const ENDED_ELSEWHERE = "You were signed out elsewhere. Sign in again.";
/** Why the session may end next. Empty when the person ends it in this tab. */
let cause = ENDED;

/** The person's session. auth-js keeps it in this browser, and renews it. */
export function useSession(): SessionState {
  const [state, setState] = useState<SessionState>({ session: undefined, reason: "" });
  useEffect(() => {
    const { data } = auth.onAuthStateChange((event, session) => {
      // A recovery code signs in at once. The console waits until the new password is set.
      if (isRecovering && session) return;
      // Either event may be the first. The router reads the address afterwards.
      const hasComeBack = /^(INITIAL_SESSION|SIGNED_IN)$/.test(event) && comeBack();
      // Read now: when the state is set, the cause is another.
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

/** Asks Auth whether the session still exists. If it was ended elsewhere, it ends here, too. */
export async function checkSession(): Promise<boolean> {
  cause = ENDED_ELSEWHERE;
  const { error } = await auth.getUser();
  if (error?.status === 401 || error?.status === 403) await auth.signOut({ scope: "local" });
  if (cause === ENDED_ELSEWHERE) cause = ENDED;
  return !error;
}

let isRecovering = false;

/** Sets a new password with the code in the message. A link would sign in whoever follows it. */
export async function resetPassword(email: string, token: string, password: string): Promise<void> {
  isRecovering = true;
  const verified = await auth.verifyOtp({ email, token, type: "recovery" });
  isRecovering = false;
  settle(verified);
  const updated = await auth.updateUser({ password });
  if (updated.error) {
    await auth.signOut({ scope: "local" });
    throw new RequestError(`${explain(updated.error)} Ask for a new code.`);
  }
  await auth.signOut({ scope: "others" });
}
