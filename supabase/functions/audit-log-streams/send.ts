import type { Answer, Outgoing } from "./destinations/destination.ts";
import { addressesOf, hostOf, isLocal, refusalOf } from "./addresses.ts";
import { exchange, tunnel } from "./http1.ts";

export interface SendOptions {
  /** Hosts of this project. Nothing is sent to them, nor to names under them. */
  ownHosts: string[];
  /** A proxy with a fixed address: `http://USER:PASSWORD@HOST:PORT`. */
  proxy?: URL;
  /** DANGER: for local runs. A stream to https://localhost:PORT then calls this machine, without TLS. */
  allowsLoopback?: boolean;
  /** Tests have names, addresses and an authority of their own. */
  resolve?: (name: string) => Promise<string[]>;
  isAllowed?: (address: string) => boolean;
  caCerts?: string[];
}

/**
 * Sends a request to an address that was checked, and to no other. It follows no redirect. When `signal` is aborted, it
 * closes the connection and throws the reason.
 *
 * @throws {Error} if the URL is refused, or there is no whole answer.
 */
export async function send(
  request: Outgoing,
  options: SendOptions,
  signal: AbortSignal,
): Promise<Answer> {
  const { url } = request;
  const why = refusalOf(url, options);
  if (why) throw new Error(`the URL is refused: ${why}`);
  const open: Deno.Conn[] = [];
  const close = () => {
    for (const connection of open.splice(0)) {
      try {
        connection.close();
      } catch { /* It is closed already, or TLS has taken it over. */ }
    }
  };
  /** Has a connection closed at the end, or at once if that was before. */
  function keep<T extends Deno.Conn>(connection: T): T {
    open.push(connection);
    if (signal.aborted) close();
    return connection;
  }
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  const answer = connect(url, options, signal, keep).then((connection) =>
    exchange(connection, request)
  );
  // After an abort, nobody awaits it.
  answer.catch(() => {});
  return await Promise.race([answer, aborted.promise]).finally(() => {
    signal.removeEventListener("abort", abort);
    close();
  });
}

type Keep = <T extends Deno.Conn>(connection: T) => T;

/** Connects to the first address that answers, or has a proxy do so, and has TLS check the name. */
async function connect(
  url: URL,
  options: SendOptions,
  signal: AbortSignal,
  keep: Keep,
): Promise<Deno.Conn> {
  const { caCerts, proxy } = options;
  const port = Number(url.port || 443);
  let failure: unknown;
  for (const address of await addressesOf(url, options)) {
    try {
      const connection = await connectTo(address, port, proxy, keep);
      connection.setNoDelay();
      if (isLocal(url, options)) return connection;
      const tls = keep(
        await Deno.startTls(connection, { hostname: hostOf(url), ...caCerts && { caCerts } }),
      );
      await tls.handshake();
      return tls;
    } catch (error) {
      failure = error;
    }
    signal.throwIfAborted();
  }
  throw failure;
}

/** The proxy is told the address that was checked, not the name, which it might resolve to another. */
async function connectTo(
  address: string,
  port: number,
  proxy: URL | undefined,
  keep: Keep,
): Promise<Deno.TcpConn> {
  if (!proxy) return keep(await Deno.connect({ hostname: address, port }));
  const connection = keep(
    await Deno.connect({ hostname: proxy.hostname, port: Number(proxy.port || 80) }),
  );
  await tunnel(connection, proxy, `${address.includes(":") ? `[${address}]` : address}:${port}`);
  return connection;
}
