import type { AuthError, Provider } from "@supabase/auth-js";
import { auth, IS_EMBEDDED, NO_ANSWER, RequestError } from "../shared/transport.ts";

// The ways to sign in. Each throws a RequestError that says what to do.

export async function signInWithPassword(email: string, password: string): Promise<void> {
  settle(await auth.signInWithPassword({ email, password }));
}

/** Sends a code to sign in with, if there is an account with this address; none is made. */
export async function sendCode(email: string): Promise<void> {
  const { error } = await auth.signInWithOtp({ email, options: { shouldCreateUser: false } });
  // Auth tells who has no account. This page does not.
  if (error && error.code !== "otp_disabled" && error.code !== "user_not_found") settle({ error });
}

/** `magiclink`, because Supabase Lite refuses `email`; Auth takes both. */
export async function signInWithCode(email: string, code: string): Promise<void> {
  settle(await auth.verifyOtp({ email, token: code.trim(), type: "magiclink" }));
}

/** Where the person was before they went to a provider, in this tab only. */
const RETURN = "audit-log-console-return";

/** Leaves for a provider, which sends the person back with a code. */
export async function signInWithProvider(provider: string): Promise<void> {
  leave();
  settle(
    await auth.signInWithOAuth({ provider: provider as Provider, options: { redirectTo: here() } }),
  );
}

/** Leaves for the identity provider of a domain of e-mail addresses. */
export async function signInWithDomain(domain: string): Promise<void> {
  leave();
  settle(await auth.signInWithSSO({ domain, options: { redirectTo: here() } }));
}

function here(): string {
  return `${location.origin}${location.pathname}`;
}

function leave(): void {
  sessionStorage.setItem(RETURN, location.hash);
}

/** Whether the page was opened by Auth's answer. Read now, because auth-js takes the code out of the address. */
let isAnswer = /[?#&](code|error|access_token)=/.test(location.href);

/**
 * After the way back from a provider: cleans the address of what Auth has added, and goes where the person was.
 * Returns whether they come from there. Nothing that the address says is ever shown.
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

export async function sendRecoveryCode(email: string): Promise<void> {
  settle(await auth.resetPasswordForEmail(email));
}

/** Throws what Auth refused, in words that say what to do. */
export function settle({ error }: { error: AuthError | null }): void {
  if (error) throw new RequestError(explain(error));
}

export function explain(error: AuthError): string {
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
    case "mfa_verification_failed":
      return "The code is wrong. Codes change every 30 seconds: type the one that your app shows now.";
    case "sso_provider_not_found":
      return "No identity provider is set up for this domain. Sign in in another way, or ask your administrator.";
    case "weak_password":
    case "same_password":
    case "validation_failed":
      return `${error.message.replace(/\.$/, "")}.`;
  }
  if (!error.status) return NO_ANSWER;
  return `The server could not do it (${error.status}). Try again in a minute.`;
}
