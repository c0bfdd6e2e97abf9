import { renderReference } from "../docs/reference.ts";
import type { ServeConsole } from "./console.ts";
import { METHODS } from "./data_api.ts";
import { problem } from "../supabase/functions/public-audit-log/problem.ts";

export interface GatewayOptions {
  port: number;
  dataApi: (request: Request) => Response | Promise<Response>;
  auth: (request: Request) => Response | Promise<Response>;
  /** The Edge Function's own process listens here. */
  functionPort: number;
  serveConsole: ServeConsole;
  log: (text: string) => void;
}

/** Serves everything on one port: the paths of a hosted project, the console at the root, and `/docs`. */
export function startGateway(options: GatewayOptions): Deno.HttpServer {
  const { port, dataApi, auth, functionPort, serveConsole, log } = options;
  return Deno.serve(
    { hostname: "127.0.0.1", port, onListen: () => {} },
    (request, { remoteAddr }) => {
      const url = URL.parse(request.url);
      if (!url) return Response.json({ message: "the Host header names no host" }, { status: 400 });
      if (url.pathname.startsWith("/rest/v1/")) return dataApi(request);
      if (url.pathname.startsWith("/auth/v1/")) return auth(request);
      if (/^\/functions\/v1\/public-audit-log(\/|$)/.test(url.pathname)) {
        // The API key must not leave this machine, so the host that the request names does not matter.
        const path = url.pathname.slice("/functions/v1".length);
        const target = new URL(`http://127.0.0.1:${functionPort}${path}${url.search}`);
        return forward(target, request, remoteAddr.hostname).catch((error) => {
          log(`public-audit-log does not answer: ${error}\n`);
          return problem("internal_error", crypto.randomUUID());
        });
      }
      if (/^\/docs\/?$/.test(url.pathname)) return serveReference(`http://127.0.0.1:${port}`);
      return serveConsole(url.pathname) ??
        Response.json({ message: `no route for ${url.pathname}` }, { status: 404 });
    },
  );
}

async function forward(url: URL, request: Request, address: string): Promise<Response> {
  // fetch refuses some other methods (TRACE) and rewrites some (get). The function answers all of them alike.
  const method = METHODS.includes(request.method) ? request.method : "OPTIONS";
  const body = method === "OPTIONS" ? null : request.body;
  const headers = new Headers(request.headers);
  // Like Supabase's proxy, overwrites what the caller sent.
  headers.set("CF-Connecting-IP", address);
  return await fetch(url, { method, headers, body, redirect: "manual" });
}

/** The reference has its own script and styles, and calls nobody. */
const REFERENCE_POLICY = [
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "worker-src blob:",
  "style-src 'unsafe-inline'",
  "img-src data:",
  "font-src data:",
  "frame-ancestors 'none'",
].join("; ");

let reference: Promise<string> | undefined;

/** Answers with the reference page of a stack. Rendering takes two seconds, so it waits for the first request. */
async function serveReference(apiUrl: string): Promise<Response> {
  reference ??= renderReference(apiUrl).catch((error) => {
    reference = undefined;
    throw error;
  });
  return new Response(await reference, {
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": REFERENCE_POLICY,
      "Cache-Control": "no-cache",
      "X-Content-Type-Options": "nosniff",
    },
  });
}
