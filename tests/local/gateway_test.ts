import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { createDataApi, signJwt } from "../../local/data_api.ts";
import { freePort } from "../../local/free_port.ts";
import { AUDIT_LOG_URL, PUBLISHABLE_KEY, SECRET_KEY, signUp } from "../helpers.ts";

const url = new URL("/rest/v1/rpc/public_audit_log", AUDIT_LOG_URL);

const person = await signUp();
const { data } = await person.client.auth.getSession();
const jwt = data.session?.access_token ?? "";
const forged = await signJwt(
  { role: "service_role" },
  "another secret, but as long as the stack's",
);

/** Calls, on the stack, a function that only the platform may execute; the status and the error's code. */
async function ask(headers: Record<string, string>): Promise<[status: number, code?: string]> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "Content-Profile": "audit_log", "Content-Type": "application/json" },
    body: JSON.stringify({ token_hash: "00".repeat(32), resource: "entries" }),
  });
  const { code } = await response.json();
  return [response.status, code];
}

describe("the gateway in front of the Data API", () => {
  it("takes an apikey alone for its role, and beside a person's JWT for that person", async () => {
    const anon = [401, "42501"];
    const authenticated = [403, "42501"];
    const platform = [200, undefined];
    for (const [apikey, role] of [[PUBLISHABLE_KEY, anon], [SECRET_KEY, platform]] as const) {
      assertEquals(await ask({ apikey }), role);
      assertEquals(await ask({ apikey, Authorization: `Bearer ${apikey}` }), role);
      assertEquals(await ask({ apikey, Authorization: `Bearer ${jwt}` }), authenticated);
    }
  });

  const unsigned = jwt.slice(0, jwt.lastIndexOf(".") + 1);
  const refusals: Record<string, [headers: Record<string, string>, code?: RegExp]> = {
    "no header": [{}],
    "a JWT without an apikey": [{ Authorization: `Bearer ${jwt}` }],
    "a key in Authorization only": [{ Authorization: `Bearer ${SECRET_KEY}` }],
    "an unknown apikey": [{ apikey: `${SECRET_KEY}0` }],
    "a JWT as the apikey": [{ apikey: jwt }],
    "another key in Authorization": [
      { apikey: PUBLISHABLE_KEY, Authorization: `Bearer ${SECRET_KEY}` },
    ],
    "a JWT that somebody else has signed": [
      { apikey: SECRET_KEY, Authorization: `Bearer ${forged}` },
      /^PGRST30/,
    ],
    "a JWT without its signature": [
      { apikey: SECRET_KEY, Authorization: `Bearer ${unsigned}` },
      /^PGRST30/,
    ],
  };
  for (const [name, [headers, expected]] of Object.entries(refusals)) {
    it(`refuses ${name}`, async () => {
      const [status, code = ""] = await ask(headers);
      assertEquals(status, 401);
      // PostgREST refuses a JWT before it asks the database, the gateway everything else.
      assertMatch(code, expected ?? /^$/);
    });
  }

  it("lets a browser ask whether a page may call", async () => {
    const response = await fetch(url, {
      method: "OPTIONS",
      headers: { Origin: "http://127.0.0.1", "Access-Control-Request-Method": "GET" },
    });
    await response.body?.cancel();
    assertEquals(response.status, 200);
    assert(response.headers.has("Access-Control-Allow-Origin"));
  });
});

describe("the Data API in front of PostgREST", () => {
  const port = freePort();
  const logged: string[] = [];
  const dataApi = createDataApi({
    port,
    jwtSecret: "a secret of this test, long enough for it",
    publishableKey: "sb_publishable_test",
    secretKey: "sb_secret_test",
    log: (text) => logged.push(text),
  });
  afterAll(async () => (await dataApi)[Symbol.dispose]());
  const send = async (path: string, init?: RequestInit) =>
    await (await dataApi).fetch(new Request(`http://stack.example/rest/v1${path}`, init));

  /** Stands in for PostgREST. */
  function serve(answer: Deno.ServeHandler<Deno.NetAddr>): Deno.HttpServer {
    return Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, answer);
  }

  it("passes the path, the query and the headers on, but no key", async () => {
    await using _ = serve(({ url, headers }) => {
      return Response.json({ url, headers: Array.from(headers) });
    });
    for (const key of ["sb_publishable_test", "sb_secret_test"]) {
      const response = await send("/rpc/a%20b?select=%2A&x=1", {
        headers: { apikey: key, Authorization: `Bearer ${key}`, Prefer: "count=exact" },
      });
      const text = await response.text();
      const { url, headers } = JSON.parse(text);
      assertEquals(url, `http://127.0.0.1:${port}/rpc/a%20b?select=%2A&x=1`);
      assertEquals(new Headers(headers).get("Prefer"), "count=exact");
      assertEquals(text.includes("sb_"), false, text);
    }
  });

  it("keeps a connection, except after HEAD, when PostgREST closes it", async () => {
    const ports: Record<string, Set<number>> = { GET: new Set(), HEAD: new Set() };
    await using _ = serve(({ method }, { remoteAddr }) => {
      ports[method]?.add(remoteAddr.port);
      return new Response();
    });
    for (const method of ["GET", "HEAD", "GET", "HEAD", "GET", "HEAD"]) {
      await (await send("/", { method, headers: { apikey: "sb_secret_test" } })).text();
    }
    assertEquals([ports["GET"]?.size, ports["HEAD"]?.size], [1, 3]);
  });

  it("answers 503 while there is no PostgREST, and logs the reason", async () => {
    const response = await send("/organizations", { headers: { apikey: "sb_secret_test" } });
    assertEquals([response.status, await response.json()], [503, {
      message: "The Data API does not answer",
    }]);
    assertMatch(logged.join(""), /^PostgREST does not answer: .*refused.*\n$/s);
  });
});
