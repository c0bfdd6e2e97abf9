import type { AuthError, Provider } from "@supabase/auth-js";
import { auth, IS_EMBEDDED, NO_ANSWER, RequestError } from "../shared/transport.ts";

/** Sends a code to sign in with, if the address has an account. It makes none. */
export async function sendCode(email: string): Promise<void> {
  const { error } = await auth.signInWithOtp({ email, options: { shouldCreateUser: false } });
  // Auth tells who has no account. This page does not.
  if (error?.code !== "otp_disabled" && error?.code !== "user_not_found") settle({ error });
}

/** Where the person was before they went to a provider, in this tab only. */
const RETURN = "audit-log-console-return";

/** Leaves for a provider, which sends the person back with a code. */
export async function signInWithProvider(id: string): Promise<void> {
  sessionStorage.setItem(RETURN, location.hash);
  const options = { redirectTo: here() };
  settle(await auth.signInWithOAuth({ provider: id as Provider, options }));
}

/** Leaves for the identity provider of an e-mail address or its domain. */
export async function signInWithDomain(address: string): Promise<void> {
  sessionStorage.setItem(RETURN, location.hash);
  const domain = address.replace(/^.*@/, "");
  settle(await auth.signInWithSSO({ domain, options: { redirectTo: here() } }));
}

function here(): string {
  return `${location.origin}${location.pathname}`;
}

/** Whether Auth's answer is in the address. Read at once, because auth-js takes the code out of it. */
let isAnswer = /[?#&](code|error|access_token)=/.test(location.href);

/**
 * After the way back from a provider: removes what Auth has added to the address, and goes where the person was.
 * Returns whether they come from a provider. Nothing that the address says is ever shown.
 */
export function comeBack(): boolean {
  if (IS_EMBEDDED) return false;
  const hash = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  const hasComeBack = isAnswer && hash !== null;
  if (isAnswer) history.replaceState(null, "", here() + (hash ?? ""));
  isAnswer = false;
  return hasComeBack;
}

/** Throws what Auth refused, in words that say what to do. */
export function settle({ error }: { error: AuthError | null }): void {
  if (error) throw new RequestError(explain(error));
}

const EXPLANATIONS: Record<string, string> = {
  invalid_credentials: "E-mail or password is wrong.",
  email_not_confirmed:
    "This e-mail address is not confirmed yet. Open the link in the message you were sent.",
  over_request_rate_limit: "Too many attempts. Wait a few minutes, then try again.",
  over_email_send_rate_limit: "Too many attempts. Wait a few minutes, then try again.",
  otp_expired: "The code is wrong, or it has expired.",
  mfa_verification_failed:
    "The code is wrong. Codes change every 30 seconds: type the one that your app shows now.",
  sso_provider_not_found:
    "No identity provider is set up for this domain. Sign in in another way, or ask your administrator.",
};
/** With these codes, Auth's own words say what to change. */
const EXPLAINED_BY_AUTH = ["weak_password", "same_password", "validation_failed"];

export function explain({ code = "", message, status }: AuthError): string {
  if (EXPLAINED_BY_AUTH.includes(code)) return `${message.replace(/\.$/, "")}.`;
  if (EXPLANATIONS[code]) return EXPLANATIONS[code];
  return status ? `The server could not do it (${status}). Try again in a minute.` : NO_ANSWER;
}
