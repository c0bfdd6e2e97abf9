import * as z from "zod/mini";
import { auth } from "../shared/transport.ts";

/** The one origin whose pages may have this page in a frame. If it is empty, no page may. */
export const FRAME_ANCESTOR = import.meta.env.VITE_FRAME_ANCESTOR ?? "";

const MESSAGE = z.object({
  type: z.literal("audit-log-console:session"),
  access_token: z.string(),
});

/**
 * Takes the session from the page around this one, and keeps it in memory. The page sends it after the message
 * "audit-log-console:ready", and again each time that it has a new one.
 */
export function listenToAncestor(): void {
  addEventListener("message", ({ origin, source, data }) => {
    if (origin !== FRAME_ANCESTOR || source !== parent) return;
    const { data: message } = z.safeParse(MESSAGE, data);
    // Only that page renews the session. If both did, Auth would end it.
    if (message) void auth.setSession({ ...message, refresh_token: "none" });
  });
  // The browser gives this to a page of that origin only.
  parent.postMessage({ type: "audit-log-console:ready" }, FRAME_ANCESTOR);
}
