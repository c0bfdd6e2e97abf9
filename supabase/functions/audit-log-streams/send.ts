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

/** Connections that were given up before their host answered TLS. Deno closes one only when the other side does. */
const unanswered = new Map<Deno.Conn, string>();
const MOST_OPEN = 5;

/**
 * Sends a request to an address that was checked, and to no other. It follows no redirect. Throws if the URL is refused,
 * or there is no whole answer. When `signal` is aborted, it closes the connection and throws the reason.
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
  const attempt = { signal, aborted: aborted.promise, keep };
  const answer = connect(url, options, attempt).then((connection) => exchange(connection, request));
  // After an abort, nobody awaits it.
  answer.catch(() => {});
  return await Promise.race([answer, aborted.promise]).finally(() => {
    signal.removeEventListener("abort", abort);
    close();
  });
}

interface Attempt {
  signal: AbortSignal;
  /** Rejects then. */
  aborted: Promise<never>;
  keep: <T extends Deno.Conn>(connection: T) => T;
}

/** Connects to the first address that answers, or has a proxy do so, and has TLS check the name. */
async function connect(url: URL, options: SendOptions, attempt: Attempt): Promise<Deno.Conn> {
  const { proxy } = options;
  const port = Number(url.port || 443);
  const toProxy = proxy && { hostname: proxy.hostname, port: Number(proxy.port || 80) };
  let failure: unknown;
  for (const address of await addressesOf(url, options)) {
    try {
      const connection = attempt.keep(await Deno.connect(toProxy ?? { hostname: address, port }));
      // Not the name, which the proxy might resolve to another address.
      const checked = address.includes(":") ? `[${address}]` : address;
      if (proxy) await tunnel(connection, proxy, `${checked}:${port}`);
      connection.setNoDelay();
      connection.setKeepAlive();
      if (isLocal(url, options)) return connection;
      const secured = beginTls(connection, hostOf(url), options, attempt);
      return await Promise.race([secured, attempt.aborted]);
    } catch (error) {
      failure = error;
    }
    attempt.signal.throwIfAborted();
  }
  throw failure;
}

async function beginTls(
  connection: Deno.TcpConn,
  hostname: string,
  { caCerts }: SendOptions,
  { signal, keep }: Attempt,
): Promise<Deno.Conn> {
  if ([...unanswered.values()].filter((host) => host === hostname).length >= MOST_OPEN) {
    throw new Error(`it has not answered TLS on ${MOST_OPEN} connections that are still open`);
  }
  const tls = await Deno.startTls(connection, { hostname, ...caCerts && { caCerts } });
  const giveUp = () => unanswered.set(tls, hostname);
  if (signal.aborted) giveUp();
  else signal.addEventListener("abort", giveUp);
  await tls.handshake().finally(() => {
    signal.removeEventListener("abort", giveUp);
    unanswered.delete(tls);
    keep(tls);
  });
  return tls;
}
