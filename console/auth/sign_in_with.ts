import type { AuthError, Provider } from "@supabase/auth-js";
import { auth, NO_ANSWER, RequestError } from "../shared/transport.ts";

/** Sends a code to sign in with to an e-mail that has an account. It makes no account. */
export async function sendCode(email: string): Promise<void> {
  const { error } = await auth.signInWithOtp({ email, options: { shouldCreateUser: false } });
  // Auth tells whether an e-mail has an account. This page must not.
  if (error?.code !== "otp_disabled" && error?.code !== "user_not_found") settle({ error });
}

export async function sendResetCode(email: string): Promise<void> {
  settle(await auth.resetPasswordForEmail(email));
}

/** Where the person was before they went to a provider, in this tab only. */
const RETURN = "audit-log-console-return";

/** Leaves for a provider, which sends the person back with a code. */
export async function signInWithProvider(id: string): Promise<void> {
  sessionStorage.setItem(RETURN, location.hash);
  const options = { redirectTo: here() };
  settle(await auth.signInWithOAuth({ provider: id as Provider, options }));
}

/** Leaves for the identity provider of an e-mail or its domain. */
export async function signInWithDomain(emailOrDomain: string): Promise<void> {
  sessionStorage.setItem(RETURN, location.hash);
  const domain = emailOrDomain.replace(/^.*@/, "");
  settle(await auth.signInWithSSO({ domain, options: { redirectTo: here() } }));
}

function here(): string {
  return `${location.origin}${location.pathname}`;
}

/** Whether Auth has added its answer to the address. Read at once, because auth-js removes the code. */
let isAnswer = /[?#&](code|error|access_token)=/.test(location.href);

/**
 * Removes Auth's answer from the address, and goes back to where the person was before they left for a provider.
 * Returns whether they come from a provider. The console never shows a text out of the address.
 */
export function comeBack(): boolean {
  const hash = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  const hasComeBack = isAnswer && hash !== null;
  if (isAnswer) history.replaceState(null, "", here() + (hash ?? ""));
  isAnswer = false;
  return hasComeBack;
}

/** Returns what Auth answered, or throws an error that says what to do. */
export function settle<Answer extends { data?: unknown; error: AuthError | null }>(answer: Answer) {
  if (answer.error) throw new RequestError(explain(answer.error));
  return answer.data as NonNullable<Answer["data"]>;
}

const TOO_MANY = "There were too many attempts. Wait a few minutes, then try again.";
const EXPLANATIONS: Record<string, string> = {
  invalid_credentials: "E-mail or password is wrong.",
  email_not_confirmed: "Confirm this e-mail address first: open the link in the message to you.",
  over_request_rate_limit: TOO_MANY,
  over_email_send_rate_limit: TOO_MANY,
  otp_expired: "The code is wrong, or it has expired.",
  mfa_verification_failed:
    "The code is wrong. Codes change every 30 seconds: type the one that your app shows now.",
  sso_provider_not_found:
    "This domain has no identity provider. Sign in in another way, or ask your administrator.",
};
/** With these codes, Auth's own message says what to change. */
const EXPLAINED_BY_AUTH = ["weak_password", "same_password", "validation_failed"];

export function explain({ code = "", message, status }: AuthError): string {
  if (EXPLAINED_BY_AUTH.includes(code)) return `${message.replace(/\.$/, "")}.`;
  if (EXPLANATIONS[code]) return EXPLANATIONS[code];
  return status ? `The server failed (${status}). Try again in a minute.` : NO_ANSWER;
}
