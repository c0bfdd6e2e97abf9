export interface Loopback extends AsyncDisposable {
  /** Without a slash at its end. */
  url: string;
}

/** Makes a body that breaks off after these bytes, and its connection with it. */
export function hangUp(bytes: Uint8Array): ReadableStream {
  return new ReadableStream({
    start: (controller) => controller.enqueue(bytes),
    pull: (controller) => controller.error("The test hangs up"),
  });
}

/** Answers requests on loopback until it is disposed of; with a certificate for *.example.net, at such a name. */
export function serveOnLoopback(
  answer: (request: Request) => Response | Promise<Response>,
  certificate?: { cert: string; key: string },
): Loopback {
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {}, ...certificate };
  const server = Deno.serve(options, answer);
  const { port } = server.addr;
  return {
    url: certificate ? `https://hook.example.net:${port}` : `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
