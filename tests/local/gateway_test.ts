import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { signJwt } from "../../local/data_api.ts";
import { AUDIT_LOG_URL, PUBLISHABLE_KEY, SECRET_KEY, signUp } from "../helpers.ts";

const url = new URL("/rest/v1/rpc/public_audit_log", AUDIT_LOG_URL);

const person = await signUp();
const { data } = await person.client.auth.getSession();
const jwt = data.session?.access_token ?? "";
const forged = await signJwt(
  { role: "service_role" },
  "another secret, but as long as the stack's",
);

/** Calls a function that only the platform may execute; the status and the error's code. */
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

  // The gateway refuses keys. PostgREST refuses JWTs, before it asks the database.
  const refusals: [what: string, code: string | undefined, headers: Record<string, string>][] = [
    ["no header", undefined, {}],
    ["a JWT without an apikey", undefined, { Authorization: `Bearer ${jwt}` }],
    ["a key in Authorization only", undefined, { Authorization: `Bearer ${SECRET_KEY}` }],
    ["an unknown apikey", undefined, { apikey: `${SECRET_KEY}0` }],
    ["a JWT as the apikey", undefined, { apikey: jwt }],
    ["another key in Authorization", undefined, {
      apikey: PUBLISHABLE_KEY,
      Authorization: `Bearer ${SECRET_KEY}`,
    }],
    ["a JWT that somebody else has signed", "PGRST301", {
      apikey: SECRET_KEY,
      Authorization: `Bearer ${forged}`,
    }],
  ];
  for (const [what, code, headers] of refusals) {
    it(`refuses ${what}`, async () => assertEquals(await ask(headers), [401, code]));
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
