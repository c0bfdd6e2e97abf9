/** Bytes that are not quite HTTP, or not quite one request, and the statuses of the answers, in order. */
export type Malformed = [name: string, text: string, answers: RegExp];

/**
 * Shapes with which requests are smuggled past a gateway and servers brought down. The query must be
 * right and the token active. Most are refused by the HTTP server of Deno (hyper), before any code of
 * ours: with a bare 400, 414 or 431, or by closing the connection. What it lets through is 200 here
 * where the request is whole, and means to the function what it means to the server.
 */
export function malformedRequests(home: string, query: string, token: string): Malformed[] {
  const auth = `Authorization: Bearer ${token}\r\n`;
  const close = "Connection: close\r\n";
  const rest = `Host: a\r\n${auth}${close}`;
  const right = `GET ${home}?${query} HTTP/1.1\r\n${rest}\r\n`;
  /** The right request, with more headers and a body; in both another one may be hidden. */
  const withMore = (headers: string, body = "") =>
    right.replace(close, `${close}${headers}`) + body;
  return [
    // Where one request ends and the next begins: a server that reads it in two ways lets one through.
    [
      "Content-Length and Transfer-Encoding",
      withMore("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${right}`),
      /^400$/,
    ],
    ["two lengths", withMore("Content-Length: 0\r\nContent-Length: 5\r\n", right), /^400$/],
    [
      "a chunk without a length",
      withMore("Transfer-Encoding: chunked\r\n", `ZZ\r\n${right}`),
      /^(200|400)?$/,
    ],
    ["a body of GET", withMore("Content-Length: 1\r\n", `x${right}`), /^200$/],
    [
      "two requests at once",
      `${right.replace(close, "")}DELETE ${home} HTTP/1.1\r\n${rest}\r\n`,
      /^200 405$/,
    ],
    ["a request after the last", `${right}${right}`, /^200$/],
    // Headers.
    ["a folded header", right.replace("Bearer ", "Bearer\r\n "), /^400$/],
    ["line feeds alone", right.replaceAll("\r\n", "\n"), /^(200|400)$/],
    ["NUL in a header", right.replace("Host: a", "Host: a\0b"), /^400$/],
    ["no Host", right.replace("Host: a\r\n", ""), /^(200|400)$/],
    ["two Hosts", right.replace("Host: a", "Host: a\r\nHost: b"), /^(200|400)$/],
    ...["a b", "[::", "a:99999", "%zz"].map((host): Malformed => [
      `the Host ${host}`,
      right.replace("Host: a", `Host: ${host}`),
      /^40[04]$/,
    ]),
    ["a Host with a path", right.replace("Host: a", "Host: a/b?c#d"), /^404$/],
    [
      "a token as one that is dropped",
      right.replace("close", "close, Authorization"),
      /^(200|401)$/,
    ],
    ["a token twice", withMore(auth), /^401$/],
    ["a header of a million", withMore(`X: ${"x".repeat(1_000_000)}\r\n`), /^(400|431)?$/],
    // The request line.
    ["an absolute address", right.replace(home, `http://evil.example${home}`), /^200$/],
    ["an address with a password", right.replace(home, `http://a:b@c${home}`), /^(200|40[04])$/],
    ["CONNECT with a path", right.replace("GET", "CONNECT"), /^400$/],
    ["NUL in the query string", right.replace(query, `${query}&\0`), /^400$/],
    ["a million characters", right.replace(query, "x".repeat(1_000_000)), /^(400|414|431)?$/],
    // Versions, and other protocols.
    [
      "an upgrade",
      right.replace(close, "Connection: close, Upgrade\r\nUpgrade: h2c\r\n"),
      /^200$/,
    ],
  ];
}

/** Beginnings of requests, for one who then goes away. */
export function unfinishedRequests(home: string, query: string, token: string): string[] {
  const head = `GET ${home}?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n`;
  return [
    "",
    "G",
    head.slice(0, 40),
    head.slice(0, -10),
    head,
    `${head}\r\n`,
    `${head}\r\n${head}\r\n${head}`,
    `${head}Content-Length: 1000000\r\n\r\nx`,
    `${head}Content-Length: 1000000\r\n\r\nx`.replace("GET", "POST"),
    `${head}Transfer-Encoding: chunked\r\n\r\nFFFF\r\nx`.replace("GET", "POST"),
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  ];
}
