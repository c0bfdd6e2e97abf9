/** Text that is not quite HTTP, or not quite one request, and the statuses of its answers, in order. */
export type Malformed = [name: string, text: string, answers: RegExp];

/**
 * Requests with which attackers smuggle others past a gateway. `query` must be right and the token
 * active. Deno's HTTP server refuses most of them before our code runs; a request that it lets
 * through must mean the same to the function.
 */
export function malformedRequests(home: string, query: string, token: string): Malformed[] {
  const bearer = `Authorization: Bearer ${token}`;
  const right = `GET ${home}?${query} HTTP/1.1\r\nHost: a\r\n${bearer}\r\nConnection: close\r\n\r\n`;
  const chunked = "Transfer-Encoding: chunked";
  const replace = (part: string, other: string) => right.replace(part, other);
  /** The right request with another header, and with a body in which a second request hides. */
  const hiding = (header: string, body = "") => replace("\r\n\r\n", `\r\n${header}\r\n\r\n`) + body;
  return [
    // A server that sees the end of a request elsewhere lets the second one through.
    ["two lengths", hiding("Content-Length: 0\r\nContent-Length: 5", right), /^400$/],
    ["a length and chunks", hiding(`Content-Length: 5\r\n${chunked}`, `0\r\n\r\n${right}`), /^400$/],
    ["a chunk without a length", hiding(chunked, `ZZ\r\n${right}`), /^(200|400)?$/],
    ["a body of GET", hiding("Content-Length: 1", `x${right}`), /^200$/],
    ["a request after the last", right + right, /^200$/],
    [
      "two requests at once",
      replace("Connection: close\r\n", "") + replace("GET", "DELETE"),
      /^200 405$/,
    ],
    // Headers.
    ["no Host", replace("Host: a\r\n", ""), /^(200|400)$/],
    ["two Hosts", replace("Host: a", "Host: a\r\nHost: b"), /^(200|400)$/],
    ["a Host with a path", replace("Host: a", "Host: a/b?c#d"), /^404$/],
    ...["a b", "[::", "a:99999", "%zz"].map((host): Malformed => [
      `the Host ${host}`,
      replace("Host: a", `Host: ${host}`),
      /^40[04]$/,
    ]),
    ["a token that is dropped", replace("close", "close, Authorization"), /^(200|401)$/],
    ["a token twice", hiding(bearer), /^401$/],
    ["a folded token", replace("Bearer ", "Bearer\r\n "), /^400$/],
    ["a header of a million characters", hiding(`X: ${"x".repeat(1_000_000)}`), /^(400|431)?$/],
    // The address.
    ["an absolute address", replace(home, `http://evil.example${home}`), /^200$/],
    ["an address with a password", replace(home, `http://a:b@c${home}`), /^(200|40[04])$/],
    ["CONNECT with a path", replace("GET", "CONNECT"), /^400$/],
    ["a query of a million characters", replace(query, "x".repeat(1_000_000)), /^(400|414|431)?$/],
    ["an upgrade", replace("close", "close, Upgrade\r\nUpgrade: h2c"), /^200$/],
  ];
}

/** Beginnings of requests, for a caller who then goes away. */
export function unfinishedRequests(home: string, query: string, token: string): string[] {
  const head = `GET ${home}?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n`;
  const post = head.replace("GET", "POST");
  return [
    "",
    "G",
    head.slice(0, -10),
    head,
    `${head}\r\n`,
    `${head}\r\n${head}\r\n${head}`,
    `${head}Content-Length: 1000000\r\n\r\nx`,
    `${post}Transfer-Encoding: chunked\r\n\r\nFFFF\r\nx`,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  ];
}
