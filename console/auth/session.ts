import type { AuthChangeEvent, Session, User } from "@supabase/auth-js";
import { useEffect, useState } from "react";
import { auth, RequestError, STORAGE_KEY } from "../shared/transport.ts";
import { comeBack, explain, settle } from "./sign_in_with.ts";

interface SessionState {
  /** `undefined` until it is read, `null` when nobody has signed in. */
  session: Session | null | undefined;
  /** Whose screens stay, below the sign-in if their session has ended by itself, so that nothing typed is lost. */
  person: User | null;
  /** Why the session ended, unless the person ended it in this tab. */
  reason: string;
}

const ENDED = "Your session has ended. Sign in again.";
const ENDED_ELSEWHERE = "You were signed out elsewhere. Sign in again.";
/** The reason to give when the session ends. Empty while the person signs out in this tab. */
let cause = ENDED;

/** The person's session. auth-js keeps it in this browser, and renews it. */
export function useSession(): SessionState {
  const [state, setState] = useState<SessionState>({
    session: undefined,
    person: null,
    reason: "",
  });
  useEffect(() => {
    const { data } = auth.onAuthStateChange((event, session) => {
      // A recovery code signs in at once. The console waits for the new password.
      if (isRecovering && session) return;
      // Auth may send INITIAL_SESSION or SIGNED_IN first. The router reads the address after this.
      const isFirst = event === "INITIAL_SESSION" || event === "SIGNED_IN";
      const hasComeBack = isFirst && comeBack();
      // Read now, because `cause` changes before the state is set.
      const next = { session, reason: session ? "" : reason(event, hasComeBack) };
      setState((before) => {
        // auth-js may report the end of a session twice.
        if (session === null && before.session === null) return before;
        return { ...next, person: whoseScreens(before, next) };
      });
    });
    return () => data.subscription.unsubscribe();
  }, []);
  return state;
}

function whoseScreens({ person }: SessionState, { session, reason }: Omit<SessionState, "person">) {
  if (session && !needsSecondFactor(session)) return session.user;
  return (session ? session.user.id === person?.id : reason !== "") ? person : null;
}

function reason(event: AuthChangeEvent, hasComeBack: boolean): string {
  if (event === "SIGNED_OUT") return cause;
  if (event !== "INITIAL_SESSION") return "";
  if (hasComeBack) return "The provider did not sign you in. Try again, or choose another way.";
  return localStorage.getItem(STORAGE_KEY)
    ? "The server did not renew your session. Reload, or sign in again."
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

/** Asks Auth whether the session still exists. If not, the session ends here, too, and this throws. */
export async function checkSession(): Promise<boolean> {
  cause = ENDED_ELSEWHERE;
  const { error } = await auth.getUser();
  const isOver = error?.status === 401 || error?.status === 403;
  if (isOver) await auth.signOut({ scope: "local" });
  if (cause === ENDED_ELSEWHERE) cause = ENDED;
  // Seen by whoever signs in again, where they were.
  if (isOver) throw new RequestError("Your session had ended. Try again.");
  return !error;
}

let isRecovering = false;

/** Sets a new password with the code in the message. Anybody could sign in with a link. */
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
