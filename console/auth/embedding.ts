import { isAuthRetryableFetchError } from "@supabase/auth-js";
import { auth, NO_ANSWER, RequestError } from "../shared/transport.ts";

/** The one origin whose pages may have this page in a frame. If it is empty, no page may. */
export const FRAME_ANCESTOR = import.meta.env.VITE_FRAME_ANCESTOR ?? "";

const REFUSED = "The page around this one gave a session that has ended or is not valid. " +
  "Sign in there again, then try again.";

/** What the page around this one chooses, in the message with the session. */
interface Choices {
  /** The screens to offer. Empty means all. This hides the others, and protects nothing. */
  screens: unknown[];
  /** The address of that page. Links lead there, with the console's address after the #. */
  page: string;
}
export const CHOICES: Choices = { screens: [], page: "" };

function choose({ screens, page }: Record<string, unknown>): void {
  if (Array.isArray(screens)) CHOICES.screens = screens;
  if (typeof page === "string" && page.startsWith(`${FRAME_ANCESTOR}/`)) CHOICES.page = page;
}

/** The link to an address of the console, such as `/<organization>/log`. */
export function linkTo(address: string): string {
  return `${CHOICES.page || location.href.replace(/#.*/, "")}#${address}`;
}

/** Tells the page around this one where the console is, so that its own address can follow. */
export function tellAddress(address: string): void {
  parent.postMessage({ type: "audit-log-console:address", address: `#${address}` }, FRAME_ANCESTOR);
}

/**
 * Takes the session from the page around this one, and keeps it in memory. The page sends it after the message
 * "audit-log-console:ready", and again each time that it has a new one. Returns a function that ends this.
 */
export function listenToAncestor(onAnswer: (refusal: Error | null) => void): () => void {
  async function listen({ origin, source, data }: MessageEvent) {
    if (origin !== FRAME_ANCESTOR || source !== parent) return;
    if (data?.type !== "audit-log-console:session") return;
    choose(data);
    const access_token = String(data.access_token);
    // Only that page renews the session. If both did, Auth would end it.
    const { error } = await auth.setSession({ access_token, refresh_token: "none" });
    onAnswer(error && new RequestError(isAuthRetryableFetchError(error) ? NO_ANSWER : REFUSED));
  }
  addEventListener("message", listen);
  askAncestor();
  return () => removeEventListener("message", listen);
}

/** The browser gives this to a page of that origin only. */
export function askAncestor(): void {
  parent.postMessage({ type: "audit-log-console:ready" }, FRAME_ANCESTOR);
}
