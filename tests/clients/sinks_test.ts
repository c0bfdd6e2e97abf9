import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL, insertEntries, sql } from "../helpers.ts";
import { type Loopback, serveOnLoopback } from "../loopback.ts";
import { type Ended, runDeno } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";
import { idsOfLog, newFilledLog } from "./log.ts";

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `forward --once` with a new state. */
function forward(key: string, to: string, ...args: string[]): Promise<Ended> {
  const options = ["--once", `--state=${newFolder()}/state`, `--to=${to}`, ...args];
  const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: key, NO_COLOR: "1" };
  return runDeno({ args: ["run", "-A", MAIN, "forward", ...options], env });
}

/** Starts an Elasticsearch that refuses some actions. */
function refuse(actions: RegExp, status: number, type: string): Loopback & { to: string } {
  const server = serveOnLoopback(async (request) => {
    const lines = (await request.text()).trimEnd().split("\n").filter((_, n) => n % 2 === 1);
    const items = lines.map((line) => ({
      create: actions.test(JSON.parse(line).action) ? { status, error: { type } } : { status: 201 },
    }));
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
    assertThrows(() => Deno.statSync(`${file}.403`), Deno.errors.NotFound);
  });

  it("refuses headers that are none, without showing them, and options of other sinks", async () => {
    const { token } = await newFilledLog(1);
    const headers = `${newFolder()}/headers`;
    await Deno.writeTextFile(headers, "DD-API-KEY: one\nsecret\u0001\n");
    const cases: [to: string, option: string, message: RegExp][] = [
      ["https://x.example", `--headers=${headers}`, /^--headers: line 2 of .* is no header/],
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
