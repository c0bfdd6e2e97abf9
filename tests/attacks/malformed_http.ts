/** Bytes that are not quite HTTP, or not quite one request, and how they may be answered. */
export interface Malformed {
  name: string;
  text: string;
  /** The statuses of the answers, in order; empty: closed without one. */
  answers: RegExp;
}

/**
 * Shapes with which requests are smuggled past a gateway and servers brought down. The query must be
 * right and the token active. Most are refused by the HTTP server of Deno (hyper), before any code of
 * ours: with a bare 400, 414 or 431, or by closing the connection. What it lets through is 200 here
 * where the request is whole, and means to the function what it means to the server.
 */
export function malformedRequests(home: string, query: string, token: string): Malformed[] {
  const get = `GET ${home}?${query}`;
  const auth = `Authorization: Bearer ${token}\r\n`;
  const close = "Connection: close\r\n";
  const rest = `Host: a\r\n${auth}${close}`;
  const smuggled = `${get} HTTP/1.1\r\n${rest}\r\n`;
  const shapes: [name: string, text: string, answers: RegExp][] = [
    // Where one request ends and the next begins: a server that reads it in two ways lets one through.
    [
      "Content-Length and Transfer-Encoding",
      `${get} HTTP/1.1\r\n${rest}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
      /^400$/,
    ],
    [
      "two lengths",
      `${get} HTTP/1.1\r\n${rest}Content-Length: 0\r\nContent-Length: 5\r\n\r\n${smuggled}`,
      /^400$/,
    ],
    ["a negative length", `${get} HTTP/1.1\r\n${rest}Content-Length: -1\r\n\r\n`, /^400$/],
    ["a length with a sign", `${get} HTTP/1.1\r\n${rest}Content-Length: +1\r\n\r\nx`, /^400$/],
    ["a length in hexadecimal", `${get} HTTP/1.1\r\n${rest}Content-Length: 0x1\r\n\r\nx`, /^400$/],
    ["a list of lengths", `${get} HTTP/1.1\r\n${rest}Content-Length: 1, 2\r\n\r\nx`, /^400$/],
    [
      "a length that no number holds",
      `${get} HTTP/1.1\r\n${rest}Content-Length: ${"9".repeat(40)}\r\n\r\n`,
      /^400$/,
    ],
    [
      "an unknown transfer coding",
      `${get} HTTP/1.1\r\n${rest}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}`,
      /^400$/,
    ],
    [
      "chunked, then something else",
      `${get} HTTP/1.1\r\n${rest}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${smuggled}`,
      /^400$/,
    ],
    [
      "a transfer coding in HTTP/1.0",
      `${get} HTTP/1.0\r\n${rest}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
      /^(400)?$/,
    ],
    [
      "a chunk without a length",
      `${get} HTTP/1.1\r\n${rest}Transfer-Encoding: chunked\r\n\r\nZZ\r\n${smuggled}`,
      /^(200|400)?$/,
    ],
    [
      "a chunk whose length no number holds",
      `${get} HTTP/1.1\r\n${rest}Transfer-Encoding: chunked\r\n\r\n${
        "F".repeat(20)
      }\r\n${smuggled}`,
      /^(200|400)?$/,
    ],
    ["a body of GET", `${get} HTTP/1.1\r\n${rest}Content-Length: 1\r\n\r\nx${smuggled}`, /^200$/],
    [
      "two requests at once",
      `${get} HTTP/1.1\r\nHost: a\r\n${auth}\r\nDELETE ${home} HTTP/1.1\r\n${rest}\r\n`,
      /^200 405$/,
    ],
    ["a request after the last", `${smuggled}${smuggled}`, /^200$/],
    ["empty lines before a request", `\r\n\r\n${smuggled}`, /^200$/],
    // The lines of the header.
    ["a folded header", `${get} HTTP/1.1\r\n${rest}X-A: b\r\n c\r\n\r\n`, /^400$/],
    [
      "a folded token",
      `${get} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer\r\n ${token}\r\n${close}\r\n`,
      /^400$/,
    ],
    ["line feeds alone", smuggled.replaceAll("\r\n", "\n"), /^(200|400)$/],
    ["carriage returns alone", smuggled.replaceAll("\r\n", "\r"), /^400$/],
    ["a space before the colon", smuggled.replace("Host:", "Host :"), /^400$/],
    ["a space before the name", smuggled.replace("Host:", " Host:"), /^400$/],
    ["a line without a colon", smuggled.replace("Host:", "Host"), /^400$/],
    ["a header without a name", smuggled.replace("Host:", ":"), /^400$/],
    ["NUL in a header", smuggled.replace("Host: a", "Host: a\0b"), /^400$/],
    ["no Host", smuggled.replace("Host: a\r\n", ""), /^(200|400)$/],
    ["two Hosts", `${get} HTTP/1.1\r\nHost: b\r\n${rest}\r\n`, /^(200|400)$/],
    ...["a b", "[::", "a:99999", "a:b", "%zz", "<>", "a b/\\<>^|"].map((
      host,
    ): [string, string, RegExp] => [
      `the Host ${host}`,
      smuggled.replace("Host: a", `Host: ${host}`),
      /^40[04]$/,
    ]),
    ["a Host with a path", smuggled.replace("Host: a", "Host: a/b?c#d"), /^404$/],
    [
      "a token named as one that is dropped",
      smuggled.replace("close", "close, Authorization"),
      /^(200|401)$/,
    ],
    [
      "a token twice",
      smuggled.replace(close, `${close}${auth}`),
      /^401$/,
    ],
    // The request line.
    ["an absolute address", smuggled.replace(home, `http://evil.example${home}`), /^200$/],
    ["another scheme", smuggled.replace(home, `https://evil.example:1${home}`), /^200$/],
    ["a scheme that is not HTTP", smuggled.replace(home, `ftp://evil.example${home}`), /^200$/],
    ["an address with a password", smuggled.replace(home, `http://a:b@c${home}`), /^(200|40[04])$/],
    ["two slashes", smuggled.replace(home, `//evil.example${home}`), /^404$/],
    ["two backslashes", smuggled.replace(home, `\\\\evil.example${home}`), /^400$/],
    ["no slash", smuggled.replace(home, "public-audit-log"), /^400$/],
    ["CONNECT with a path", smuggled.replace("GET", "CONNECT"), /^400$/],
    ["OPTIONS *", `OPTIONS * HTTP/1.1\r\n${rest}\r\n`, /^404$/],
    ["GET *", `GET * HTTP/1.1\r\n${rest}\r\n`, /^400$/],
    ["NUL in the query string", smuggled.replace(query, `${query}&\0`), /^400$/],
    ["a space in the query string", smuggled.replace(query, `${query}& x`), /^400$/],
    ["a method that is none", smuggled.replace("GET", "G@T"), /^400$/],
    ["a long method", smuggled.replace("GET", "G".repeat(9_000)), /^(400|405)$/],
    ["an address of 60,000 characters", smuggled.replace(query, "x".repeat(60_000)), /^400$/],
    [
      "an address of 70,000 characters",
      smuggled.replace(query, "x".repeat(70_000)),
      /^(400|414)?$/,
    ],
    ["a million characters", smuggled.replace(query, "x".repeat(1_000_000)), /^(400|414|431)?$/],
    [
      "a header of a million",
      smuggled.replace(close, `${close}X: ${"x".repeat(1_000_000)}\r\n`),
      /^(400|431)?$/,
    ],
    ["90 headers", smuggled.replace(close, close + "X: x\r\n".repeat(90)), /^200$/],
    ["10,000 headers", smuggled.replace(close, close + "X: x\r\n".repeat(10_000)), /^(400|431)?$/],
    // Versions, and other protocols.
    ["HTTP/1.0", smuggled.replace("HTTP/1.1", "HTTP/1.0"), /^200$/],
    ["HTTP/0.9", `${get}\r\n\r\n`, /^400$/],
    ...["HTTP/1.2", "HTTP/2.0", "HTTP/11", "HTTP/1.1 x", "http/1.1", "X/1.1"].map((
      version,
    ): [string, string, RegExp] => [version, smuggled.replace("HTTP/1.1", version), /^400$/]),
    [
      "an upgrade",
      smuggled.replace(close, "Connection: close, Upgrade\r\nUpgrade: h2c\r\n"),
      /^200$/,
    ],
    ["an expectation", smuggled.replace(close, `${close}Expect: 100-continue\r\n`), /^(100 )?200$/],
    ["TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", /^400$/],
    ["an e-mail", "EHLO evil.example\r\nMAIL FROM:<a@b>\r\n\r\n", /^400$/],
  ];
  return shapes.map(([name, text, answers]) => ({ name, text, answers }));
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
