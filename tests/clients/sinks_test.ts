import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { AUDIT_LOG_URL, sql } from "../helpers.ts";
import { type Loopback, serveOnLoopback } from "../loopback.ts";
import { type Ended, runDeno } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";
import { idsOfLog, newFilledLog } from "./log.ts";

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));

/** Runs `forward --once` with a new state. */
function forward(key: string, to: string, ...args: string[]): Promise<Ended> {
  const all = [
    "run",
    "-A",
    MAIN,
    "forward",
    "--once",
    `--state=${newFolder()}/state`,
    `--to=${to}`,
  ];
  const env = { AUDIT_LOG_URL, AUDIT_LOG_API_KEY: key, NO_COLOR: "1" };
  return runDeno({ args: [...all, ...args], env });
}

/** Starts a receiver, which answers as it is told. */
function receive(answer: (body: string, number: number) => Response): Loopback & {
  requests: { headers: Headers; body: string }[];
} {
  const requests: { headers: Headers; body: string }[] = [];
  const server = serveOnLoopback(async (request) => {
    const body = await request.text();
    requests.push({ headers: request.headers, body });
    return answer(body, requests.length);
  });
  return { ...server, requests };
}

describe("public-audit-log forward", () => {
  it("sends headers from a file and arrays of at most 900 kB to any https sink, and repeats no array that was taken", async () => {
    const log = await newFilledLog(900);
    const text = "x".repeat(2_000);
    await sql`
      insert into audit_log.audit_entries (organization_id, action, user_email, agent_name, data)
      select ${log.id}, 'agent_added', 'ada@example.com', 'x', jsonb_build_object('text', ${text}::text)
      from generate_series(1, 1000)`;
    const headers = `${newFolder()}/headers`;
    await Deno.writeTextFile(
      headers,
      "DD-API-KEY: one\r\nX-Tenant:two \n\nContent-Type: text/json\n",
    );
    // Takes one array of two.
    await using sink = receive((_body, n) => new Response(null, { status: n % 2 ? 202 : 503 }));
    await mustRun(forward(log.token, sink.url, `--headers=${headers}`, "--body=array"));
    const taken = sink.requests.filter((_, n) => n % 2 === 0);
    const ids = taken.flatMap(({ body }) => JSON.parse(body).map(({ id }: { id: string }) => id));
    assertEquals(ids.sort(), await idsOfLog(log));
    for (const { headers, body } of sink.requests) {
      assertEquals(headers.get("DD-API-KEY"), "one");
      assertEquals(headers.get("X-Tenant"), "two");
      assertEquals(headers.get("Content-Type"), "text/json");
      assertEquals(headers.get("webhook-signature"), null);
      assert(new TextEncoder().encode(body).length <= 900_000, `${body.length}`);
    }
    assertMatch(taken.map(({ body }) => body).join(), /9007199254740993/);
  });

  it("writes entries that Elasticsearch cannot map to the file that --refused names, and delivers the rest", async () => {
    const log = await newFilledLog(30);
    await using sink = receive((body) => {
      const lines = body.trimEnd().split("\n").filter((_, n) => n % 2 === 1);
      const items = lines.map((line) => {
        if (JSON.parse(line).action !== "feedback_given") return { create: { status: 201 } };
        return { create: { status: 400, error: { type: "document_parsing_exception" } } };
      });
      return Response.json({ errors: true, items });
    });
    const to = `elasticsearch:${sink.url}/audit`;
    const refused = `${newFolder()}/refused.ndjson`;
    const { stdout, stderr } = await mustRun(forward(log.token, to, `--refused=${refused}`));
    assertMatch(stdout, /^30 entries were delivered to .*, or are in .*refused\.ndjson$/m);
    const lines = Deno.readTextFileSync(refused).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    );
    assertEquals(lines.map(({ entry }) => entry.action), Array(10).fill("feedback_given"));
    assertEquals(stderr.trimEnd().split("\n").length, 10);
    const [{ entry, reason }] = lines;
    assertEquals(reason, { type: "document_parsing_exception" });
    const named = `refuses the entry ${entry.id} of ${entry.created_at}: {"type":"document_parsing`;
    assert(stderr.includes(named), stderr);
    // Without a file, it stops.
    const { code, stderr: why } = await forward(log.token, to);
    assertEquals(code, 2);
    assertMatch(why, /refuses the entry .*Correct the index's mapping, or give --refused=FILE/);
  });

  it("puts no entry into --refused that Elasticsearch does not refuse for its fields, and stops", async () => {
    const log = await newFilledLog(3);
    // As for a write block, a missing right, or an index that must not be made.
    const error = { type: "cluster_block_exception" };
    for (const status of [403, 404]) {
      await using sink = receive((body) => {
        const items = Array(body.trimEnd().split("\n").length / 2).fill({
          create: { status, error },
        });
        return Response.json({ errors: true, items });
      });
      const refused = `${newFolder()}/refused.ndjson`;
      const to = `elasticsearch:${sink.url}/audit`;
      const { code, stderr } = await forward(log.token, to, `--refused=${refused}`);
      assertEquals(code, 2);
      assertMatch(stderr, /refuses the entry .*cluster_block_exception.*Correct the index/);
      assertThrows(() => Deno.statSync(refused), Deno.errors.NotFound);
    }
  });

  it("refuses headers that are none, without showing them, and options of other sinks", async () => {
    const { token } = await newFilledLog(1);
    const headers = `${newFolder()}/headers`;
    await Deno.writeTextFile(headers, "DD-API-KEY: one\nsecret\u0001\n");
    const cases: [to: string, option: string, message: RegExp][] = [
      ["https://x.example", `--headers=${headers}`, /^--headers: line 2 of .* is no header/],
      ["https://x.example", "--body=xml", /^--body must be array or ndjson/],
      ["https://x.example", "--refused=x", /^--refused is not for --to=https/],
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
