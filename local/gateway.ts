export interface GatewayOptions {
  port: number;
  /** The stand-in for the Data API and Auth. */
  dataApi: (request: Request) => Response | Promise<Response>;
  /** Port of the Edge Function's own process. */
  functionPort: number;
}

/** One port in front of everything, with the paths of a hosted project. */
export function startGateway({ port, dataApi, functionPort }: GatewayOptions): Deno.HttpServer {
  return Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, (request) => {
    const url = new URL(request.url);
    if (/^\/(rest|auth)\/v1\//.test(url.pathname)) return dataApi(request);
    if (/^\/functions\/v1\/public-audit-log(\/|$)/.test(url.pathname)) {
      url.pathname = url.pathname.slice("/functions/v1".length);
      url.port = String(functionPort);
      return forward(url, request);
    }
    return Response.json({ message: `no route for ${url.pathname}` }, { status: 404 });
  });
}

async function forward(url: URL, { method, headers, body }: Request): Promise<Response> {
  try {
    return await fetch(url, { method, headers, body, redirect: "manual" });
  } catch (error) {
    console.error(`public-audit-log does not answer: ${error}`);
    return Response.json({ message: "public-audit-log does not answer" }, { status: 503 });
  }
}
