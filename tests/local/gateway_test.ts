import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { Buffer } from "node:buffer";
import { createDataApi, signJwt } from "../../local/data_api.ts";
import { freePort } from "../../local/free_port.ts";
import { AUDIT_LOG_URL, PUBLISHABLE_KEY, SECRET_KEY, signUp } from "../helpers.ts";

const url = new URL("/rest/v1/rpc/public_audit_log", AUDIT_LOG_URL);

const person = await signUp();
const { data } = await person.client.auth.getSession();
const jwt = data.session?.access_token ?? "";

/** Calls, on the stack, a function that only the platform may execute. */
async function ask(headers: Record<string, string>): Promise<{ status: number; code?: string }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "Content-Profile": "audit_log", "Content-Type": "application/json" },
    body: JSON.stringify({ token_hash: "00".repeat(32), resource: "entries" }),
  });
  const { code } = await response.json();
  return { status: response.status, ...code && { code } };
}

/** What is answered to each role. */
const ANSWERS = {
  anon: { status: 401, code: "42501" },
  authenticated: { status: 403, code: "42501" },
  service_role: { status: 200 },
} as const;

/** A JWT with other claims, and the signature that it had. */
function forge(jwt: string, claims: Record<string, unknown>): string {
  const [header, payload = "", signature] = jwt.split(".");
  const own = JSON.parse(Buffer.from(payload, "base64url").toString());
  const forged = Buffer.from(JSON.stringify({ ...own, ...claims })).toString("base64url");
  return `${header}.${forged}.${signature}`;
}

describe("the gateway in front of the Data API", () => {
  it("is in front of a PostgREST", async () => {
    const response = await fetch(new URL("/rest/v1/", url), { headers: { apikey: SECRET_KEY } });
    await response.body?.cancel();
    assertMatch(response.headers.get("Server") ?? "", /^postgrest\/\d+/);
  });

  it("takes an apikey alone for its role, also when it stands in Authorization, too", async () => {
    for (
      const [key, role] of [[PUBLISHABLE_KEY, "anon"], [SECRET_KEY, "service_role"]] as const
    ) {
      for (const headers of [{}, { Authorization: `Bearer ${key}` }]) {
        assertEquals(await ask({ apikey: key, ...headers }), ANSWERS[role]);
      }
    }
  });

  it("takes a person's JWT for that person, whatever the apikey", async () => {
    for (const apikey of [PUBLISHABLE_KEY, SECRET_KEY]) {
      const answer = await ask({ apikey, Authorization: `Bearer ${jwt}` });
      assertEquals(answer, ANSWERS.authenticated);
    }
  });

  it("refuses a missing or unknown apikey, and keys where they do not belong", async () => {
    const Authorization = `Bearer ${jwt}`;
    for (
      const headers of [
        {},
        { Authorization },
        { Authorization: `Bearer ${SECRET_KEY}` },
        { apikey: "", Authorization },
        { apikey: `${SECRET_KEY}0` },
        { apikey: jwt },
        { apikey: PUBLISHABLE_KEY, Authorization: `Bearer ${SECRET_KEY}` },
        { apikey: SECRET_KEY, Authorization: "Bearer sb_secret_0" },
      ]
    ) assertEquals(await ask(headers), { status: 401 }, JSON.stringify(headers));
  });

  it("refuses JWTs that nobody has signed so", async () => {
    const [header, payload] = jwt.split(".");
    const none = btoa(JSON.stringify({ alg: "none", typ: "JWT" })).replace(/=+$/, "");
    for (
      const forged of [
        await signJwt({ role: "service_role" }, "not the secret of this stack, but as long"),
        forge(jwt, { role: "service_role" }),
        forge(jwt, { role: "postgres" }),
        `${header}.${payload}.`,
        `${none}.${payload}.`,
        "x",
      ]
    ) {
      for (const apikey of [PUBLISHABLE_KEY, SECRET_KEY]) {
        const { status, code } = await ask({ apikey, Authorization: `Bearer ${forged}` });
        assertEquals(status, 401, forged);
        // Not as somebody who may not: it was never asked.
        assertMatch(code ?? "", /^PGRST30/, forged);
      }
    }
  });

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

describe("what PostgREST is sent", () => {
  const port = freePort();
  const logged: string[] = [];
  let answer: Deno.ServeHandler<Deno.NetAddr> = () => new Response();
  const serve = () =>
    Deno.serve(
      { hostname: "127.0.0.1", port, onListen: () => {} },
      (request, info) => answer(request, info),
    );
  let server = serve();
  afterAll(() => server.shutdown());

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

  it("is the path, the query and the headers, but no key", async () => {
    answer = ({ url, headers }) => Response.json({ url, headers: Array.from(headers) });
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

  it("is passed on piece by piece, and so is the answer", async () => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    const request = { method: "POST", headers: { apikey: "sb_secret_test" }, body: readable };
    answer = ({ body }) => new Response(body);
    const sent = send("/rpc/echo", request);
    const written = writer.write(new TextEncoder().encode("first"));
    const reader = (await sent).body?.pipeThrough(new TextDecoderStream()).getReader();
    // The second piece is not there yet.
    assertEquals((await reader?.read())?.value, "first");
    await written;
    await Promise.all([writer.write(new TextEncoder().encode("second")), writer.close()]);
    assertEquals((await reader?.read())?.value, "second");
    assertEquals((await reader?.read())?.done, true);
  });

  it("comes on a connection that is used again, but for HEAD, after which PostgREST ends it", async () => {
    const ports = new Map<string, Set<number>>([["GET", new Set()], ["HEAD", new Set()]]);
    answer = ({ method }, { remoteAddr }) => {
      ports.get(method)?.add(remoteAddr.port);
      return new Response();
    };
    for (const method of ["GET", "HEAD", "GET", "HEAD", "GET", "HEAD"]) {
      await (await send("/", { method, headers: { apikey: "sb_secret_test" } })).text();
    }
    assertEquals([ports.get("GET")?.size, ports.get("HEAD")?.size], [1, 3]);
  });

  it("is nothing while there is no PostgREST: 503, and the reason in the log", async () => {
    await server.shutdown();
    const response = await send("/organizations", { headers: { apikey: "sb_secret_test" } });
    assertEquals([response.status, await response.json()], [503, {
      message: "The Data API does not answer",
    }]);
    assertMatch(logged.join(""), /^PostgREST does not answer: .*refused.*\n$/s);
    server = serve();
  });
});
