import { isAuthRetryableFetchError } from "@supabase/auth-js";
import { auth, NO_ANSWER, RequestError } from "../shared/transport.ts";

/** The one origin whose pages may have this page in a frame. If it is empty, no page may. */
export const FRAME_ANCESTOR = import.meta.env.VITE_FRAME_ANCESTOR ?? "";

const REFUSED = "The page around this one gave a session that has ended or is not valid. " +
  "Sign in there again, then try again.";

/**
 * Takes the session from the page around this one, and keeps it in memory. The page sends it after the message
 * "audit-log-console:ready", and again each time that it has a new one. Returns a function that ends this.
 */
export function listenToAncestor(onAnswer: (refusal: Error | null) => void): () => void {
  async function listen({ origin, source, data }: MessageEvent) {
    if (origin !== FRAME_ANCESTOR || source !== parent) return;
    if (data?.type !== "audit-log-console:session") return;
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
