import { auth } from "../shared/transport.ts";

/** The one origin whose pages may have this page in a frame. If it is empty, no page may. */
export const FRAME_ANCESTOR = import.meta.env.VITE_FRAME_ANCESTOR ?? "";

/**
 * Takes the session from the page around this one, and keeps it in memory. The page sends it after the message
 * "audit-log-console:ready", and again each time that it has a new one.
 */
export function listenToAncestor(): void {
  addEventListener("message", ({ origin, source, data }) => {
    if (origin !== FRAME_ANCESTOR || source !== parent) return;
    if (data?.type !== "audit-log-console:session") return;
    const access_token = String(data.access_token);
    // Only that page renews the session. If both did, Auth would end it.
    void auth.setSession({ access_token, refresh_token: "none" });
  });
  // The browser gives this to a page of that origin only.
  parent.postMessage({ type: "audit-log-console:ready" }, FRAME_ANCESTOR);
}
