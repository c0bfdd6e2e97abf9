import { METHODS } from "./data_api.ts";
import { problem } from "../../supabase/functions/public-audit-log/problem.ts";

type Answer = (request: Request) => Response | Promise<Response>;

/** Serves everything on one port: the paths of a hosted project, and the console at the root. */
export function startGateway(options: {
  port: number;
  dataApi: Answer;
  auth: Answer;
  functionPorts: Record<string, number | undefined>;
  serveConsole: (path: string) => Promise<Response | null>;
  log: (text: string) => void;
}): Deno.HttpServer {
  const { port, dataApi, auth, functionPorts, serveConsole, log } = options;
  return Deno.serve(
    { hostname: "127.0.0.1", port, onListen: () => {} },
    async (request, { remoteAddr }) => {
      const url = URL.parse(request.url);
      if (!url) return Response.json({ message: "the Host header names no host" }, { status: 400 });
      if (url.pathname.startsWith("/rest/v1/")) return dataApi(request);
      if (url.pathname.startsWith("/auth/v1/")) return withCors(request, auth);
      const [, name = ""] = url.pathname.match(/^\/functions\/v1\/([^/]+)/) ?? [];
      const functionPort = functionPorts[name];
      if (functionPort) {
        // The API key must not leave this machine, so the host that the request names does not matter.
        const path = url.pathname.slice("/functions/v1".length);
        const target = new URL(`http://127.0.0.1:${functionPort}${path}${url.search}`);
        return forward(target, request, remoteAddr.hostname).catch((error) => {
          log(`${name} does not answer: ${error}\n`);
          return problem("internal_error", { requestId: crypto.randomUUID() });
        });
      }
      return await serveConsole(url.pathname) ??
        Response.json({ message: `no route for ${url.pathname}` }, { status: 404 });
    },
  );
}

/** Lets pages of any origin call Auth, as a hosted project does. The Data API sees to that itself. */
async function withCors(request: Request, auth: Answer): Promise<Response> {
  const asked = request.headers.get("Access-Control-Request-Headers");
  const isPreflight = request.method === "OPTIONS" &&
    request.headers.has("Access-Control-Request-Method");
  const { body, status, headers: given } = isPreflight
    ? new Response(null, { status: 204 })
    : await auth(request);
  const headers = new Headers(given);
  headers.set("Access-Control-Allow-Origin", "*");
  if (isPreflight) headers.set("Access-Control-Allow-Methods", METHODS.join(", "));
  if (asked) headers.set("Access-Control-Allow-Headers", asked);
  return new Response(body, { status, headers });
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
