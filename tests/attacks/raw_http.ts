import { Buffer } from "node:buffer";

/** Where a server listens. */
export interface Server {
  hostname: string;
  port: number;
}

/** An answer as the server sent it: no client mends or hides anything. */
export interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
}

/** In milliseconds. */
const DEADLINE = 10_000;

/**
 * Sends text to a server and reads its one answer until it closes the connection. The text has to make
 * it close: by `Connection: close`, or by an error.
 *
 * @throws {Error} if there is no answer or another one after it, or no end within ten seconds.
 */
export async function sendRaw(server: Server, text: string): Promise<RawResponse> {
  using connection = await Deno.connect(server);
  const began = performance.now();
  const deadline = setTimeout(() => connection.close(), DEADLINE);
  // A server may refuse before it has read everything.
  const sent = writeAll(connection, text).catch(() => {});
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of connection.readable) chunks.push(chunk);
  } catch {
    // The server or the deadline has cut the connection. What came counts.
  }
  await sent;
  clearTimeout(deadline);
  const answer = Buffer.concat(chunks).toString("latin1");
  if (performance.now() - began < DEADLINE) return parseResponse(answer);
  throw new Error(`no end of the answer in ${DEADLINE} ms: ${answer.slice(0, 500)}`);
}

/** Sends text and goes away, without waiting for an answer. */
export async function sendAndLeave(server: Server, text: string): Promise<void> {
  using connection = await Deno.connect(server);
  await writeAll(connection, text);
}

async function writeAll(connection: Deno.TcpConn, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
}

/** Reads an answer from a text with one character a byte. */
function parseResponse(text: string): RawResponse {
  const [head, status] = text.match(/^HTTP\/1\.[01] (\d{3}) .*?\r\n\r\n/s) ?? [];
  if (!head) throw new Error(`not HTTP: ${JSON.stringify(text.slice(0, 200))}`);
  const lines = head.trimEnd().matchAll(/^([^:\r\n]+): *(.*?)\r?$/gm);
  const headers = new Headers(Array.from(lines, ([, name = "", value = ""]) => [name, value]));
  const rest = text.slice(head.length);
  const isChunked = headers.get("Transfer-Encoding") === "chunked";
  const body = isChunked ? dechunk(rest) : rest;
  const length = headers.get("Content-Length");
  if (length && body !== "" && body.length !== Number(length)) throw new Error(`more: ${rest}`);
  return { status: Number(status), headers, body: Buffer.from(body, "latin1").toString() };
}

function dechunk(text: string): string {
  const [line, hex = ""] = text.match(/^([0-9a-f]+)\r\n/i) ?? [];
  if (!line) throw new Error("a chunk without a length");
  const end = line.length + parseInt(hex, 16);
  const chunk = text.slice(line.length, end);
  if (chunk !== "") return chunk + dechunk(text.slice(end + 2));
  if (text.length > end + 2) throw new Error(`more: ${text.slice(end + 2)}`);
  return "";
}
