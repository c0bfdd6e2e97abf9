import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHmac } from "node:crypto";
import { fileURLToPath } from "node:url";
import {
  type Batch,
  type Outgoing,
} from "../../supabase/functions/audit-log-streams/destinations/destination.ts";
import {
  newSigningSecret,
  webhook,
} from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";
import { AUDIT_LOG_URL, insertEntries, sql } from "../helpers.ts";
import { type Loopback, serveOnLoopback } from "../loopback.ts";
import { type Ended, runDeno } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";
import { idsOfLog, newFilledLog } from "./log.ts";

const RECEIVER = fileURLToPath(new URL("../../examples/webhook/receive.mjs", import.meta.url));
const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `forward --once` with a new state. */
function forward(key: string, to: string, ...args: string[]): Promise<Ended> {
  return forwardWith("", key, to, ...args);
}

function forwardWith(secret: string, key: string, to: string, ...args: string[]): Promise<Ended> {
  const options = ["--once", `--state=${newFolder()}/state`, `--to=${to}`, ...args];
  const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: key, FORWARD_TOKEN: secret, NO_COLOR: "1" };
  return runDeno({ args: ["run", "-A", MAIN, "forward", ...options], env });
}

/** Starts an Elasticsearch that refuses some actions. */
function refuse(actions: RegExp, status: number, type: string): Loopback & { to: string } {
  const server = serveOnLoopback(async (request) => {
    const lines = (await request.text()).trimEnd().split("\n").filter((_, n) => n % 2 === 1);
    const items = lines.map((line) => {
      const { action, created_at, "@timestamp": timestamp } = JSON.parse(line);
      assertEquals(timestamp, created_at);
      return { create: actions.test(action) ? { status, error: { type } } : { status: 201 } };
    });
    return Response.json({ errors: true, items });
  });
  return { ...server, to: `elasticsearch:${server.url}/audit` };
}

describe("public-audit-log forward", () => {
  it("sends headers from a file and arrays of at most 900 kB to any https sink, and repeats no array that was taken", async () => {
    const log = await newFilledLog(900);
    const given = { data: JSON.stringify({ text: "x".repeat(2_000) }) };
    await insertEntries(sql, log.id, "2026-11-21", 1000, given);
    const file = `${newFolder()}/headers`;
    await Deno.writeTextFile(
      file,
      "DD-API-KEY: one\r\nX-Tenant:two \n\nContent-Type: text/json\n",
    );
    const expected = {
      "dd-api-key": "one",
      "x-tenant": "two",
      "content-type": "text/json",
      "webhook-signature": null,
    };
    const taken: string[] = [];
    let number = 0;
    await using sink = serveOnLoopback(async (request) => {
      const body = await request.text();
      const headers = Object.keys(expected).map((name) => [name, request.headers.get(name)]);
      assertEquals(Object.fromEntries(headers), expected);
      assert(new TextEncoder().encode(body).length <= 900_000, `${body.length}`);
      // Takes one array of two.
      if (number++ % 2 === 1) return new Response(null, { status: 503 });
      taken.push(body);
      return new Response(null, { status: 202 });
    });
    await mustRun(forward(log.token, sink.url, `--headers=${file}`, "--body=array"));
    const ids = taken.flatMap((body) => JSON.parse(body).map(({ id }: { id: string }) => id));
    assertEquals(ids.sort(), await idsOfLog(log));
    assertMatch(taken.join(), /9007199254740993/);
  });

  it("writes entries that Elasticsearch cannot map to the file that --refused names, and delivers the rest; stops when the index or the token is refused", async () => {
    const log = await newFilledLog(30);
    const type = "document_parsing_exception";
    await using sink = refuse(/feedback_given/, 400, type);
    const file = `${newFolder()}/refused.ndjson`;
    const { stdout, stderr } = await mustRun(forward(log.token, sink.to, `--refused=${file}`));
    assertMatch(stdout, /^30 entries were delivered to .*, or are in .*refused\.ndjson$/m);
    const lines = Deno.readTextFileSync(file).trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(lines.map(({ entry }) => entry.action), Array(10).fill("feedback_given"));
    assertEquals(stderr.trimEnd().split("\n").length, 10);
    const [{ entry, reason }] = lines;
    assertEquals(reason, { type });
    const named = `refuses the entry ${entry.id} of ${entry.created_at}: {"type":"${type}`;
    assert(stderr.includes(named), stderr);
    // Without a file, it stops.
    const { code, stderr: why } = await forward(log.token, sink.to);
    assertEquals(code, 2);
    assertMatch(why, /refuses the entry .*Correct the index's mapping, or give --refused=FILE/);
    await using blocked = refuse(/./, 403, "cluster_block_exception");
    const stopped = await forward(log.token, blocked.to, `--refused=${file}.403`);
    assertEquals(stopped.code, 2);
    assertMatch(stopped.stderr, /refuses the entry .*cluster_block_exception.*Correct the index/);
    for (const reason of ["index_closed_exception", type]) {
      // No entry is at fault: the index is closed, or takes nothing.
      await using wrong = refuse(/./, 400, reason);
      const { code, stderr } = await forward(log.token, wrong.to, `--refused=${file}.403`);
      assertEquals(code, 2);
      assertMatch(stderr, new RegExp(`${reason}.*Correct the index`));
    }
    assertThrows(() => Deno.statSync(`${file}.403`), Deno.errors.NotFound);
  });

  it("sends half as much after a 413, and puts aside the one entry that an OTLP receiver rejects", async () => {
    const log = await newFilledLog(900);
    const taken: string[][] = [];
    let rejected: string | undefined;
    await using sink = serveOnLoopback(async (request) => {
      const { scopeLogs: [{ logRecords }] } = (await request.json()).resourceLogs[0];
      if (logRecords.length > 500) return new Response(null, { status: 413 });
      const ids: string[] = logRecords.map(({ body }: { body: { stringValue: string } }) =>
        JSON.parse(body.stringValue).id
      );
      rejected ??= ids[200];
      const rejectedLogRecords = ids.filter((id) => id === rejected).length;
      taken.push(ids.filter((id) => id !== rejected));
      return Response.json({ partialSuccess: { rejectedLogRecords, errorMessage: "too old" } });
    });
    const file = `${newFolder()}/refused.ndjson`;
    await mustRun(forward(log.token, `otlp:${sink.url}/v1/logs`, `--refused=${file}`));
    const refused = JSON.parse(Deno.readTextFileSync(file));
    assertEquals(refused.entry.id, rejected);
    assertMatch(refused.reason, /too old/);
    const all = [...new Set(taken.flat()), refused.entry.id].sort();
    assertEquals(all, await idsOfLog(log));
  });

  it("sends Slack a message for at most 25 entries", async () => {
    const log = await newFilledLog(60);
    const counts: number[] = [];
    await using sink = serveOnLoopback(async (request) => {
      assertEquals(new URL(request.url).pathname, "/services/T0/B0/secret");
      counts.push((await request.json()).text.split("\n").length);
      return new Response("ok");
    });
    await mustRun(forwardWith("T0/B0/secret", log.token, `slack:${sink.url}/services`));
    assertEquals(counts, [25, 25, 10]);
  });

  it("refuses headers that are none, without showing them, and options of other sinks", async () => {
    const { token } = await newFilledLog(1);
    const headers = `${newFolder()}/headers`;
    await Deno.writeTextFile(headers, "DD-API-KEY: one\nsecret\u0001\n");
    const cases: [to: string, option: string, message: RegExp][] = [
      ["https://x.example", `--headers=${headers}`, /^--headers: line 2 of .* is not a header/],
      ["https://x.example", "--body=xml", /^--body must be array or ndjson/],
      ["https://x.example", "--refused=x", /^--refused is not for --to=https/],
      ["s3://a:secret@bucket", "--body=array", /^--to must not have a user or a password/],
      ["splunk:https://x.example", "--body=array", /^--body is not for --to=splunk/],
      ["https://x.example", "--body=array", /^FORWARD_TOKEN must be .* Or give --headers/],
    ];
    for (const [to, option, message] of cases) {
      const { code, stderr } = await forward(token, to, option);
      assertEquals(code, 2);
      assertMatch(stderr, message);
      assert(!/secret|one/.test(stderr.replace(headers, "")), stderr);
    }
  });
});

/** Starts the example that docs/integrating.md shows, until it is disposed of. */
async function startReceiver(secret: string) {
  const folder = `${newFolder()}/received`;
  const process = new Deno.Command("node", {
    args: [RECEIVER, folder],
    env: { WEBHOOK_SECRET: secret, PORT: "0" },
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value = "" } = await reader.read();
  return {
    folder,
    url: `http://127.0.0.1:${value.match(/port (\d+)/)?.[1]}/`,
    async [Symbol.asyncDispose]() {
      process.kill();
      await reader.cancel();
      await process.status;
    },
  };
}

it("examples/webhook/receive.mjs keeps what was signed, once, also with the old secret during a rotation; refuses another secret, another body and an old request", async () => {
  const log = await newFilledLog(1_200);
  const secret = newSigningSecret();
  await using receiver = await startReceiver(secret);
  const { folder, url } = receiver;
  for (let n = 0; n < 2; n++) await mustRun(forwardWith(secret, log.token, url));
  const files = Array.from(Deno.readDirSync(folder), ({ name }) => `${folder}/${name}`);
  assertEquals(files.length, 2);
  const lines = files.flatMap((file) => Deno.readTextFileSync(file).trimEnd().split("\n"));
  assertEquals(lines.map((line) => JSON.parse(line).id).sort(), await idsOfLog(log));
  const { code, stderr } = await forwardWith(newSigningSecret(), log.token, url);
  assertEquals(code, 2);
  assertMatch(stderr, /refuses the entries \(401\)[^]*the signature is wrong/);

  const [line = ""] = lines;
  const batch: Batch = {
    what: "entries",
    lines: [line],
    number: 0,
    name: "",
    shownId: "",
  };
  const request = await webhook({ kind: "webhook", url }).build(batch, [
    newSigningSecret(),
    secret,
  ]);
  const send = async ({ url, ...init }: Outgoing) => {
    const { status, body } = await fetch(url, init);
    await body?.cancel();
    return status;
  };
  assertEquals(await send(request), 204);
  assertEquals(await send({ ...request, body: request.body.map((byte) => byte ^ 1) }), 401);
  const { headers } = request;
  const time = `${Number(headers["webhook-timestamp"]) - 400}`;
  const key = atob(secret.replace("whsec_", ""));
  const signature = createHmac("sha256", key, { encoding: "latin1" })
    .update(`${headers["webhook-id"]}.${time}.${line}\n`).digest("base64");
  const old = { "webhook-timestamp": time, "webhook-signature": `v1,${signature}` };
  assertEquals(await send({ ...request, headers: { ...headers, ...old } }), 401);
});
