// Needs a stack. Slow.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { it } from "@std/testing/bdd";
import { AuditLogError } from "../../cli/client.ts";
import { follow } from "../../cli/follow.ts";
import { poster } from "../../cli/forward.ts";
import { AUDIT_LOG_URL, installCli, mustFail, mustRun, newFilledLog } from "../helpers/cli.ts";
import { newFolder, newLog, runProgram, serveOnLoopback, startCli } from "../helpers/cli.ts";
import { startProxy, tryAgain } from "../helpers/cli.ts";

const INSTALLED = await installCli();
const MAIN = `${INSTALLED}/node_modules/Public-Audit-Log/dist/main.js`;

/** Clears a screen in two ways, turns text, hides, and begins a line. */
const ATTACK = "\x1b[2J\x9b2J\u202eevil\u{e0041}\nAll is as it was sealed";
const ESCAPED = String.raw`\u001b[2J\u009b2J\u202eevil\udb40\udc41\u000aAll is as it was sealed`;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Fails unless each line of a text can be seen whole. */
function assertVisible(text: string): void {
  for (const line of text.split(/\r?\n/)) assert(!HIDDEN.test(line), JSON.stringify(line));
  assert(!/^All is/m.test(text), text);
}

/** Starts a server whose bodies end after 200 MB, if the client lets them. Counts what each sends. */
function startEndless(...statuses: number[]) {
  const sent: number[] = [];
  const piece = new Uint8Array(1_000_000).fill(0x20);
  const server = serveOnLoopback(() => {
    const n = sent.push(0) - 1;
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(piece);
        sent[n] = (sent[n] ?? 0) + piece.length;
        if (sent[n] >= 200_000_000) controller.close();
      },
    });
    return new Response(body, { status: statuses[n] ?? 500 });
  });
  return { ...server, url: `${server.url}/public-audit-log`, sent };
}

it("a command beside a broken or hostile server waits as Retry-After says, a second at least and an hour at most, and gives up after ten failures in a row", async () => {
  const { token: key } = await newLog();
  const asked: [value: string, seconds: number][] = [
    ["0", 1],
    ["7", 7],
    ["2147484", 3_600],
    ["9".repeat(400), 3_600],
    ["Thu, 01 Jan 1970 00:00:00 GMT", 1],
    ["Fri, 31 Dec 9999 23:59:59 GMT", 3_600],
  ];
  // A 429 is no failure, so there may be more than ten.
  const answers = Array.from({ length: 22 }, (_, n) => n < 12 ? 429 : 503);
  const valueOf = (n: number) => asked[n % asked.length] ?? ["", 0];
  await using proxy = startProxy((number) =>
    tryAgain(answers[number - 1] ?? 500, valueOf(number - 1)[0], "status 429")
  );
  const waits: number[] = [];
  const wait = (ms: number) => Promise.resolve(waits.push(ms / 1000));
  const pages = follow({ url: proxy.url, key, wait });
  const { exitCode, message } = await assertRejects(() => pages.next(), AuditLogError);
  assertEquals(exitCode, 1);
  const gaveUp =
    /^127\S+: status 503, request id status 429\. Gave up: run the same command again\.$/;
  assertMatch(message, gaveUp);
  assertEquals(waits, Array.from({ length: 21 }, (_, n) => valueOf(n)[1]));
});

it("a command beside a broken or hostile server uses half of the quota that an answer says when it has caught up, with the same bounds", async () => {
  const { token: key } = await newLog();
  const policies = ["q=30;w=60", "q=1000000;w=1", "q=1;w=2147484", "none"];
  await using proxy = startProxy(async (number, forward) => {
    const answer = await forward();
    answer.headers.set("RateLimit-Policy", `"default";${policies[number - 1]}`);
    return answer;
  });
  const waits: number[] = [];
  const wait = (ms: number) =>
    waits.push(ms / 1000) < policies.length
      ? Promise.resolve()
      : Promise.reject(new Error("enough"));
  const pages = follow({ url: proxy.url, key, wait, goesOn: true });
  await assertRejects(() => Array.fromAsync(pages), Error, "enough");
  assertEquals(waits, [4, 1, 3_600, 30]);
});

it("a command beside a broken or hostile server takes no page twice, as from a proxy that caches", async () => {
  const { token: key } = await newFilledLog(1_001);
  let cached: Promise<string> | undefined;
  await using proxy = startProxy(async (_number, forward) => {
    cached ??= forward().then((answer) => answer.text());
    return new Response(await cached);
  });
  const pages = follow({ url: proxy.url, key, wait: () => Promise.resolve() });
  assertEquals((await pages.next()).value?.lines.length, 1_000);
  await assertRejects(() => pages.next(), AuditLogError, "does a proxy cache answers");
  assertEquals(proxy.requestedAt.length, 1 + 10);
});

it("a command beside a broken or hostile server gives up an endless body: of a page, of an error, and of a collector's answer", async () => {
  const { token: key } = await newLog({});
  await using api = startEndless(200, 401);
  const following = startCli(INSTALLED, ["follow"], { key, url: api.url });
  const followed = await mustFail(following, 3, /no whole answer: more than 16 MB/);
  await using collector = startEndless(200, 400);
  const args = ["forward", "--once", `--to=${collector.url}`, `--state=${newFolder()}/state`];
  const forwarded = await mustFail(startCli(INSTALLED, args, { key }), 2, /refuses the entries/);
  for (const bytes of [...api.sent, ...collector.sent]) assert(bytes < 40_000_000, `${bytes}`);
  assertEquals([api.sent.length, collector.sent.length], [2, 2]);
  assert(followed.length + forwarded.length < 20_000);
});

it("a command beside a broken or hostile server shows no control character of an answer of the API or of a collector, and no character that hides or turns text", async () => {
  const { token: key } = await newLog();
  const bodies = [ATTACK, `{"items":[],"total":${JSON.stringify(ATTACK)}}`, "null"];
  await using proxy = startProxy((number) => {
    const headers = { "X-Request-Id": "\x9b2J", "Retry-After": "0" };
    if (number === 1) return new Response("", { status: 503, headers });
    const body = bodies[number - 2];
    return new Response(body ?? ATTACK, { status: body === undefined ? 401 : 200 });
  });
  const following = startCli(INSTALLED, ["follow"], { key, url: proxy.url });
  const stderr = await mustFail(following, 3, /request id \\u009b2J/);
  assert(stderr.endsWith(`\n${ESCAPED}\n`), stderr);
  assertVisible(stderr);
  await using collector = serveOnLoopback(() => new Response(ATTACK, { status: 400 }));
  const deliver = poster(collector.url);
  const { message } = await assertRejects(() => deliver(["{}"]), Error, "\\u009b2J");
  assertVisible(message);
});

it("a command beside a broken or hostile server takes no entry that would be two lines in a file or a collector", async () => {
  const deletion = `\n{"delete":{"_index":"x","_id":"1"}}}`;
  const item = `{"id":"${crypto.randomUUID()}","created_at":"2026-03-01T00:00:00.000Z","data":`;
  const start = '{"organization_id":"","total":1,"cursor":"a","has_more":false,"items":[';
  await using server = serveOnLoopback(() => new Response(`${start}${item}${deletion}]}`));
  const pages = follow({ url: server.url, key: "pck_x", wait: () => Promise.resolve() });
  await assertRejects(() => pages.next(), AuditLogError, "not an entry on each line");
});

it("a command beside a broken or hostile server prints such characters of an entry escaped on a terminal, and as they are to a program", async () => {
  const { token: key } = await newLog({ agent_name: ATTACK });
  const piping = startCli(INSTALLED, ["follow", "--once"], { key });
  const { stdout: piped } = await mustRun(piping.output);
  assertEquals(JSON.parse(piped).agent_name, ATTACK);
  assert(piped.includes("\x9b"));
  const terminal = "import pty, sys; pty.spawn(sys.argv[1:])";
  const { stdout: shown } = await mustRun(runProgram("python3", {
    args: ["-c", terminal, "node", MAIN, "follow", "--once"],
    env: { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: key, NO_COLOR: "1" },
  }));
  assertVisible(shown);
  assertEquals(JSON.parse(shown), JSON.parse(piped));
});
