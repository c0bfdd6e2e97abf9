// Needs a stack. Slow.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { Temporary } from "../../cli/client.ts";
import { lock } from "../../cli/files.ts";
import { follow } from "../../cli/follow.ts";
import { forward, poster } from "../../cli/forward.ts";
import { age, AUDIT_LOG_URL, type CliOptions, type Ended, fill, hangUp } from "../helpers/cli.ts";
import { idsOf, idsOfLog, installCli, KILLED, mustFail, mustRun } from "../helpers/cli.ts";
import { newFilledLog, newFolder, newLog, randomFrom, revoke } from "../helpers/cli.ts";
import { serveOnLoopback, sql, startCli, startProxy, tryAgain, withKey } from "../helpers/cli.ts";

const INSTALLED = await installCli();
const SEED = Number(Deno.env.get("FORWARD_SEED") ?? Math.floor(Math.random() * 1e9));

type Fault = (number: number) => Promise<Response | void> | Response | void;

/** Starts a collector. `fault` may answer its nth request instead. */
function startCollector(fault: Fault = () => {}) {
  const pages: string[] = [];
  const requestedAt: number[] = [];
  const server = serveOnLoopback(async (request) => {
    const body = await request.text();
    const failure = await fault(requestedAt.push(performance.now()));
    if (failure) return failure;
    const { method, headers } = request;
    assertEquals([method, headers.get("Content-Type")], ["POST", "application/x-ndjson"]);
    pages.push(body);
    return new Response("<html>Whatever it says: a 2xx confirms</html>");
  });
  return { ...server, pages, requestedAt, received: () => idsOf(pages.join("")) };
}

interface Run extends CliOptions {
  collector: { url: string };
  state: string;
  args?: string[];
}

function start({ collector, state, args = ["--once"], ...options }: Run) {
  const all = ["forward", `--to=${collector.url}/audit`, `--state=${state}`, ...args];
  return startCli(INSTALLED, all, options);
}

function newState(): string {
  return `${newFolder()}/audit.state`;
}

/** What a collector does with its first requests instead of taking them. */
const FAULTS = [
  undefined,
  () => new Response("broken", { status: 500 }),
  () => tryAgain(429, "1"),
  () => new Response(hangUp(new Uint8Array(9))),
  () => new Response("too slow", { status: 408 }),
];

describe("public-audit-log forward", () => {
  for (const on of ["Node", "Deno"] as const) {
    it(`posts each page as the API wrote it, through failures of the collector, on ${on}`, async () => {
      const log = await newFilledLog(2_200);
      await using collector = startCollector((number) => FAULTS[number - 1]?.());
      const run: Run = { collector, key: log.token, state: newState(), on };
      assertMatch((await mustRun(start(run).output)).stdout, /^2200 entries were delivered to /);
      const [limited = 0, next = 0] = collector.requestedAt.slice(2);
      assert(next - limited >= 990);
      assertEquals(collector.received(), await idsOfLog(log));
      assertEquals(collector.pages.map((page) => page.split("\n").length - 1), [1000, 1000, 200]);
      assertMatch(collector.pages.join(""), /9007199254740993/);
    });
  }

  it("delivers each entry at least once, through eight kills", async () => {
    console.log(`FORWARD_SEED=${SEED}`);
    const random = randomFrom(SEED);
    const log = await newFilledLog(3_000);
    let running: ReturnType<typeof start> | undefined;
    await using collector = startCollector(() => {
      if (running) setTimeout(() => running?.process.kill("SIGKILL"), random(15));
    });
    const run: Run = { collector, key: log.token, state: newState() };
    for (let kill = 0; kill < 8; kill++) {
      running = start({ ...run, args: [] });
      await age(sql, log.apiKeyId, "1 minute");
      await fill(log, 1 + random(400));
      const { code, stderr } = await running.output;
      assertEquals(code, KILLED, stderr);
    }
    running = undefined;
    await mustRun(start(run).output);
    assertEquals([...new Set(collector.received())], await idsOfLog(log));
  });

  it("goes on trying, however often its collector and the API fail", async () => {
    const log = await newFilledLog(10);
    const received: string[] = [];
    let failures = 0;
    const deliver = (lines: string[]) => {
      if (++failures <= 100) return Promise.reject(new Temporary("down"));
      return Promise.resolve(void received.push(...lines.map((line) => JSON.parse(line).id)));
    };
    await using api = startProxy((number, answer) => number <= 100 ? tryAgain(503) : answer(), log);
    const wait = () =>
      received.length > 0 ? Promise.reject(new Error("caught up")) : Promise.resolve();
    const options = { url: api.url, key: log.token, goesOn: true, wait };
    await assertRejects(() => forward(deliver, options), Error, "caught up");
    assertEquals(received.sort(), await idsOfLog(log));
  });

  it("leaves out and names the entries that its collector rejects alone; if it takes none, it stops before them", async () => {
    const log = await newFilledLog(40);
    let rejects = (n: number) => n >= 5 && n < 20;
    const received: number[] = [];
    await using collector = serveOnLoopback(async (request) => {
      const users = (await request.text()).matchAll(/"user_email":"user(\d+)@/g);
      const found = Array.from(users, ([, n]) => Number(n));
      if (found.some(rejects)) return new Response("too old", { status: 400 });
      received.push(...found);
      return new Response();
    });
    const run: Run = { collector, key: log.token, state: newState() };
    const { stdout, stderr } = await mustRun(start(run).output);
    assertMatch(stdout, /^25 entries were delivered/);
    assertEquals(new Set(received).size, 25);
    const named = stderr.match(/^The entry [0-9a-f-]{36} of 2026-11-20T.* \(400\).* too old$/gm);
    assertEquals(named?.length, 15);
    const saved = Deno.readTextFileSync(run.state);
    rejects = () => true;
    for (const more of [1, 12]) {
      await fill(log, more);
      await mustFail(
        start(run),
        2,
        /^\S+ refuses the entries \(400\): correct --to, .*\ntoo old$/m,
      );
      assertEquals(Deno.readTextFileSync(run.state), saved);
    }
  });

  it("delivers again what its collector confirms too late", async () => {
    const { token: key } = await newFilledLog(10);
    const { timeout } = AbortSignal;
    let last = new AbortController();
    AbortSignal.timeout = () => (last = new AbortController()).signal;
    await using collector = startCollector(() => {
      // Only the first delivery is too late.
      if (collector.pages.length === 0) last.abort();
    });
    const options = { url: AUDIT_LOG_URL, key, wait: () => Promise.resolve() };
    const delivered = await forward(poster(collector.url), options)
      .finally(() => AbortSignal.timeout = timeout);
    assertEquals(delivered, 10);
    const received = collector.received();
    assertEquals([received.length, new Set(received).size], [20, 10]);
  });

  it("stops and says what to do: a second forwarder, a state that is damaged or another's, a collector or an API that refuses", async () => {
    const log = await newFilledLog(10);
    let refusal: Response | undefined;
    await using collector = startCollector(() => refusal?.clone());
    const run: Run = { collector, key: log.token, state: newState() };
    await mustRun(start(run).output);
    const saved = Deno.readTextFileSync(run.state);
    await mustRun(start(run).output);
    assertEquals(Deno.readTextFileSync(run.state), saved, "nothing is saved when nothing is new");
    Deno.writeTextFileSync(run.state, saved.slice(0, saved.length / 2));
    const damaged = await start(run).output;
    Deno.writeTextFileSync(run.state, saved);
    await fill(log, 1);
    const follow = (state: string) =>
      startCli(INSTALLED, ["follow", "--once", `--state=${state}`], { key: log.token }).output;
    const followed = newState();
    await mustRun(follow(followed));
    const held = newState();
    await lock(held);
    const to = (address: string) => start({ ...run, args: [`--to=${address}`] }).output;
    const ofOther = /is the state of forward --to=.*\/audit: give each/;
    const refusedWith = (answer: Response) => {
      refusal = answer;
      return start(run).output;
    };
    let strangers = 0;
    await using stranger = serveOnLoopback(() => new Response(`${strangers++}`));
    const { token: keyOfOther } = await newLog();
    const refused: [Ended, RegExp][] = [
      [await start({ ...run, state: followed }).output, /is the state of follow: give each/],
      [await start({ ...run, state: held }).output, /in use/],
      [damaged, /damaged/],
      [await start({ ...run, key: keyOfOther }).output, /belongs to another .* organization/],
      [await to(`${collector.url}/b`), ofOther],
      [await follow(run.state), ofOther],
      [
        await refusedWith(new Response("not\nyou", { status: 401 })),
        /refuses the entries \(401\): correct --to, --headers or the collector\.\nnot you$/m,
      ],
      [await refusedWith(new Response("", { status: 413 })), /refuses the entries \(413\)/],
      [await refusedWith(Response.redirect(stranger.url)), /refuses the entries \(302\)/],
      [await to("ftp://x"), /--to must be an https URL/],
      [await to("http://x"), /--to must be an https URL/],
      [await to("https://a:b@x"), /user or a password/],
    ];
    for (const [{ code, stderr }, message] of refused) {
      assertEquals(code, 2);
      assertMatch(stderr, message);
    }
    assertEquals(strangers, 0);
    await revoke(sql, log.apiKeyId);
    const why = /^The API refuses the key: .* Set an active one in AUDIT_LOG_API_KEY/;
    await mustFail(start({ ...run, args: [] }), 3, why);
    assertEquals(Deno.readTextFileSync(run.state), saved);
  });

  it("sends headers from a file, and shows none of them when they are no headers, or when the collector refuses them and repeats them", async () => {
    const { token: key } = await newFilledLog(10);
    const headers = `${newFolder()}/headers`;
    const secrets = ["Bearer a-secret-token", 'a/second-secret "text"'];
    await Deno.writeTextFile(
      headers,
      `Authorization: ${secrets[0]}\r\nX-Tenant:${secrets[1]} \n\nContent-Type: text/json\n`,
    );
    let accepts = true;
    await using collector = serveOnLoopback(async (request) => {
      const body = await request.text();
      const sent = ["authorization", "x-tenant", "content-type"]
        .map((name) => request.headers.get(name));
      assertEquals(sent, [...secrets, "text/json"]);
      if (accepts) return new Response(null, { status: 202 });
      return new Response(`${JSON.stringify(sent)} ${body}`, { status: 403 });
    });
    const args = ["--once", `--headers=${headers}`];
    const run = () => start({ collector, key, state: newState(), args });
    await mustRun(run().output);
    accepts = false;
    const stderr = await mustFail(run(), 2, /refuses the entries \(403\)/);
    assert(!/a-secret-token|second-secret/.test(stderr.split("\n")[1] ?? ""), stderr);
    for (const line of ["secret", "secret: a\u0001", "secret: é", "a secret: b", ": secret"]) {
      await Deno.writeTextFile(headers, `DD-API-KEY: one\n${line}\n`);
      const said = await mustFail(run(), 2, /^--headers: line 2 of .* is not a header/);
      assert(!/secret|one/.test(said.replace(headers, "")), said);
    }
  });
});

describe("public-audit-log follow", () => {
  for (const on of ["Node 22", "Node 24", "Deno"] as const) {
    it(`prints each entry as the API wrote it, and goes on from its state file, on ${on}`, async () => {
      const log = await newFilledLog(1_100);
      const args = ["follow", "--once", `--state=${newState()}`];
      const follow = () => mustRun(startCli(INSTALLED, args, { key: log.token, on }).output);
      const { stdout: first } = await follow();
      assertMatch(first, /9007199254740993/);
      await fill(log, 2);
      const { stdout: second } = await follow();
      assertEquals(idsOf(first + second), await idsOfLog(log));
    });
  }

  it("reads its key file for each request, and waits while it has another text or is missing", async () => {
    const { token } = await newFilledLog(1_500);
    const keyFile = newState();
    const setKey = (key: string) => Deno.writeTextFile(keyFile, key);
    const shown: (string | null)[] = [];
    await using api = serveOnLoopback(async ({ url, headers }) => {
      shown.push(headers.get("Authorization"));
      return await fetch(`${AUDIT_LOG_URL}${new URL(url).search}`, withKey(token));
    });
    const changes = [() => Deno.remove(keyFile), () => setKey("pck_new\n")];
    const said: string[] = [];
    const pages = follow({
      url: api.url,
      key: "",
      keyFile,
      say: (text) => said.push(text),
      wait: () => Promise.resolve(changes.shift()?.()),
    });
    await setKey("pck_old\n");
    await pages.next();
    await setKey("secret\nsecret");
    await pages.next();
    assertEquals(shown, ["Bearer pck_old", "Bearer pck_new"]);
    assertMatch(
      said.join("\n"),
      /^\S+ does not hold an API key\. Trying again.*\n.*cannot be read: .*ENOENT.*$/,
    );
  });
});
