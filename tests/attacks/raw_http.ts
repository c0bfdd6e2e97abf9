/** Where a server listens: a raw socket knows no address but this. */
export interface Server {
  hostname: string;
  port: number;
}

/** An answer as it came, without a client that mends or hides anything. */
export interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
}

/** How long an answer may take, in milliseconds. */
const DEADLINE = 10_000;

/**
 * Sends bytes to a server and reads until it closes the connection: the answers, none if it closed
 * without one. What is sent has to make it close: `Connection: close`, or an error.
 *
 * @throws {Error} if the server has not closed the connection within ten seconds.
 */
export async function sendRaw(server: Server, text: string): Promise<RawResponse[]> {
  using connection = await Deno.connect(server);
  let late = false;
  const deadline = setTimeout(() => {
    late = true;
    connection.close();
  }, DEADLINE);
  const answer = await exchange(connection, new TextEncoder().encode(text));
  clearTimeout(deadline);
  if (late) throw new Error(`no end of the answer in ${DEADLINE} ms: ${answer.slice(0, 500)}`);
  return parseResponses(answer);
}

/** Sends bytes and goes away, without waiting for an answer. */
export async function sendAndLeave(server: Server, text: string): Promise<void> {
  using connection = await Deno.connect(server);
  await connection.write(new TextEncoder().encode(text));
}

/** What comes back, one character a byte. A server may refuse before it has read everything. */
async function exchange(connection: Deno.TcpConn, bytes: Uint8Array): Promise<string> {
  const buffer = new Uint8Array(65_536);
  let answer = "";
  const sent = (async () => {
    for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
  })().catch(() => {});
  try {
    for (;;) {
      const length = await connection.read(buffer);
      if (length === null) break;
      answer += Array.from(buffer.subarray(0, length), (byte) => String.fromCharCode(byte)).join(
        "",
      );
    }
  } catch {
    // Cut off by the server, or by the deadline: what came, came.
  }
  await sent;
  return answer;
}

function parseResponses(text: string): RawResponse[] {
  const responses: RawResponse[] = [];
  while (text !== "") {
    const end = text.indexOf("\r\n\r\n");
    const [statusLine = "", ...lines] = text.slice(0, end).split("\r\n");
    const status = Number(statusLine.match(/^HTTP\/1\.[01] (\d{3}) /)?.[1]);
    if (end < 0 || !status) throw new Error(`not HTTP: ${JSON.stringify(text.slice(0, 200))}`);
    const headers = new Headers(lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }));
    let rest = text.slice(end + 4);
    let body = "";
    if (headers.get("Transfer-Encoding") === "chunked") {
      [body, rest] = dechunk(rest);
    } else if (headers.has("Content-Length")) {
      const length = Number(headers.get("Content-Length"));
      [body, rest] = [rest.slice(0, length), rest.slice(length)];
    } else if (status !== 100) {
      [body, rest] = [rest, ""];
    }
    const bytes = Uint8Array.from(body, (character) => character.charCodeAt(0));
    responses.push({ status, headers, body: new TextDecoder().decode(bytes) });
    text = rest;
  }
  return responses;
}

/** The body of a chunked answer, and what comes after it. */
function dechunk(text: string): [body: string, rest: string] {
  let body = "";
  for (let at = 0;;) {
    const start = text.indexOf("\r\n", at) + 2;
    const length = parseInt(text.slice(at, start), 16);
    if (start < 2 || Number.isNaN(length)) throw new Error("a chunk without an end");
    if (length === 0) return [body, text.slice(start + 2)];
    body += text.slice(start, start + length);
    at = start + length + 2;
  }
}
