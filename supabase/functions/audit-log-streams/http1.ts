// HTTP/1.1 over a connection that is there already (RFC 9112): one request, one answer. fetch cannot be told which address
// to connect to, and has no bound on what comes before an answer.

import { Buffer } from "node:buffer";
import type { Answer, Outgoing } from "./destinations/destination.ts";

/** The most bytes of an answer. Elasticsearch has an error for each of 1,000 entries. */
const MOST = 1_000_000;
/** An answer of one byte a packet, or of very many lines, costs more processor time than its bytes do. */
const MOST_READS = 5_000;
const MOST_LINES = 5_000;
/** 4,000 headers of different names would take 25 times the processor time of a batch. */
const MOST_HEADERS = 200;

/** Headers of the connection, which a secret of headers must not set: a second way to say where a body ends smuggles. */
const OF_CONNECTION = "host transfer-encoding te trailer upgrade expect keep-alive".split(" ");

const CUT = "it closed the connection before its answer was whole";
const LONG = "its answer is too long";

class Reader {
  /** What is read and not taken: a character for each byte. */
  #text = "";
  #left = { bytes: MOST, reads: MOST_READS, lines: MOST_LINES };
  #buffer = new Uint8Array(16_384);

  constructor(readonly connection: Deno.Conn) {}

  /** Reads more. Returns false at the end. */
  async more(): Promise<boolean> {
    const count = await this.connection.read(this.#buffer);
    if ((this.#left.bytes -= count ?? 0) < 0) throw new Error(LONG);
    if (--this.#left.reads < 0) throw new Error("its answer comes in too many pieces");
    this.#text += Buffer.from(this.#buffer.subarray(0, count ?? 0)).toString("latin1");
    return count !== null;
  }

  async line(): Promise<string> {
    if (--this.#left.lines < 0) throw new Error(LONG);
    let end;
    while ((end = this.#text.indexOf("\n")) < 0) {
      if (this.#text.length > 65_536) throw new Error(LONG);
      if (!await this.more()) throw new Error(CUT);
    }
    return this.#take(end + 1).trimEnd();
  }

  async exactly(length: number): Promise<string> {
    while (this.#text.length < length) if (!await this.more()) throw new Error(CUT);
    return this.#take(length);
  }

  async untilEnd(): Promise<string> {
    while (await this.more());
    return this.#text;
  }

  #take(length: number): string {
    const text = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    return text;
  }
}

function part(text: string, form: RegExp): string[] {
  const parts = text.match(form);
  // Without the text: it may be the request, with its secret.
  if (!parts) throw new Error("it does not speak HTTP/1.1");
  return parts.slice(1);
}

async function readAnswer(reader: Reader): Promise<Answer> {
  const [digits] = part(await reader.line(), /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/);
  const headers = new Headers();
  for (let line, n = 0; (line = await reader.line()) !== "";) {
    if (++n > MOST_HEADERS) throw new Error("its answer has too many headers");
    const [name = "", value = ""] = part(line, /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/);
    // Headers takes no other characters, and nobody needs them.
    headers.append(name, value.replaceAll(/[^\t -~]/g, "?"));
  }
  const status = Number(digits);
  // 100 and 103 come before the answer.
  if (status < 200) return await readAnswer(reader);
  const body = [204, 304].includes(status) ? "" : await readBody(reader, headers);
  return { status, headers, body: Buffer.from(body, "latin1").toString() };
}

async function readBody(reader: Reader, headers: Headers): Promise<string> {
  const length = headers.get("Content-Length");
  if (!headers.has("Transfer-Encoding")) {
    if (length === null) return await reader.untilEnd();
    return await reader.exactly(Number(part(length, /^(\d{1,9})$/)[0]));
  }
  part(headers.get("Transfer-Encoding") ?? "", /^chunked$/i);
  for (let body = "";;) {
    const [digits = ""] = part(await reader.line(), /^([0-9a-f]{1,8})[ \t]*(?:;.*)?$/i);
    if (parseInt(digits, 16) === 0) return body;
    body += await reader.exactly(parseInt(digits, 16));
    part(await reader.line(), /^$/);
  }
}

async function write(connection: Deno.Conn, ...pieces: Uint8Array[]): Promise<void> {
  for (const bytes of pieces) {
    for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
  }
}

/** Sends a request and reads its answer. Throws an error if that is too long, cut off, or not HTTP/1.1. */
export async function exchange(connection: Deno.Conn, request: Outgoing): Promise<Answer> {
  const { method, url, body } = request;
  // Headers refuses line breaks in names and values.
  const headers = new Headers({ "user-agent": "public-audit-log", ...request.headers });
  for (const name of OF_CONNECTION) headers.delete(name);
  headers.set("connection", "close");
  headers.set("content-length", String(body.length));
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  for (const [name, value] of headers) lines.push(`${name}: ${value}`);
  let failure: unknown;
  const writing = write(connection, Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body)
    .catch((error) => failure = error);
  // A server may answer and close before it has read all. Its answer counts.
  return await readAnswer(new Reader(connection)).catch(async (error) => {
    await Promise.race([writing, Promise.resolve()]);
    throw failure ?? error;
  });
}

/** Asks a proxy for a way to an address (RFC 9110, 9.3.6). */
export async function tunnel(connection: Deno.Conn, proxy: URL, to: string): Promise<void> {
  const login = btoa(`${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`);
  const authorization = proxy.username ? `Proxy-Authorization: Basic ${login}\r\n` : "";
  const asked = `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${authorization}\r\n`;
  await write(connection, Buffer.from(asked));
  const reader = new Reader(connection);
  const [status] = part(await reader.line(), /^HTTP\/1\.[01] (\d\d\d)/);
  if (status !== "200") throw new Error(`the proxy answers ${status}`);
  while (await reader.line() !== "");
}
