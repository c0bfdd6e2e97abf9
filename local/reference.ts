import { renderReference } from "../docs/reference.ts";

/** Its own script and styles, and nobody to speak to. */
const POLICY = [
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "worker-src blob:",
  "style-src 'unsafe-inline'",
  "img-src data:",
  "font-src data:",
  "frame-ancestors 'none'",
].join("; ");

let page: Promise<string> | undefined;

/** Answers with the reference page of a stack. Rendered when first asked for: two seconds. */
export async function serveReference(apiUrl: string): Promise<Response> {
  page ??= renderReference(apiUrl).catch((error) => {
    page = undefined;
    throw error;
  });
  return new Response(await page, {
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": POLICY,
      "Cache-Control": "no-cache",
      "X-Content-Type-Options": "nosniff",
    },
  });
}
