// Needs nothing.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { setTimeout as delay } from "node:timers/promises";
import { send, type SendOptions } from "../../supabase/functions/audit-log-streams/send.ts";
import { makeCertificate } from "../helpers/certificate.ts";

const { cert, key } = await makeCertificate();
const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;
const PLACES = { hostname: "127.0.0.1", port: 0 };

type Play = (connection: Deno.Conn) => Promise<unknown>;

/** What the server does with its next connection. It answers after it has read the request. */
let play: Play = () => Promise.resolve();
const server = Deno.listenTls({ ...PLACES, cert, key });
const { port: PORT } = server.addr as Deno.NetAddr;
let isClosed = false;
const serving = (async () => {
  for (;;) {
    const connection = await server.accept().catch(() => null);
    // Somebody who breaks TLS off is no end of the server.
    if (!connection && isClosed) return;
    if (connection) play(connection).catch(() => {}).finally(() => close(connection));
  }
})();
afterAll(async () => {
  isClosed = true;
  server.close();
  await serving;
});

function close(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch { /* The other side was faster. */ }
}

async function write(connection: Deno.Conn, text: string | Uint8Array): Promise<void> {
  let rest = typeof text === "string" ? new TextEncoder().encode(text) : text;
  while (rest.length > 0) rest = rest.subarray(await connection.write(rest));
}

async function read(connection: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(65_536);
  for (let text = "";;) {
    const count = await connection.read(buffer);
    if (count === null) return text;
    text += new TextDecoder().decode(buffer.subarray(0, count));
    const [head = "", body] = text.split("\r\n\r\n");
    const length = Number(head.match(/content-length: (\d+)/)?.[1]);
    if (body !== undefined && body.length >= length) return text;
  }
}

function answering(...texts: (string | Uint8Array)[]): Play {
  return async (connection) => {
    await read(connection);
    for (const text of texts) await write(connection, text);
  };
}

function endless(start: string, piece: string | Uint8Array, pauseMs?: number): Play {
  return async (connection) => {
    await read(connection);
    await write(connection, start);
    for (;;) {
      await write(connection, piece);
      if (pauseMs !== undefined) await delay(pauseMs);
    }
  };
}

const CUT = /closed the connection before its answer was whole|unexpected|close_notify/i;
const LONG = /its answer is too long/;
const MANY = /has too many headers/;
const NO_HTTP = /does not speak HTTP\/1\.1/;
const LATE = /too late/;
const LONG_PIECE = new Uint8Array(65_536).fill(97);

/** What a server does, and the status with the body that is read, or the error. */
const SERVERS: Record<string, [Play, string | RegExp]> = {
  "no content": [answering("HTTP/1.1 204 No Content\r\n\r\n"), "204 "],
  "a length": [answering(`${OK}Content-Length: 2\r\n\r\nok`), "200 ok"],
  "chunks, with trailers": [
    answering(CHUNKED, "1\r\no\r\n1;x=y\r\nk\r\n0\r\nA: b\r\n\r\n"),
    "200 ok",
  ],
  "until its end": [answering("HTTP/1.0 200 OK\r\n\r\nok"), "200 ok"],
  "100 and 103 before": [
    answering(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n${OK}\r\nok`),
    "200 ok",
  ],
  "an answer before the request is read": [
    async (connection) => {
      await connection.read(new Uint8Array(9));
      await write(connection, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
      await delay(100);
    },
    "413 ",
  ],
  "a byte at a time": [answering(...`${OK}Content-Length: 2\r\n\r\nok`), "200 ok"],
  "bare line feeds": [answering("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), "200 ok"],
  "a header that is not ASCII": [answering(`${OK}X: ü€\r\nContent-Length: 2\r\n\r\nok`), "200 ok"],
  "chunks and a length": [
    answering(`${OK}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
    "200 ok",
  ],
  "a redirect": [
    answering("HTTP/1.1 307 Away\r\nLocation: https://a.example.net/\r\n\r\n"),
    "307 ",
  ],
  "less than its length": [answering(`${OK}Content-Length: 10\r\n\r\nok`), CUT],
  "less than a chunk": [answering(`${CHUNKED}5\r\nok`), CUT],
  "nothing": [answering(), CUT],
  "101": [answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), CUT],
  "two lengths": [answering(`${OK}Content-Length: 3\r\nContent-Length: 2\r\n\r\nok`), NO_HTTP],
  "a negative length": [answering(`${OK}Content-Length: -2\r\n\r\nok`), NO_HTTP],
  "an unknown coding": [answering(`${OK}Transfer-Encoding: gzip\r\n\r\nok`), NO_HTTP],
  "a huge chunk": [answering(`${CHUNKED}ffffffffffffffff\r\nok`), NO_HTTP],
  "a folded header": [answering(`${OK}A: b\r\n c\r\nContent-Length: 2\r\n\r\nok`), NO_HTTP],
  "HTTP/2": [answering(new Uint8Array([0, 0, 0, 4, 0, 0, 0, 0, 10])), NO_HTTP],
  "another protocol": [answering("SSH-2.0-OpenSSH_9.6\r\n"), NO_HTTP],
  "an endless header": [endless(`${OK}X: `, LONG_PIECE), LONG],
  "200 headers": [answering(OK, "A: b\r\n".repeat(200), "\r\nok"), "200 ok"],
  "201 headers": [answering(OK, "A: b\r\n".repeat(201), "\r\nok"), MANY],
  "endless headers": [endless(OK, "A: b\r\n".repeat(1_000)), MANY],
  "an endless body": [endless(`${OK}\r\n`, LONG_PIECE), LONG],
  "a chunk for each byte": [answering(CHUNKED, "1\r\na\r\n".repeat(9_000)), LONG],
  "endless 100s": [endless("", "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)), LONG],
  "5 MB": [answering(`${OK}Content-Length: 5000000\r\n\r\n`, new Uint8Array(5_000_000)), LONG],
  "many bytes, each alone": [endless(`${OK}\r\n`, "a", 0), /too many pieces|too late/],
  "a byte a second": [endless(`${OK}\r\n`, "a", 100), LATE],
  "silence": [(connection) => read(connection).then(() => delay(3_000)), LATE],
  "nothing that it reads": [() => delay(3_000), LATE],
};

function options(more: Partial<SendOptions> = {}): SendOptions {
  const lookUp = () => Promise.resolve(["127.0.0.1"]);
  return { ownHosts: [], resolve: lookUp, isAllowed: () => true, caCerts: [cert], ...more };
}

const HOST = "hook.example.net";

async function sendTo(
  host = HOST,
  more: Partial<SendOptions> = {},
  headers = {},
  timeoutMs = 20_000,
) {
  const url = new URL(`https://${host}/a?b=c`);
  url.port ||= `${PORT}`;
  const request = { method: "POST" as const, url, headers, body: new Uint8Array(900_000).fill(98) };
  const late = AbortSignal.timeout(timeoutMs);
  return await send(request, options(more), late).catch((error) => {
    throw late.aborted ? new Error("too late") : error;
  });
}

for (const [name, [plays, expected]] of Object.entries(SERVERS)) {
  it(`a request to a server that sends ${name} ends with ${expected instanceof RegExp ? "an error" : expected}`, async () => {
    play = plays;
    const isLate = expected instanceof RegExp && expected.test("too late");
    const found = await sendTo(HOST, {}, {}, isLate ? 1_000 : 20_000)
      .then(({ status, body }) => `${status} ${body}`, (error) => String(error.message));
    if (expected instanceof RegExp) assertMatch(found, expected);
    else assertEquals(found, expected);
  });
}

describe("a request", () => {
  it("has a host, a length, no second Host, nothing that says where it ends, and its own headers, without a line break in one", async () => {
    let received = "";
    play = async (connection) => {
      received = await read(connection);
      await write(connection, `${OK}Content-Length: 0\r\n\r\n`);
    };
    await sendTo(HOST, {}, {
      "X-A": "b",
      Host: "internal",
      Connection: "keep-alive",
      "Transfer-Encoding": "chunked",
      TE: "trailers",
      Trailer: "X-A",
      Upgrade: "h2c",
      Expect: "100-continue",
    });
    const [head = ""] = received.split("\r\n\r\n");
    assertEquals(head.split("\r\n").toSorted(), [
      "POST /a?b=c HTTP/1.1",
      "connection: close",
      "content-length: 900000",
      `host: hook.example.net:${PORT}`,
      "user-agent: public-audit-log",
      "x-a: b",
    ]);
    await assertRejects(() => sendTo(HOST, {}, { "X-A": "b\r\nInjected: c" }), TypeError);
  });

  it("goes to the address that was checked, although the name has another one by then", async () => {
    let lookups = 0;
    play = answering(`${OK}\r\n`);
    const rebind = () => Promise.resolve([lookups++ === 0 ? "127.0.0.9" : "127.0.0.1"]);
    const isAllowed = (address: string) => address === "127.0.0.9";
    await assertRejects(() => sendTo(HOST, { resolve: rebind, isAllowed }));
    assertEquals(lookups, 1);
  });

  it("reaches nobody whose certificate is of another name or of an unknown authority, nor a port without TLS", async () => {
    play = answering(`${OK}\r\n`);
    for (const host of ["hook.example.org", "a.b.example.net", "127.0.0.1"]) {
      await assertRejects(() => sendTo(host), Error, "certificate", host);
    }
    await assertRejects(() => sendTo(HOST, { caCerts: [] }), Error, "certificate");
    let received = "";
    const plain = Deno.listen(PLACES);
    const accepting = plain.accept().then(async (connection) => {
      const buffer = new Uint8Array(10_000);
      received = new TextDecoder().decode(buffer.subarray(0, await connection.read(buffer) ?? 0));
      await write(connection, "HTTP/1.1 400 Bad Request\r\n\r\n");
      close(connection);
    });
    const host = `hook.example.net:${plain.addr.port}`;
    await assertRejects(() => sendTo(host, {}, { secret: "x" }, 5_000));
    plain.close();
    await accepting;
    assert(received.length > 0 && !received.includes("secret"));
  });

  it("is not tried while five or more connections to its host, given up before, wait for TLS: Deno cannot close them", async () => {
    const accepted: Deno.Conn[] = [];
    const silent = Deno.listen(PLACES);
    const accepting = (async () => {
      for await (const connection of silent) accepted.push(connection);
    })();
    const host = `silent.example.net:${silent.addr.port}`;
    const trySend = async () =>
      (await assertRejects(() => sendTo(host, {}, {}, 200), Error)).message;
    // A healthy host may be slow to answer many at once.
    const atOnce = await Promise.all(Array.from({ length: 24 }, trySend));
    assertEquals(new Set(atOnce), new Set(["too late"]));
    assertMatch(await trySend(), /has not answered TLS on 5 connections/);
    for (const connection of accepted.splice(0)) close(connection);
    let message = await trySend();
    for (let n = 0; n < 50 && message !== "too late"; n++) message = await trySend();
    assertEquals(message, "too late", "they have ended");
    for (const connection of accepted) close(connection);
    silent.close();
    await accepting;
  });

  it("goes through a proxy, which is told the checked address and a password", async () => {
    let asked = "";
    play = answering(`${OK}Content-Length: 2\r\n\r\nok`);
    const listener = Deno.listen(PLACES);
    const proxying = listener.accept().then(async (client) => {
      const head = new Uint8Array(1_000);
      asked = new TextDecoder().decode(head.subarray(0, await client.read(head) ?? 0));
      const target = await Deno.connect({ ...PLACES, port: PORT });
      await write(client, "HTTP/1.1 200 Connection established\r\n\r\n");
      const [asks, answers] = [client.readable, target.readable];
      await Promise.allSettled([asks.pipeTo(target.writable), answers.pipeTo(client.writable)]);
    });
    const proxy = new URL(`http://user:p%40ss@127.0.0.1:${listener.addr.port}`);
    const { status, body } = await sendTo(HOST, { proxy });
    assertEquals([status, body], [200, "ok"]);
    listener.close();
    await proxying;
    const to = `127.0.0.1:${PORT}`;
    const login = `Proxy-Authorization: Basic ${btoa("user:p@ss")}`;
    assertEquals(asked, `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${login}\r\n\r\n`);
  });
});
