// Needs nothing.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import contract from "../../docs/openapi.json" with { type: "json" };
import { createDataApiClient } from "../../supabase/functions/public-audit-log/ask_database.ts";
import { contractOf } from "../../supabase/functions/public-audit-log/contract.ts";
import { createHandler } from "../../supabase/functions/public-audit-log/handler.ts";
import type { LogLine } from "../../supabase/functions/public-audit-log/log_line.ts";
import { sha256 } from "../../supabase/functions/public-audit-log/sha256.ts";
import { isWellFormed } from "../../supabase/functions/public-audit-log/token.ts";
import { assertDocumented } from "../helpers/contract.ts";

/** Made by audit_log_private.new_token() in Postgres, which computes the checksum, too. */
const TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const KEY_ID = "5f0c5a3e-0000-4000-8000-000000000001";
const ORGANIZATION_ID = "5f0c5a3e-0000-4000-8000-000000000002";
const PATH = "/public-audit-log?start=2026-03-01&end=2026-03-02";

const PUBLIC_URL = "https://project.example/functions/v1/public-audit-log";
const CONSOLE_URL = "https://console.example/log/";

/** Puts the handler before a Data API that answers every call with `answer`. */
function setUp(answer: () => Response | Promise<Response>, consoleUrl?: string) {
  const calls: { body: unknown; schema: string | null }[] = [];
  const lines: LogLine[] = [];
  const dataApi = createDataApiClient(
    { url: "http://data-api.example", secretKey: "sb_secret_test" },
    {
      fetch: async (_url, init) => {
        const schema = new Headers(init?.headers).get("Content-Profile");
        calls.push({ body: JSON.parse(String(init?.body)), schema });
        return await answer();
      },
    },
  );
  const log = (line: LogLine) => lines.push(line);
  const handle = createHandler({ dataApi, publicUrl: PUBLIC_URL, consoleUrl, log });
  const send = (path = PATH, token: string | null = TOKEN, method = "GET") => {
    const headers = new Headers(token === null ? {} : { Authorization: `Bearer ${token}` });
    return handle(new Request(`http://function.example${path}`, { method, headers }));
  };
  return { send, calls, lines };
}

/** The list of actions, which comes with the decision about an invalid query. */
const CATALOGUE = { actions: ["agent_added"] };

/** Writes a decision about a known key, with more fields. */
function decided(decision: string, given: object = {}): string {
  const counted = { api_key_id: KEY_ID, quota: 7, remaining: 6, reset: 60 };
  return JSON.stringify({ decision, ...counted, ...given });
}

/** Writes the answer to an accepted request, with a page of these items. */
function acceptedItems(items: string): string {
  const reading = { total: 1, cursor: null, has_more: null, altered: null };
  const start = decided("accepted", { organization_id: ORGANIZATION_ID, ...reading });
  return `${start.slice(0, -1)},"items":\n${items}\n}`;
}

// tests/attacks/hostile_input_test.ts tests the scheme before a token.
it("a token from Postgres is well-formed. With any one character changed, or in another shape, it is not", async () => {
  assertEquals(await isWellFormed(TOKEN), true);
  const typos = [...TOKEN].map((each, n) =>
    TOKEN.slice(0, n) + (each === "0" ? "1" : "0") + TOKEN.slice(n + 1)
  );
  const [short, accented] = [TOKEN.slice(0, -1), `${TOKEN.slice(0, -1)}é`];
  const prefixes = [TOKEN.replace("pck_", "PCK_"), TOKEN.replace("pck_", "sk__")];
  const others = ["", "pck_", short, accented, `${TOKEN}0`, `${TOKEN}\n`, ...prefixes];
  for (const token of [...typos, ...others]) {
    assertEquals(await isWellFormed(token), false, JSON.stringify(token));
  }
});

describe("the handler", () => {
  it("asks the database exactly once for a page. Of the token, it sends only the hash", async () => {
    const { send, calls } = setUp(() => new Response(acceptedItems("[]")));
    await send(`${PATH}&action=agent_added&user_email=a%25@%C3%A9&limit=7&offset=9&order=desc`);
    await send("/public-audit-log/seals?start=2026-03-01&end=2026-03-02");
    const token_hash = await sha256(TOKEN);
    const days = { start_date: "2026-03-01", end_date: "2026-03-02" };
    const filters = { actions: ["agent_added"], user_email: "a%@é" };
    const page = { page_limit: 7, page_offset: 9, newest_first: true };
    const firstPage = { actions: null, page_limit: 100, page_offset: 0, newest_first: false };
    const bodies = [
      { token_hash, resource: "entries", query: { ...days, ...filters, ...page } },
      { token_hash, resource: "seals", query: { ...days, ...firstPage } },
    ];
    assertEquals(calls, bodies.map((body) => ({ body, schema: "audit_log" })));
  });

  it("asks it once for an invalid query too, without a page, and nothing if the path, the method or the form of the token is wrong", async () => {
    const { send, calls } = setUp(() => new Response(decided("invalid_query", CATALOGUE)));
    const requests: [number, ...Parameters<typeof send>][] = [
      [400, "/public-audit-log?start=x"],
      [400, `${PATH}${"&".repeat(13_000)}`],
      [404, "/public-audit-log/x"],
      [405, PATH, TOKEN, "POST"],
      [401, PATH, null],
      [401, PATH, `${TOKEN.slice(0, -1)}0`],
    ];
    for (const [status, ...sent] of requests) assertEquals((await send(...sent)).status, status);
    const asked = { token_hash: await sha256(TOKEN), resource: "entries" };
    assertEquals(calls.map(({ body }) => body), [asked, asked]);
  });

  it("takes the quota in the rate limit's headers from the decision", async () => {
    const given = { quota: 1200, remaining: 0, reset: 3 };
    const { send } = setUp(() => new Response(decided("rate_limited", given)));
    const { status, headers } = await send();
    const names = ["RateLimit-Policy", "RateLimit", "Retry-After"];
    const expected = ['"default";q=1200;w=60', '"default";r=0;t=3', "3"];
    assertEquals([status, ...names.map((name) => headers.get(name))], [429, ...expected]);
  });

  it("leads from each error to the console's page and contract, if it knows the console, and from no page of the log", async () => {
    const ask = (answer: string, path?: string) =>
      Promise.all(
        [CONSOLE_URL, undefined].map((consoleUrl) =>
          setUp(() => new Response(answer), consoleUrl).send(path)
        ),
      );
    const errors: [code: string, answer: string, path?: string][] = [
      ["invalid_parameters", decided("invalid_query", CATALOGUE), "/public-audit-log?start=x"],
      ["unauthorized", JSON.stringify({ decision: "unauthorized" })],
      ["not_found", "", "/public-audit-log/x"],
      ["rate_limited", decided("rate_limited")],
      ["internal_error", ""],
    ];
    const links = `<${CONSOLE_URL}docs/api.html>; rel="service-doc", ` +
      `<${CONSOLE_URL}openapi.json>; rel="service-desc"`;
    for (const [code, answer, path] of errors) {
      const answers = await ask(answer, path);
      for (const response of answers) await assertDocumented(response);
      assertEquals(answers.map(({ headers }) => headers.get("Link")), [links, null]);
      const [led, plain] = await Promise.all(answers.map((response) => response.json()));
      assertEquals([plain.code, plain.type], [code, "about:blank"]);
      const { request_id } = led;
      assertEquals(led, { ...plain, request_id, type: `${CONSOLE_URL}docs/api.html#${code}` });
    }
    const pages = await ask(acceptedItems("[]"));
    assertEquals(pages[0]?.headers.get("Link"), pages[1]?.headers.get("Link"));
  });

  it("gives the contract to everybody, for the address at which callers reach it, without asking the database", async () => {
    const { send, calls } = setUp(() => new Response(acceptedItems("[]")));
    const response = await send("/public-audit-log/openapi.json", null);
    const text = await response.text();
    const server = "https://project.example/functions/v1";
    assertEquals(JSON.parse(text), {
      ...JSON.parse(JSON.stringify(contract).replaceAll(/https:..project-ref[^?>]*/g, PUBLIC_URL)),
      servers: [{ url: server }],
    });
    assertEquals(response.headers.get("Content-Type"), "application/json");
    assertEquals((await send("/public-audit-log/openapi.json", null, "HEAD")).status, 405);
    assertEquals(calls, []);
    // Pages of other origins may read it, and nothing else: no browser uses a key.
    const cors = [response, await send(), await send(PATH, TOKEN, "OPTIONS")].map(({ headers }) =>
      Array.from(headers.keys()).filter((name) => name.startsWith("access-control-"))
    );
    assertEquals(cors, [["access-control-allow-origin"], [], []]);
    for (const [base, path] of [["https://logs.example/a", "/$&"], ["https://logs.example", ""]]) {
      const { servers, paths } = JSON.parse(contractOf(`${base}${path}`));
      assertEquals(servers, [{ url: base }]);
      assertEquals(Object.keys(paths).slice(0, 2), [path || "/", `${path}/entries/{id}`]);
    }
  });
});

it("the database has five seconds for a request", async () => {
  const { timeout } = AbortSignal;
  const waits: number[] = [];
  const noted = (milliseconds: number) => timeout(waits.push(milliseconds) * 60_000);
  Object.assign(AbortSignal, { timeout: noted });
  const { send } = setUp(() => new Response(acceptedItems("[]")));
  await send().finally(() => Object.assign(AbortSignal, { timeout }));
  assertEquals(waits, [5_000]);
});

// tests/api/service_test.ts has a database that hangs, or cannot be reached.
describe("a fault of the Data API", () => {
  it("is a 500 wherever its answer is cut off, and nothing of the answer is logged", async () => {
    const text = acceptedItems('[{"data":{"a":[{"b":[{}]}}},{"data":"}]}}"}]');
    for (let length = 0; length <= text.length; length++) {
      const { send, lines } = setUp(() => new Response(text.slice(0, length)));
      const { status } = await send();
      assertEquals([length, status], [length, length < text.length ? 500 : 200]);
      assert(!lines[0]?.error?.includes("data"), lines[0]?.error);
    }
  });

  /** Answers, with their status unless it is 200, and what is logged of them. */
  const faults: Record<string, [body: string, status?: number, logged?: string]> = {
    "an error of the database": ['{"code":"57014","message":"secret cause"}', 500],
    "the schema is not served": [
      ...['{"code":"PGRST106","message":"secret cause"}', 406] as const,
      "failed: PGRST106: expose audit_log in the Data API's settings",
    ],
    "a page of HTML": ["<html>secret cause</html>", 502],
    "an empty answer": [""],
    "an unknown decision": ['{"decision":"secret cause"}'],
    "an accepted decision without an organization": [
      acceptedItems("[]").replace(/"organization_id":"[^"]*",/, ""),
    ],
    "a query answered without items": [acceptedItems("").replace(/,"items":\s+/, "")],
    "an invalid query without the actions that there are": [decided("invalid_query")],
    "a cursor refused that nobody sent": [decided("invalid_cursor")],
    "items that are no list": [acceptedItems("secret cause")],
    "items without a line of their own": [acceptedItems('["secret cause"]').replaceAll("\n", "")],
    "a negative reset": [decided("rate_limited", { reset: -1 })],
    "an error that is null": ["null", 500],
  };
  for (const [name, [body, status = 200, logged]] of Object.entries(faults)) {
    it(`is a 500 that tells nothing, and is logged with its request id, and what to do: ${name}`, async () => {
      const { send, lines } = setUp(() => new Response(body, { status }));
      const response = await send();
      const text = await response.text();
      assertEquals(response.status, 500);
      const seen = JSON.stringify([text, ...response.headers]);
      assert(!/secret cause|public_audit_log|data-api|PGRST|57014/i.test(seen), seen);
      assertEquals(lines.length, 1);
      assertEquals(JSON.parse(text).request_id, lines[0]?.request_id);
      assert(JSON.stringify(lines).length < 1000);
      const error = lines[0]?.error ?? "";
      assertMatch(error, /^Error: public_audit_log (failed|answered)\b/);
      if (logged) assertEquals(error, `Error: public_audit_log ${logged}`);
    });
  }
});

describe("the Edge Function's own log", () => {
  it("has one line for each request: id, key, status and times", async () => {
    const { send, lines } = setUp(() => new Response(acceptedItems("[]")));
    const response = await send();
    const { db_ms, ms } = lines[0] ?? {};
    const request_id = response.headers.get("X-Request-Id");
    assertEquals<unknown>(lines, [{ request_id, api_key_id: KEY_ID, status: 200, db_ms, ms }]);
    assertEquals([typeof db_ms, typeof ms], ["number", "number"]);
  });

  it("is bounded and holds no control characters, whatever an answer says", async () => {
    const hostile = '\u001b[31m\r\n{"status":200}\u009b\u202e\u2028\u0000'.repeat(1000);
    const answers = [
      () => Response.json({ code: hostile, message: hostile, details: hostile }, { status: 500 }),
      () => Response.json({ decision: hostile }),
      () => new Response(hostile, { status: 502 }),
      () => Promise.reject(new TypeError(hostile, { cause: new Error(hostile) })),
    ];
    for (const answer of answers) {
      const { send, lines } = setUp(answer);
      assertEquals((await send()).status, 500);
      const { error = "" } = lines[0] ?? {};
      assert(error.length <= 501, error);
      assert(!/[\p{C}\p{Zl}\p{Zp}]/u.test(error), JSON.stringify(error));
    }
  });
});
