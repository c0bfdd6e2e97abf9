import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";

/** PostgREST closes an idle connection after 30 s. */
const KEEP_ALIVE_MS = 20_000;

/** The methods that PostgREST knows. fetch cannot send some of the others. */
export const METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"];

export interface ProjectKeys {
  jwtSecret: string;
  publishableKey: string;
  secretKey: string;
}

/**
 * Serves `/rest/v1`, like Supabase's gateway in front of PostgREST, which only knows JWTs. The publishable key becomes
 * a JWT of `anon`, the secret key one of `service_role`, unless the caller sends a person's JWT.
 */
export function createDataApi(
  options: ProjectKeys & { port: number; log: (text: string) => void },
) {
  const { port, jwtSecret, publishableKey, secretKey, log } = options;
  const roles = new Map([
    [publishableKey, `Bearer ${signJwt({ role: "anon" }, jwtSecret)}`],
    [secretKey, `Bearer ${signJwt({ role: "service_role" }, jwtSecret)}`],
  ]);
  const client = Deno.createHttpClient({ poolIdleTimeout: KEEP_ALIVE_MS });
  // After a HEAD request, PostgREST closes the connection without saying so: the next request would be lost.
  const headClient = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
  return {
    async fetch(request: Request): Promise<Response> {
      const { method, body } = request;
      if (!METHODS.includes(method)) return refuse(405, `${method} is not supported`);
      const headers = new Headers(request.headers);
      // A browser sends its preflight without any key.
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

/** Puts the JWT that PostgREST needs in place of the `apikey`. Returns why, if it refuses the request. */
function authorize(headers: Headers, roles: ReadonlyMap<string, string>): string | undefined {
  const key = headers.get("apikey");
  if (key === null) return "No API key found in request";
  const role = roles.get(key);
  if (!role) return "Invalid API key";
  headers.delete("apikey");
  const bearer = headers.get("Authorization")?.match(/^Bearer +(.*)$/i)?.[1];
  // supabase-js also sends the key as the bearer when nobody is signed in.
  if (!headers.has("Authorization") || bearer === key) headers.set("Authorization", role);
  else if (bearer?.startsWith("sb_")) return "Authorization has another API key than apikey";
}

function refuse(status: number, message: string): Response {
  // As the answers of PostgREST: any page may read them.
  const headers = { "Access-Control-Allow-Origin": "*" };
  return Response.json({ message }, { status, headers });
}

export function signJwt(claims: Record<string, unknown>, secret: string): string {
  const [header, payload] = [{ alg: "HS256", typ: "JWT" }, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
  const signature = createHmac("sha256", secret).update(`${header}.${payload}`);
  return `${header}.${payload}.${signature.digest("base64url")}`;
}
