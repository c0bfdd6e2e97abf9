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
  /** Has a connection closed at the end, or at once if that was before. */
  function keep<T extends Deno.Conn>(connection: T): T {
    open.push(connection);
    if (signal.aborted) closeAll(open);
    return connection;
  }
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  const answer = connect(url, options, keep).then((connection) => exchange(connection, request));
  // After an abort, nobody awaits it.
  answer.catch(() => {});
  try {
    return await Promise.race([answer, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    closeAll(open);
  }
}

type Keep = <T extends Deno.Conn>(connection: T) => T;

/** Connects to the first address that answers, and has TLS check the name. */
async function connect(url: URL, options: SendOptions, keep: Keep): Promise<Deno.Conn> {
  const port = Number(url.port || 443);
  const addresses = await addressesOf(url, options);
  let [connection, failure]: [Deno.TcpConn | undefined, unknown] = [undefined, undefined];
  for (const address of addresses) {
    connection = await connectTo(address, port, options.proxy, keep)
      .catch((error) => void (failure = error));
    if (connection) break;
  }
  if (!connection) throw failure;
  connection.setNoDelay();
  if (isLocal(url, options)) return connection;
  const { caCerts } = options;
  const tls = keep(
    await Deno.startTls(connection, { hostname: hostOf(url), ...caCerts && { caCerts } }),
  );
  await tls.handshake();
  return tls;
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

function closeAll(connections: Deno.Conn[]): void {
  for (const connection of connections.splice(0)) {
    try {
      connection.close();
    } catch { /* It is closed already, or TLS has taken it over. */ }
  }
}
