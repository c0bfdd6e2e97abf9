import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHmac } from "node:crypto";
import { AuditLogError, follow, type FollowOptions } from "../../cli/client.ts";
import { forward } from "../../cli/forward.ts";
import { type Batch, sinkFor } from "../../cli/sinks.ts";
import {
  age,
  AUDIT_LOG_URL,
  newOrganization,
  type Organization,
  randomFrom,
  revokeApiKey,
  signUp,
  sql,
} from "../helpers.ts";
import { hangUp, type Loopback, serveOnLoopback } from "../loopback.ts";
import { type Ended, runProgram, textOf } from "../run_program.ts";
import { commandsOf, installCli } from "./installed_cli.ts";
import { idsOf, idsOfLog, writeOutOfOrder } from "./out_of_order.ts";
import { startProxy, tryAgain } from "./proxy.ts";

const INSTALLED = await installCli("@aws-sdk/client-s3@3");
const COMMANDS = commandsOf(INSTALLED);
const SECRET = `whsec_${btoa("a secret of 24 bytes, ok")}`;
const SEED = Number(Deno.env.get("FORWARD_SEED") ?? Math.floor(Math.random() * 1e9));

const admin = await signUp();

/** A new organization with so many entries on the 20th of November 2026. */
async function newLog(count: number): Promise<Organization> {
  const organization = await newOrganization(admin);
  await write(organization, count);
  return organization;
}

async function write({ id }: Organization, count: number): Promise<void> {
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${id}, '2026-11-20Z'::timestamptz + n * interval '1 s', 'feedback_given', 'ada@example.com',
      'say "},{" ' || n, '{"n": 9007199254740993}'
    from generate_series(1, ${count}::int) as n`;
}

/** What each kind of sink takes, and where the ids of the entries are in what it was sent. */
const KINDS: Record<string, { to: (url: string) => string; token: string; take: Take }> = {
  webhook: {
    to: (url) => `${url}/audit`,
    token: SECRET,
    take(request, body) {
      const [id, time, signature] = ["id", "timestamp", "signature"].map((name) =>
        request.headers.get(`webhook-${name}`)
      );
      const key = "a secret of 24 bytes, ok";
      const signed = createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64");
      assertEquals(signature, `v1,${signed}`);
      return { ids: idsOf(body), answer: new Response() };
    },
  },
  splunk: {
    to: (url) => `splunk:${url}`,
    token: "hec-token",
    take(request, body) {
      assertEquals(new URL(request.url).pathname, "/services/collector/event");
      assertEquals(request.headers.get("Authorization"), "Splunk hec-token");
      const ids = body.split("\n").map((line) => {
        const { time, event } = JSON.parse(line);
        assertEquals(time, Date.parse(event.created_at) / 1000);
        return event.id;
      });
      return { ids, answer: Response.json({ text: "Success", code: 0 }) };
    },
  },
  elasticsearch: {
    to: (url) => `elasticsearch:${url}/audit-log`,
    token: "key",
    take(request, body) {
      assertEquals(new URL(request.url).pathname, "/audit-log/_bulk");
      assertEquals(request.headers.get("Authorization"), "ApiKey key");
      const lines = body.trimEnd().split("\n").map((line) => JSON.parse(line));
      const ids = lines.flatMap((line, n) => {
        if (n % 2 === 0) return [];
        assertEquals(lines[n - 1].create._id, `${line.id}/${line.created_at}`);
        assertEquals(line["@timestamp"], line.created_at);
        return line.id as string;
      });
      // That some are there already is no failure.
      const items = ids.map((_, n) => ({ create: { status: n % 2 ? 201 : 409 } }));
      return { ids, answer: Response.json({ errors: true, items }) };
    },
  },
  s3: {
    to: () => "s3://bucket/logs",
    token: "",
    take(request, body) {
      assertMatch(new URL(request.url).pathname, /^\/bucket\/logs\/\d{12}-[0-9a-f]{16}\.ndjson$/);
      return { ids: idsOf(body), answer: new Response() };
    },
  },
};

type Take = (request: Request, body: string) => { ids: string[]; answer: Response };

/** A sink that takes what a kind is sent. `fault` may answer instead. */
function startSink(
  take: Take,
  fault: (number: number) => Promise<Response | void> | Response | void,
) {
  const received: string[] = [];
  /** What lies in a bucket. */
  const objects = new Map<string, string[]>();
  const requestedAt: number[] = [];
  const server = serveOnLoopback(async (request) => {
    const body = await request.text();
    const answer = await fault(requestedAt.push(performance.now()));
    if (answer) return answer;
    const taken = take(request, body);
    received.push(...taken.ids);
    objects.set(new URL(request.url).pathname, taken.ids);
    return taken.answer;
  });
  return { ...server, received, objects, requestedAt };
}

interface Run {
  to: string;
  state: string;
  organization: Organization;
  sink: Loopback;
  url?: string;
  token?: string;
  args?: string[];
  on?: keyof typeof COMMANDS;
  isDiskFull?: boolean;
}

/** What may happen to a request instead of being taken: one after the other, from the second on. */
const FAULTS: ((kind: string) => Response | void)[] = [
  () => {},
  () => new Response("broken", { status: 500 }),
  () => tryAgain(429, 1),
  () => new Response(hangUp(new Uint8Array(9))),
  (kind) => kind === "splunk" ? Response.json({ text: "no", code: 9 }) : undefined,
  (kind) => kind === "elasticsearch" ? new Response("<html>Sign in</html>") : undefined,
];

function start(given: Run): { process: Deno.ChildProcess; output: Promise<Ended> } {
  const { to, state, organization, sink, url = AUDIT_LOG_URL, token = "", on = "Node" } = given;
  const args = ["forward", `--to=${to}`, `--state=${state}`, ...given.args ?? ["--once"]];
  const full = given.isDiskFull ? ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"] : [];
  const [program = "", ...rest] = [...full, ...COMMANDS[on], ...args];
  const process = new Deno.Command(program, {
    args: rest,
    env: {
      AUDIT_LOG_URL: url,
      AUDIT_LOG_API_KEY: organization.token,
      FORWARD_TOKEN: token,
      AWS_ENDPOINT_URL_S3: sink.url,
      AWS_ACCESS_KEY_ID: "a",
      AWS_SECRET_ACCESS_KEY: "b",
      AWS_REGION: "eu-central-1",
      NO_COLOR: "1",
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const hangs = setTimeout(() => process.kill("SIGTERM"), 60_000);
  return { process, output: process.output().finally(() => clearTimeout(hangs)).then(textOf) };
}

async function mustRun(run: Run): Promise<Ended> {
  const ended = await start(run).output;
  assertEquals(ended.code, 0, ended.stderr);
  return ended;
}

describe("public-audit-log forward", () => {
  for (const [kind, { to, token, take }] of Object.entries(KINDS)) {
    it(`delivers every entry to ${kind}, through failures of the sink, and then what is new`, async () => {
      const organization = await newLog(2_200);
      const state = await Deno.makeTempFile({ suffix: ".state" });
      await Deno.remove(state);
      await using sink = startSink(take, (number) => FAULTS[number - 1]?.(kind));
      const run = { to: to(sink.url), state, organization, sink, token };
      assertMatch((await mustRun(run)).stdout, /^2200 entries were delivered to /);
      const [limited = 0, next = 0] = sink.requestedAt.slice(2);
      // AWS's own library waits as it likes.
      assert(kind === "s3" || next - limited >= 990);
      await writeOutOfOrder(sql, organization, 4);
      await mustRun(kind === "s3" ? run : { ...run, on: "Deno" });
      assertEquals(sink.received.toSorted(), await idsOfLog(sql, organization));
    });
  }

  it("delivers each entry at least once through 15 kills, and to a bucket exactly once", async () => {
    console.log(`FORWARD_SEED=${SEED}`);
    const random = randomFrom(SEED);
    const organization = await newLog(3_000);
    for (const kind of ["webhook", "s3"] as const) {
      const { to, token, take } = KINDS[kind] ?? KINDS["webhook"]!;
      const state = `${await Deno.makeTempDir()}/audit.state`;
      let process: Deno.ChildProcess | undefined;
      let isLast = false;
      await using sink = startSink(take, () => {
        if (!isLast) setTimeout(() => process?.kill("SIGKILL"), random(15));
      });
      const run = { to: to(sink.url), state, organization, sink, token };
      for (let kill = 0; kill < 15; kill++) {
        const running = start({ ...run, args: [] });
        process = running.process;
        await age(sql, organization.apiKeyId, "1 minute");
        await write(organization, 1 + random(400));
        const { code, stderr } = await running.output;
        assertEquals(code, 137, stderr);
      }
      isLast = true;
      await mustRun(run);
      const delivered = kind === "s3"
        ? [...sink.objects.values()].flat()
        : [...new Set(sink.received)];
      assertEquals(delivered.sort(), await idsOfLog(sql, organization));
    }
  });

  it("names a batch that is repeated as the first time, also after polls without entries", async () => {
    const organization = await newLog(10);
    const state = `${await Deno.makeTempDir()}/audit.state`;
    const names: string[] = [];
    const run = (state: string, polls: number) => {
      let waits = 0;
      const ended = new AbortController();
      const sink = ({ number, from, lines }: Batch) => {
        names.push(`${number} ${from} ${lines.length}`);
        return number === 1 && polls > 0 ? Promise.reject(new Error("killed")) : Promise.resolve();
      };
      const { token: key } = organization;
      const wait = async () => {
        if (waits++ === polls) polls > 0 ? await write(organization, 5) : ended.abort();
      };
      const { signal } = ended;
      return forward(sink, { url: AUDIT_LOG_URL, key, state, everyMs: 1, signal, wait });
    };
    await assertRejects(() => run(state, 3), Error, "killed");
    await Deno.copyFile(state, `${state}.then`);
    await assertRejects(() => run(`${state}.then`, 0), DOMException);
    assertEquals([names.length, names[2]], [3, names[1]]);
  });

  it("misses nothing while either side is down for an hour", async () => {
    const organization = await newLog(1_500);
    let now = 0;
    const isDown = () => now > 10_000 && now < 3_610_000;
    const down = () => new Response("", { status: 503 });
    const { to, token, take } = KINDS["splunk"]!;
    for (const broken of ["sink", "API"]) {
      now = 0;
      await using sink = startSink(take, () => broken === "sink" && isDown() ? down() : undefined);
      await using api = startProxy(async (_number, forward) => {
        await age(sql, organization.apiKeyId, "1 minute");
        return broken === "API" && isDown() ? down() : await forward();
      });
      const ended = new AbortController();
      let written = 0;
      const options: FollowOptions & { state: string } = {
        url: api.url,
        key: organization.token,
        state: `${await Deno.makeTempDir()}/audit.state`,
        everyMs: 5_000,
        signal: ended.signal,
        async wait(ms) {
          now += ms;
          if (now > 3_700_000) ended.abort();
          // Now and then, in the hour.
          if (now > written * 900_000) {
            written = Math.ceil(now / 900_000), await write(organization, 700);
          }
        },
      };
      await forward(await sinkFor(to(sink.url), token), options).catch(() => {});
      assert(now > 3_700_000);
      assertEquals(sink.received.toSorted(), await idsOfLog(sql, organization));
    }
  });

  it("delivers again what its sink confirms too late", async () => {
    const organization = await newLog(10);
    const { to, token, take } = KINDS["webhook"]!;
    const limits: AbortController[] = [];
    const { timeout } = AbortSignal;
    AbortSignal.timeout = () => (limits.push(new AbortController()), limits.at(-1)!.signal);
    await using sink = startSink((request, body) => {
      if (sink.requestedAt.length === 1) limits.at(-1)?.abort(new Error("too late"));
      return take(request, body);
    }, () => {});
    try {
      const options = {
        url: AUDIT_LOG_URL,
        key: organization.token,
        wait: () => Promise.resolve(),
      };
      assertEquals(await forward(await sinkFor(to(sink.url), token), options), 10);
    } finally {
      AbortSignal.timeout = timeout;
    }
    assertEquals([sink.received.length, new Set(sink.received).size], [20, 10]);
  });

  it("stops when its key is revoked, and says what to do", async () => {
    const organization = await newLog(10);
    const { to, token, take } = KINDS["webhook"]!;
    const state = `${await Deno.makeTempDir()}/audit.state`;
    await using sink = startSink(take, async () => {
      await revokeApiKey(admin, { organization_id: organization.id, id: organization.apiKeyId });
    });
    const run = { to: to(sink.url), state, organization, sink, token, args: [] };
    const { code, stderr } = await start(run).output;
    assertEquals([code, sink.received.length], [3, 10]);
    assertMatch(stderr, /^The API refuses the key: .* Set an active one in AUDIT_LOG_API_KEY/);
  });

  it("refuses a second forwarder of a state file, one that is cut, and a sink that refuses", async () => {
    const organization = await newLog(10);
    const { to, token, take } = KINDS["webhook"]!;
    const folder = await Deno.makeTempDir();
    const state = `${folder}/audit.state`;
    const second = Promise.withResolvers<Ended>();
    let isRefusing = false;
    await using sink = startSink(take, async () => {
      if (isRefusing) return new Response("not you", { status: 401 });
      second.resolve(start(run).output);
      await second.promise;
    });
    const run = { to: to(sink.url), state, organization, sink, token };
    await mustRun(run);
    const refused = [await second.promise];
    const saved = await Deno.readTextFile(state);
    await Deno.writeTextFile(state, saved.slice(0, saved.length / 2));
    refused.push(await start(run).output);
    await Deno.writeTextFile(state, saved);
    await write(organization, 1);
    isRefusing = true;
    refused.push(await start(run).output, await start({ ...run, token: "" }).output);
    refused.push(await start({ ...run, to: "ftp://x" }).output);
    assertEquals(refused.map(({ code }) => code), [2, 2, 2, 2, 2]);
    const messages = [
      /in use/,
      /damaged/,
      /refuses the entries \(401\)/,
      /FORWARD_TOKEN/,
      /--to: /,
    ];
    refused.forEach(({ stderr }, n) => assertMatch(stderr, messages[n] ?? /never/));
    assertEquals(Deno.readTextFileSync(state), saved);
  });

  it("ends with code 1 when the disk is full, and then delivers the batch once more", async () => {
    const organization = await newLog(10);
    const { to, token, take } = KINDS["webhook"]!;
    await using sink = startSink(take, () => {});
    const state = `${await Deno.makeTempDir()}/audit.state`;
    const run = { to: to(sink.url), state, organization, sink, token };
    const { code, stderr } = await start({ ...run, isDiskFull: true }).output;
    assertEquals(code, 1);
    assertMatch(stderr, /audit\.state\S* cannot be written: .*\. Then run the same command again/);
    await mustRun(run);
    assertEquals(sink.received.length, 20);
  });
});

describe("public-audit-log follow", () => {
  for (const [on, [program = "", ...args]] of Object.entries(COMMANDS)) {
    it(`prints each entry as the API wrote it, and goes on from its state file, on ${on}`, async () => {
      const organization = await newLog(1_100);
      const state = `${await Deno.makeTempDir()}/audit.state`;
      const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY_FILE: `${state}.key`, NO_COLOR: "1" };
      await Deno.writeTextFile(`${state}.key`, `${organization.token}\n`);
      const run = () =>
        runProgram(program, { args: [...args, "follow", "--once", `--state=${state}`], env });
      const first = await run();
      assertMatch(first.stdout, /9007199254740993/);
      await write(organization, 2);
      const printed = idsOf(first.stdout + (await run()).stdout);
      assertEquals(printed, await idsOfLog(sql, organization));
    });
  }
});

describe("import { follow } from public-audit-log", () => {
  it("gives each page with its types, and ends when caught up or aborted", async () => {
    const organization = await newLog(1_100);
    const program = `
      import { follow } from "public-audit-log";
      const { AUDIT_LOG_URL: url, AUDIT_LOG_API_KEY: key } = process.env;
      for await (const page of follow({ url, key })) console.log(page.items.length, page.hasMore);`;
    const { stdout } = await runProgram("node", {
      args: ["--input-type=module", "--eval", program],
      cwd: INSTALLED,
      env: { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: organization.token },
    });
    assertEquals(stdout, "1000 true\n100 false\n");
    const types = await Deno.readTextFile(
      `${INSTALLED}/node_modules/public-audit-log/dist/client.d.ts`,
    );
    assertMatch(types, /function follow\(options: FollowOptions\): AsyncGenerator<Page>/);
    const { token: key } = organization;
    const pages = follow({ url: AUDIT_LOG_URL, key, signal: AbortSignal.abort() });
    await assertRejects(() => pages.next(), DOMException);
    const wrong = follow({ url: AUDIT_LOG_URL, key: "pck_none" });
    await assertRejects(() => wrong.next(), AuditLogError, "refuses the key");
  });
});
