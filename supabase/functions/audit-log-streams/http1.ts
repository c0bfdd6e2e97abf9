// HTTP/1.1 over a connection that is there already (RFC 9112): one request, one answer. fetch cannot be told which address
// to connect to, and node:https ignores `lookup`, `createConnection` and `servername` in Deno 2.1.4.

import type { Answer, Outgoing } from "./destinations/destination.ts";

/** The most bytes of an answer's head, and of all of it. Elasticsearch has an error for each of 1,000 entries. */
const MOST_OF_HEAD = 65_536;
const MOST = 1_000_000;
/** An answer of one byte a packet costs more processor time than its bytes do. */
const MOST_READS = 5_000;
/** So do headers and chunks of one byte. */
const MOST_LINES = 5_000;
/** 4,000 headers of different names would take 25 times the processor time of a batch. */
const MOST_HEADERS = 200;

class Reader {
  #buffer = new Uint8Array(16_384);
  /** What is read and not taken. */
  #start = 0;
  #end = 0;
  #reads = 0;
  #lines = 0;
  /** How many bytes may be read. */
  most = MOST_OF_HEAD;

  constructor(readonly connection: Deno.Conn) {}

  /** Reads more. Returns false at the end. */
  async more(): Promise<boolean> {
    if (this.#end === this.#buffer.length) {
      if (this.#end >= this.most) throw new Error("its answer is too long");
      const longer = new Uint8Array(Math.min(this.#buffer.length * 2, MOST));
      longer.set(this.#buffer);
      this.#buffer = longer;
    }
    if (++this.#reads > MOST_READS) throw new Error("its answer comes in too many pieces");
    const count = await this.connection.read(this.#buffer.subarray(this.#end));
    this.#end += count ?? 0;
    return count !== null;
  }

  async line(): Promise<string> {
    if (++this.#lines > MOST_LINES) throw new Error("its answer is too long");
    for (let from = this.#start;;) {
      const end = this.#buffer.subarray(0, this.#end).indexOf(10, from);
      if (end >= 0) return new TextDecoder().decode(this.take(end + 1 - this.#start)).trimEnd();
      from = this.#end;
      if (!await this.more()) throw new Error(CUT);
    }
  }

  async exactly(length: number): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#end - this.#start < length) {
      if (!await this.more()) throw new Error(CUT);
    }
    return this.take(length);
  }

  async untilEnd(): Promise<Uint8Array<ArrayBuffer>> {
    while (await this.more());
    return this.take(this.#end - this.#start);
  }

  take(length: number): Uint8Array<ArrayBuffer> {
    this.#start += length;
    return this.#buffer.slice(this.#start - length, this.#start);
  }
}

/** Headers of the connection, which a secret of headers must not set: a second way to say where a body ends smuggles. */
const OF_CONNECTION = [
  "host",
  "transfer-encoding",
  "te",
  "trailer",
  "upgrade",
  "expect",
  "keep-alive",
];

const CUT = "it closed the connection before its answer was whole";

function notHttp(where: string): never {
  throw new Error(`it does not speak HTTP/1.1: ${where}`);
}

async function readHead(reader: Reader): Promise<{ status: number; headers: Headers }> {
  for (;;) {
    const [, digits] = (await reader.line()).match(/^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/) ?? [];
    if (!digits) notHttp("its status line");
    const headers = new Headers();
    for (let line, n = 0; (line = await reader.line()) !== "";) {
      if (++n > MOST_HEADERS) throw new Error("its answer has too many headers");
      const [, name, value = ""] = line.match(/^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/) ?? [];
      if (!name) notHttp("a header");
      // Headers takes no other characters, and nobody needs them.
      headers.append(name, value.replaceAll(/[^\t -~]/g, "?"));
    }
    // 100 and 103 come before the answer.
    if (Number(digits) >= 200) return { status: Number(digits), headers };
  }
}

async function readBody(reader: Reader, status: number, headers: Headers): Promise<Uint8Array> {
  reader.most = MOST;
  const [coding, length] = [headers.get("Transfer-Encoding"), headers.get("Content-Length")];
  if (status === 204 || status === 304) return new Uint8Array();
  if (coding?.toLowerCase() === "chunked") return await readChunks(reader);
  if (coding !== null) notHttp("an unknown transfer coding");
  if (length === null) return await reader.untilEnd();
  if (!/^\d{1,9}$/.test(length)) notHttp("its length");
  return await reader.exactly(Number(length));
}

async function readChunks(reader: Reader): Promise<Uint8Array> {
  const chunks: BlobPart[] = [];
  for (;;) {
    const [, digits] = (await reader.line()).match(/^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i) ?? [];
    if (!digits) notHttp("a chunk");
    const size = parseInt(digits, 16);
    if (size === 0) return await new Blob(chunks).bytes();
    chunks.push(await reader.exactly(size));
    if (await reader.line() !== "") notHttp("a chunk");
  }
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
}

/**
 * Sends a request and reads its answer.
 *
 * @throws {Error} if the answer is too long, cut off, or not HTTP/1.1.
 */
export async function exchange(connection: Deno.Conn, request: Outgoing): Promise<Answer> {
  const { method, url, body } = request;
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  // Headers refuses line breaks in names and values.
  const headers = new Headers({ "user-agent": "public-audit-log", ...request.headers });
  headers.set("connection", "close");
  headers.set("content-length", String(body.length));
  for (const name of OF_CONNECTION) headers.delete(name);
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  const head = new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
  let failure: unknown;
  const writing = writeAll(connection, head).then(() => writeAll(connection, body))
    .catch((error) => failure = error);
  const reader = new Reader(connection);
  try {
    // A server may answer and close before it has read all. Its answer counts.
    const { status, headers } = await readHead(reader);
    const text = new TextDecoder().decode(await readBody(reader, status, headers));
    return { status, headers, body: text };
  } catch (error) {
    await Promise.race([writing, Promise.resolve()]);
    throw failure ?? error;
  }
}

/** Asks a proxy for a way to an address (RFC 9110, 9.3.6). Its own answer ends with its head. */
export async function tunnel(connection: Deno.Conn, proxy: URL, to: string): Promise<void> {
  const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  const authorization = proxy.username ? `Proxy-Authorization: Basic ${btoa(login)}\r\n` : "";
  const head = `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${authorization}\r\n`;
  await writeAll(connection, new TextEncoder().encode(head));
  const { status } = await readHead(new Reader(connection));
  if (status !== 200) throw new Error(`the proxy answers ${status}`);
}
