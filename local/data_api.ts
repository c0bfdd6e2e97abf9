/** How long a connection to PostgREST is kept without use, in milliseconds: it ends them after 30 s. */
const KEEP_ALIVE = 20_000;

/** What PostgREST answers; to anything else nobody can send it a request with fetch. */
const METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"];

export interface DataApiOptions {
  /** Port of PostgREST. */
  port: number;
  jwtSecret: string;
  publishableKey: string;
  secretKey: string;
  log: (text: string) => void;
}

/** `/rest/v1`: PostgREST, and what the platform's gateway does in front of it. */
export interface DataApi extends Disposable {
  fetch(request: Request): Promise<Response>;
}

/**
 * Passes requests on to PostgREST. It knows JWTs only: the publishable key becomes one of `anon`, the
 * secret key one of `service_role`, unless the caller sends the JWT of a person.
 */
export async function createDataApi(options: DataApiOptions): Promise<DataApi> {
  const { port, jwtSecret, publishableKey, secretKey, log } = options;
  const roles = new Map([
    [publishableKey, `Bearer ${await signJwt({ role: "anon" }, jwtSecret)}`],
    [secretKey, `Bearer ${await signJwt({ role: "service_role" }, jwtSecret)}`],
  ]);
  const client = Deno.createHttpClient({ poolIdleTimeout: KEEP_ALIVE });
  // PostgREST ends the connection after the answer to HEAD, without having said so: the next request on
  // it would be lost.
  const headClient = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  return {
    async fetch(request) {
      const { method, body } = request;
      if (!METHODS.includes(method)) return refuse(405, `${method} is not supported`);
      const headers = new Headers(request.headers);
      // A browser asks with neither key nor person whether a page may call.
      if (!(method === "OPTIONS" && headers.has("Access-Control-Request-Method"))) {
        const refusal = authorize(headers, roles);
        if (refusal) return refuse(401, refusal);
      }
      const { pathname, search } = new URL(request.url);
      const target = `http://127.0.0.1:${port}${pathname.slice("/rest/v1".length)}${search}`;
      const init = { method, headers, body, redirect: "manual" } as const;
      const options = { ...init, client: method === "HEAD" ? headClient : client };
      return await fetch(target, options).catch((error) => {
        log(`PostgREST does not answer: ${error.cause ?? error}\n`);
        return refuse(503, "The Data API does not answer");
      });
    },
    [Symbol.dispose]() {
      client.close();
      headClient.close();
    },
  };
}

/** Turns what a caller sent into what PostgREST understands; says why not, if it cannot. */
function authorize(headers: Headers, roles: ReadonlyMap<string, string>): string | undefined {
  const key = headers.get("apikey");
  if (key === null) return "No API key found in request";
  const role = roles.get(key);
  if (!role) return "Invalid API key";
  headers.delete("apikey");
  const bearer = headers.get("Authorization")?.match(/^Bearer +(.*)$/i)?.[1];
  // supabase-js sends the key again where a person's JWT would be.
  if (!headers.has("Authorization") || bearer === key) headers.set("Authorization", role);
  else if (bearer?.startsWith("sb_")) return "Authorization has another API key than apikey";
}

function refuse(status: number, message: string): Response {
  return Response.json({ message }, { status });
}

/** Signs claims as a JWT (RFC 7519), with HMAC-SHA-256. */
export async function signJwt(claims: Record<string, unknown>, secret: string): Promise<string> {
  const encoder = new TextEncoder();
  const encode = (bytes: Uint8Array<ArrayBuffer>) =>
    bytes.toBase64({ alphabet: "base64url", omitPadding: true });
  const [header, payload] = [{ alg: "HS256", typ: "JWT" }, claims]
    .map((part) => encode(encoder.encode(JSON.stringify(part))));
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, [
    "sign",
  ]);
  const signature = await crypto.subtle.sign("HMAC", key, encoder.encode(`${header}.${payload}`));
  return `${header}.${payload}.${encode(new Uint8Array(signature))}`;
}
