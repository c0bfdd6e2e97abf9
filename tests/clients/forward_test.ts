import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { Temporary } from "../../cli/client.ts";
import { lock } from "../../cli/files.ts";
import { follow } from "../../cli/follow.ts";
import { forward } from "../../cli/forward.ts";
import { type Delivery, sinkFor } from "../../cli/sinks.ts";
import { age, AUDIT_LOG_URL, randomFrom, revoke, sql, UNKNOWN_TOKEN, withKey } from "../helpers.ts";
import { hangUp, serveOnLoopback } from "../loopback.ts";
import { type Ended, runDeno, runProgram } from "../run_program.ts";
import { type CliOptions, installCli, KILLED, mustRun, newFolder, startCli } from "./cli.ts";
import { fill, idsOf, idsOfLog, newFilledLog } from "./log.ts";
import { startProxy, tryAgain } from "./proxy.ts";

const INSTALLED = await installCli();
const SEED = Number(Deno.env.get("FORWARD_SEED") ?? Math.floor(Math.random() * 1e9));

/** A destination, as far as the command decides about it. tests/pure/destinations_test.ts has what its requests hold. */
interface Kind {
  to: (url: string) => string;
  token: string;
  path: RegExp;
  header?: [name: string, value: string];
  answer?: (ids: string[]) => Response;
}

const KINDS: Record<"webhook" | "splunk" | "elasticsearch" | "datadog" | "otlp" | "s3", Kind> = {
  webhook: {
    to: (url) => `${url}/audit`,
    token: `whsec_${btoa("a secret of 24 bytes, ok")}`,
    path: /^\/audit$/,
  },
  splunk: {
    to: (url) => `splunk:${url}`,
    token: "hec-token",
    path: /^\/services\/collector\/event$/,
    header: ["Authorization", "Splunk hec-token"],
    answer: () => Response.json({ text: "Success", code: 0 }),
  },
  elasticsearch: {
    to: (url) => `elasticsearch:${url}/audit-log`,
    token: "key",
    path: /^\/audit-log\/_bulk$/,
    header: ["Authorization", "ApiKey key"],
    answer: (ids) => {
      // 409 says that an entry is there already, which is no failure.
      const items = ids.map((_, n) => ({ create: { status: n % 2 ? 201 : 409 } }));
      return Response.json({ errors: true, items });
    },
  },
  datadog: {
    to: (url) => `datadog:${url}`,
    token: "key",
    path: /^\/api\/v2\/logs$/,
    header: ["DD-API-KEY", "key"],
  },
  otlp: {
    to: (url) => `otlp:${url}/v1/logs`,
    token: "Authorization: Bearer key",
    path: /^\/v1\/logs$/,
    header: ["Authorization", "Bearer key"],
  },
  s3: {
    to: () => "s3://bucket/logs",
    token: "",
    path: /^\/bucket\/logs\/\d{12}-[0-9a-f]{16}\.ndjson$/,
    answer: () => new Response(null, { headers: { ETag: '"of the object"' } }),
  },
};

/** The ids of the entries in a body, which may have each entry as a text. */
function idsIn(body: string): string[] {
  return Array.from(body.matchAll(/[{,]\\?"id\\?":\\?"([\w-]{36})/g), ([, id = ""]) => id);
}

type SinkFault = (number: number) => Promise<Response | void> | Response | void;

/** Starts a sink of a kind. `fault` may answer its nth request instead. */
function startSink({ path, header, answer }: Kind, fault: SinkFault = () => {}) {
  const received: string[] = [];
  /** The ids in each object of a bucket. */
  const objects = new Map<string, string[]>();
  const requestedAt: number[] = [];
  const server = serveOnLoopback(async (request) => {
    const ids = idsIn(await request.text());
    const failure = await fault(requestedAt.push(performance.now()));
    if (failure) return failure;
    const { pathname } = new URL(request.url);
    assertMatch(pathname, path);
    if (header) assertEquals(request.headers.get(header[0]), header[1]);
    received.push(...ids);
    objects.set(pathname, ids);
    return answer?.(ids) ?? new Response();
  });
  return { ...server, received, objects, requestedAt };
}

interface Run extends CliOptions {
  kind?: keyof typeof KINDS;
  sink: { url: string };
  state: string;
  args?: string[];
}

function start({ kind = "webhook", sink, state, args = ["--once"], ...options }: Run) {
  const { to, token } = KINDS[kind];
  const env = {
    FORWARD_TOKEN: token,
    AWS_ENDPOINT_URL_S3: sink.url,
    AWS_ACCESS_KEY_ID: "a",
    AWS_SECRET_ACCESS_KEY: "b",
    AWS_REGION: "eu-central-1",
  };
  const all = ["forward", `--to=${to(sink.url)}`, `--state=${state}`, ...args];
  return startCli(INSTALLED, all, { env, ...options });
}

function newState(): string {
  return `${newFolder()}/audit.state`;
}

/** What a sink does with its first requests instead of taking them. */
const FAULTS: ((kind: string) => Response | void)[] = [
  () => {},
  () => new Response("broken", { status: 500 }),
  () => tryAgain(429, "1"),
  () => new Response(hangUp(new Uint8Array(9))),
  (kind) => kind === "splunk" ? Response.json({ text: "no", code: 9 }) : undefined,
  (kind) => kind === "webhook" ? undefined : new Response("<html>Sign in</html>"),
];

describe("public-audit-log forward", () => {
  for (const kind of ["webhook", "splunk", "elasticsearch", "datadog", "otlp", "s3"] as const) {
    it(`delivers every entry to ${kind}, through failures of the sink`, async () => {
      const log = await newFilledLog(2_200);
      await using sink = startSink(KINDS[kind], (number) => FAULTS[number - 1]?.(kind));
      const on = kind === "s3" ? "Node" : "Deno";
      const run: Run = { kind, sink, key: log.token, state: newState(), on };
      assertMatch((await mustRun(start(run).output)).stdout, /^2200 entries were delivered to /);
      const [limited = 0, next = 0] = sink.requestedAt.slice(2);
      assert(next - limited >= 990);
      assertEquals(sink.received.toSorted(), await idsOfLog(log));
    });
  }

  for (const [kind, times] of [["webhook", "at least"], ["s3", "exactly"]] as const) {
    it(`delivers each entry ${times} once to ${kind}, through eight kills`, async () => {
      console.log(`FORWARD_SEED=${SEED}`);
      const random = randomFrom(SEED);
      const log = await newFilledLog(3_000);
      let running: ReturnType<typeof start> | undefined;
      await using sink = startSink(KINDS[kind], () => {
        if (running) setTimeout(() => running?.process.kill("SIGKILL"), random(15));
      });
      const run = { kind, sink, key: log.token, state: newState() };
      for (let kill = 0; kill < 8; kill++) {
        running = start({ ...run, args: [] });
        await age(sql, log.apiKeyId, "1 minute");
        await fill(log, 1 + random(400));
        const { code, stderr } = await running.output;
        assertEquals(code, KILLED, stderr);
      }
      running = undefined;
      await mustRun(start(run).output);
      const delivered = kind === "s3"
        ? [...sink.objects.values()].flat()
        : [...new Set(sink.received)];
      assertEquals(delivered.sort(), await idsOfLog(log));
    });
  }

  it("goes on trying, however often its sink and the API fail", async () => {
    const log = await newFilledLog(10);
    const received: string[] = [];
    let failures = 0;
    const sink = ({ lines }: Delivery) => {
      if (++failures <= 100) return Promise.reject(new Temporary("down"));
      return Promise.resolve(void received.push(...lines.map((line) => JSON.parse(line).id)));
    };
    await using api = startProxy((number, answer) => number <= 100 ? tryAgain(503) : answer(), log);
    const wait = () =>
      received.length > 0 ? Promise.reject(new Error("caught up")) : Promise.resolve();
    const options = { url: api.url, key: log.token, goesOn: true, wait };
    await assertRejects(() => forward(sink, options), Error, "caught up");
    assertEquals(received.sort(), await idsOfLog(log));
  });

  it("delivers again what its sink confirms too late", async () => {
    const { token: key } = await newFilledLog(10);
    const { to, token } = KINDS.webhook;
    const { setTimeout } = globalThis;
    let expire: (() => void) | undefined;
    globalThis.setTimeout = ((run: () => void, ms: number) => {
      if (ms === 120_000) expire = run;
      return setTimeout(run, ms);
    }) as typeof setTimeout;
    await using sink = startSink(KINDS.webhook, () => {
      // Only the first delivery is too late.
      if (sink.received.length === 0) expire?.();
    });
    try {
      const options = { url: AUDIT_LOG_URL, key, wait: () => Promise.resolve() };
      assertEquals(await forward(sinkFor(to(sink.url), token), options), 10);
    } finally {
      globalThis.setTimeout = setTimeout;
    }
    assertEquals([sink.received.length, new Set(sink.received).size], [20, 10]);
  });

  it("stops and says what to do: a second forwarder, a damaged state file, a sink or an API that refuses", async () => {
    const log = await newFilledLog(10);
    let isRefusing = false;
    const refuse = () => isRefusing ? new Response("not you", { status: 401 }) : undefined;
    await using sink = startSink(KINDS.webhook, refuse);
    const run: Run = { sink, key: log.token, state: newState() };
    await mustRun(start(run).output);
    const saved = Deno.readTextFileSync(run.state);
    // So the next page keeps its number and its cursor, which name it to a bucket.
    await mustRun(start(run).output);
    assertEquals(Deno.readTextFileSync(run.state), saved, "nothing is saved when nothing is new");
    Deno.writeTextFileSync(run.state, saved.slice(0, saved.length / 2));
    const damaged = await start(run).output;
    Deno.writeTextFileSync(run.state, saved);
    await fill(log, 1);
    isRefusing = true;
    const follow = (state: string) =>
      startCli(INSTALLED, ["follow", "--once", `--state=${state}`], { key: log.token }).output;
    const followed = newState();
    await mustRun(follow(followed));
    const held = newState();
    await lock(held);
    const to = (address: string) => start({ ...run, args: [`--to=${address}`] }).output;
    const ofOther = /is the state of forward --to=.*\/audit: give each/;
    const refused: [Ended, RegExp][] = [
      [await start({ ...run, state: followed }).output, /is the state of follow: give each/],
      [await start({ ...run, state: held }).output, /in use/],
      [damaged, /damaged/],
      [await to(`${sink.url}/b`), ofOther],
      [await follow(run.state), ofOther],
      [await start(run).output, /refuses the entries \(401\)/],
      [await start({ ...run, env: {} }).output, /FORWARD_TOKEN/],
      [await to("ftp://x"), /--to: /],
      [await to("splunk:http://x"), /--to must be an https URL/],
      [await to("https://a:b@x"), /user or a password/],
      [await to(`elasticsearch:${sink.url}`), /index is missing/],
    ];
    for (const [{ code, stderr }, message] of refused) {
      assertEquals(code, 2);
      assertMatch(stderr, message);
    }
    await revoke(sql, log.apiKeyId);
    const { code, stderr } = await start({ ...run, args: [] }).output;
    assertEquals(code, 3);
    assertMatch(stderr, /^The API refuses the key: .* Set an active one in AUDIT_LOG_API_KEY/);
    assertEquals(Deno.readTextFileSync(run.state), saved);
  });
});

describe("public-audit-log follow", () => {
  for (const on of ["Node 20", "Node 22", "Deno"] as const) {
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

/** Runs a program of somebody who has installed the package. */
async function runInNode(program: string, key = ""): Promise<Ended> {
  return await runProgram("node", {
    args: ["--input-type=module", "--eval", program],
    cwd: INSTALLED,
    env: { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: key },
  });
}

describe("import { follow } from public-audit-log", () => {
  it("gives each page with its types, and ends when caught up", async () => {
    const { token: key } = await newFilledLog(1_100);
    const program = `
      import { follow } from "Public-Audit-Log";
      const { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key } = process.env;
      for await (const page of follow({ url, key })) console.log(page.items.length, page.hasMore);`;
    const { stdout } = await runInNode(program, key);
    assertEquals(stdout, "1000 true\n100 false\n");
  });

  it("gives an error with the exit code that the command would have", async () => {
    const program = `
      import { AuditLogError, follow } from "Public-Audit-Log";
      const { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key } = process.env;
      await follow({ url, key }).next().catch((error) =>
        console.log(error instanceof AuditLogError, error.exitCode, error.message.split(":")[0]));`;
    const { stdout } = await runInNode(program, UNKNOWN_TOKEN);
    assertEquals(stdout, "true 3 The API refuses the key\n");
  });

  it("gives what docs/integrating.md names, with its types, and nothing else", async () => {
    const program = `
      import * as library from "Public-Audit-Log";
      import type { Entry, FeedPage, FollowOptions, Selection } from "Public-Audit-Log";
      // @ts-expect-error: the command's own
      import type { ApiOptions } from "Public-Audit-Log";
      // @ts-expect-error: the command's own
      import { send } from "Public-Audit-Log/dist/client.js";

      const all: Record<keyof typeof library, true> = { AuditLogError: true, follow: true };
      const selection: Selection = { start: "2026-11-01" };
      const options: FollowOptions = { url: "https://x.example", key: "pck_x", ...selection };
      const pages: AsyncGenerator<FeedPage> = library.follow(options);
      const { items, cursor }: { items: Entry[]; cursor: string } = (await pages.next()).value;
      const code = (error: library.AuditLogError): number => error.exitCode;`;
    await Deno.writeTextFile(`${INSTALLED}/program.ts`, program);
    await mustRun(runDeno({ args: ["check", "program.ts"], cwd: INSTALLED }));
    const names = 'console.log(Object.keys(await import("Public-Audit-Log")))';
    const { stdout } = await runInNode(names);
    assertEquals(stdout.trim(), "[ 'AuditLogError', 'follow' ]");
  });
});
