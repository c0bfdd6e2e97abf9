import { assert, assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createDataApiClient } from "../../supabase/functions/public-audit-log/data_api_client.ts";
import { createHandler, type LogLine } from "../../supabase/functions/public-audit-log/handler.ts";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";

const TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";
const KEY_ID = "5f0c5a3e-0000-4000-8000-000000000001";
const ORGANIZATION_ID = "5f0c5a3e-0000-4000-8000-000000000002";
const PATH = "/public-audit-log?start=2026-03-01&end=2026-03-02";

interface Call {
  url: string;
  body: Record<string, unknown>;
  signal: AbortSignal | null | undefined;
}

/** The handler in front of a Data API that answers every call with `answer`. */
function setUp(answer: (call: Call) => Response | Promise<Response>) {
  const calls: Call[] = [];
  const lines: LogLine[] = [];
  const dataApi = createDataApiClient(
    { url: "http://data-api.example", secretKey: "sb_secret_test" },
    {
      fetch: async (url, init) => {
        const body = JSON.parse(String(init?.body));
        const call = { url: String(url), body, signal: init?.signal };
        calls.push(call);
        return await answer(call);
      },
    },
  );
  const handle = createHandler({
    dataApi,
    publicUrl: "https://project.example/functions/v1/public-audit-log",
    log: (line) => lines.push(line),
  });
  const send = (path = PATH, token: string | null = TOKEN, method = "GET") =>
    handle(
      new Request(`http://function.example${path}`, {
        method,
        headers: token === null ? {} : { Authorization: `Bearer ${token}` },
      }),
    );
  return { send, calls, lines };
}

/** The items of a page have a line of their own. */
function accepted(items: string, total = 1): Response {
  return acceptedWith(`{"total":${total},"items":\n${items}\n}`);
}

function acceptedWithoutPage(): Response {
  return acceptedWith("null");
}

function acceptedWith(page: string): Response {
  return new Response(
    `{"decision":"accepted","api_key_id":"${KEY_ID}","organization_id":"${ORGANIZATION_ID}",` +
      `"remaining":59,"reset":60,"page":${page}}`,
  );
}

describe("handler: the database", () => {
  it("is asked exactly once for a page, by the hash of the token and nothing else", async () => {
    const { send, calls } = setUp(() => accepted("[]"));
    await send(`${PATH}&action=agent_added&limit=7&offset=9&order=desc`);
    assertEquals(calls.map(({ body }) => body), [{
      token_hash: await tokenHash(TOKEN),
      start_date: "2026-03-01",
      end_date: "2026-03-02",
      action: "agent_added",
      page_limit: 7,
      page_offset: 9,
      newest_first: true,
    }]);
  });

  it("is asked once for an invalid query too, without a page", async () => {
    const { send, calls } = setUp(acceptedWithoutPage);
    assertEquals((await send("/public-audit-log?start=x")).status, 400);
    assertEquals((await send(`${PATH}${"&".repeat(10_000)}`)).status, 400);
    const asked = { token_hash: await tokenHash(TOKEN) };
    assertEquals(calls.map(({ body }) => body), [asked, asked]);
  });

  it("is not asked about other paths and methods and malformed tokens", async () => {
    const { send, calls } = setUp(() => accepted("[]"));
    assertEquals((await send("/public-audit-log/x")).status, 404);
    assertEquals((await send(PATH, TOKEN, "POST")).status, 405);
    assertEquals((await send(PATH, null)).status, 401);
    assertEquals((await send(PATH, `${TOKEN.slice(0, -1)}0`)).status, 401);
    assertEquals(calls, []);
  });
});

describe("handler: a query string", () => {
  it("is not even parsed when the token is missing or malformed, or when it is too long", async () => {
    const { send } = setUp(acceptedWithoutPage);
    const requests = [
      () => send(PATH, null),
      () => send(PATH, "x"),
      () => send(`${PATH}${"&x".repeat(5000)}`),
    ];
    const { URLSearchParams } = globalThis;
    const parsed: unknown[] = [];
    globalThis.URLSearchParams = class extends URLSearchParams {
      constructor(...given: ConstructorParameters<typeof URLSearchParams>) {
        parsed.push(given);
        super(...given);
      }
    };
    try {
      const statuses = [];
      for (const request of requests) statuses.push((await request()).status);
      assertEquals(statuses, [401, 401, 400]);
      assertEquals(parsed, []);
      await send();
      assertEquals(parsed.length, 1);
    } finally {
      globalThis.URLSearchParams = URLSearchParams;
    }
  });
});

describe("handler: a browser", () => {
  it("is not let in: no answer has a CORS header", async () => {
    const { send } = setUp(() => accepted("[]"));
    for (const method of ["GET", "OPTIONS"]) {
      const names = Array.from((await send(PATH, TOKEN, method)).headers.keys());
      assertEquals(names.filter((name) => name.startsWith("access-control-")), []);
    }
  });
});

describe("handler: the body of a page", () => {
  it("has the fields of the contract, and numbers in data keep every digit", async () => {
    const items = '[{"id":"x","data":{"big":12345678901234567890.123456789,"huge":1e400}}]';
    const { send } = setUp(() => accepted(items, 4711));
    const response = await send(`${PATH}&limit=5`);
    assertEquals(
      await response.text(),
      `{"organization_id":"${ORGANIZATION_ID}","start":"2026-03-01","end":"2026-03-02",` +
        `"total":4711,"limit":5,"offset":0,"items":${items}}`,
    );
  });
});

describe("handler: a large page", () => {
  it("arrives whole, with its length", async () => {
    const entries = Array.from(
      { length: 5_000 },
      (_, n) => ({ n, text: "é😀\n" + "x".repeat(n % 97) }),
    );
    const items = JSON.stringify(entries);
    const { send } = setUp(() => accepted(items, 5_000));
    const response = await send();
    const bytes = await response.bytes();
    assertEquals(response.headers.get("Content-Length"), String(bytes.length));
    const text = new TextDecoder().decode(bytes);
    assertEquals(text.slice(text.indexOf("[")), `${items}}`);
  });
});

describe("handler: an answer cut off", () => {
  it("is a 500 wherever it is cut, and nothing of it is logged", async () => {
    const text = await accepted('[{"data":{"a":[{"b":[{}]}}},{"data":"}]}}"}]').text();
    for (let length = 0; length <= text.length; length++) {
      const { send, lines } = setUp(() => new Response(text.slice(0, length)));
      const { status } = await send();
      assertEquals([length, status], [length, length < text.length ? 500 : 200]);
      // No entry stands in the log.
      assert(!lines[0]?.error?.includes("data"), lines[0]?.error);
    }
  });
});

describe("handler: a fault behind it", () => {
  const faults: Record<string, (call: Call) => Response | Promise<Response>> = {
    "an error of the database": () =>
      Response.json({ code: "57014", message: "secret cause" }, { status: 500 }),
    "a refused key": () => Response.json({ message: "secret cause" }, { status: 401 }),
    "a missing function": () =>
      Response.json({ code: "PGRST202", message: "secret cause" }, { status: 404 }),
    "a very long error": () =>
      Response.json({ code: "XX000", message: "secret cause".repeat(1000) }, { status: 500 }),
    "a page of HTML": () => new Response("<html>secret cause</html>", { status: 502 }),
    "an answer that is no JSON": () => new Response("secret cause"),
    "JSON cut off": () => new Response('{"decision":"accepted","secret cause'),
    "an empty answer": () => new Response(""),
    "null": () => Response.json(null),
    "an unknown decision": () => Response.json({ decision: "secret cause" }),
    "an accepted decision without an organization": () =>
      Response.json({ decision: "accepted", api_key_id: KEY_ID, remaining: 1, reset: 1 }),
    "a query answered without a page": acceptedWithoutPage,
    "items that are no list": () => accepted("secret cause"),
    "items without a line of their own": () => acceptedWith('{"total":1,"items":["secret cause"]}'),
    "items, and no word of them": () => acceptedWith('{"total":1}'),
    "null in place of items": () => acceptedWith('{"total":1,"items":null}'),
    "lines of which none is the items'": () => acceptedWith('\n["secret cause"]\n'),
    "half an entry in all": () => accepted("[]", 0.5),
    "a reset before now": () =>
      Response.json({ decision: "rate_limited", api_key_id: KEY_ID, reset: -1 }),
    "an error that is a list": () => Response.json(["secret cause"], { status: 500 }),
    "an error that is a text": () => Response.json("secret cause", { status: 500 }),
    "an error that is null": () => Response.json(null, { status: 500 }),
    "a connection refused": () => Promise.reject(new TypeError("secret cause")),
  };
  for (const [name, answer] of Object.entries(faults)) {
    it(`${name}: 500 without internals, the cause in the log under the same request id`, async () => {
      const { send, lines } = setUp(answer);
      const response = await send();
      const text = await response.text();
      assertEquals(response.status, 500);
      assertEquals(response.headers.get("Content-Type"), "application/problem+json");
      const seen = JSON.stringify([text, ...response.headers]);
      assert(!/secret cause|public_audit_log|data-api|PGRST|57014/i.test(seen), seen);
      assertEquals(lines.length, 1);
      assertEquals(JSON.parse(text).request_id, lines[0]?.request_id);
      assert(JSON.stringify(lines).length < 1000);
      assertMatch(lines[0]?.error ?? "", /^Error: public_audit_log (failed|answered)\b/);
    });
  }

  it("a database that hangs is given up after 5 seconds", async () => {
    const { timeout } = AbortSignal;
    const asked: number[] = [];
    // The clock, shortened: the handler's own limit is what counts.
    AbortSignal.timeout = (milliseconds) => (asked.push(milliseconds), timeout(1));
    try {
      const { send, lines } = setUp(({ signal }) =>
        new Promise((_, reject) => {
          signal?.addEventListener("abort", () => reject(signal.reason));
        })
      );
      assertEquals((await send()).status, 500);
      assertEquals(asked, [5_000]);
      assert(JSON.stringify(lines).length < 1000);
      assertMatch(lines[0]?.error ?? "", /TimeoutError/);
    } finally {
      AbortSignal.timeout = timeout;
    }
  });
});

describe("handler: the log", () => {
  it("has one line for each request: id, key, status and times", async () => {
    const { send, lines } = setUp(() => accepted("[]"));
    const response = await send();
    const [line, ...others] = lines;
    assertEquals(others, []);
    assertEquals(Object.keys(line ?? {}).sort(), ["db_ms", "key_id", "ms", "request_id", "status"]);
    assertEquals(line?.request_id, response.headers.get("X-Request-Id"));
    assertEquals(line?.key_id, KEY_ID);
    assertEquals(line?.status, 200);
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

  it("never has a token or its hash, whatever the answer", async () => {
    const answers = [
      () => accepted("[]"),
      acceptedWithoutPage,
      () => Response.json({ decision: "unauthorized" }),
      () => Response.json({ decision: "rate_limited", api_key_id: KEY_ID, reset: 9 }),
      () => Response.json({ message: "failed" }, { status: 500 }),
      () => Promise.reject(new TypeError("failed")),
    ];
    const hash = await tokenHash(TOKEN);
    for (const answer of answers) {
      for (const path of [PATH, "/public-audit-log", "/other"]) {
        const { send, lines } = setUp(answer);
        const response = await send(path);
        const written = JSON.stringify([lines, ...response.headers, await response.text()]);
        assertEquals(lines.length, 1);
        assert(!written.includes(TOKEN) && !written.includes(hash), written);
      }
    }
  });
});
