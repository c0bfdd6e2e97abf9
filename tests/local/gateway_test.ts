import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { signJwt } from "../../local/data_api.ts";
import { AUDIT_LOG_URL, PUBLISHABLE_KEY, SECRET_KEY, signUp } from "../helpers.ts";

const url = new URL("/rest/v1/rpc/public_audit_log", AUDIT_LOG_URL);

/** Calls a function that only the platform may execute. Returns the status and the error's code. */
async function ask(apikey?: string, bearer?: string): Promise<[status: number, code?: string]> {
  const response = await fetch(url, {
    method: "POST",
    headers: {
      ...apikey && { apikey },
      ...bearer && { Authorization: `Bearer ${bearer}` },
      "Content-Profile": "audit_log",
      "Content-Type": "application/json",
    },
    body: JSON.stringify({ token_hash: "00".repeat(32), resource: "entries" }),
  });
  const { code } = await response.json();
  return [response.status, code];
}

describe("the gateway in front of the Data API", () => {
  it("gives a request the role of its API key, or the person of the JWT beside the key. It refuses all others", async () => {
    const { client } = await signUp();
    const jwt = (await client.auth.getSession()).data.session?.access_token;
    const forged = signJwt({ role: "service_role" }, "not the stack's secret, but as long as it");
    const roles = { [PUBLISHABLE_KEY]: [401, "42501"], [SECRET_KEY]: [200, undefined] };
    for (const [apikey, role] of Object.entries(roles)) {
      assertEquals([await ask(apikey), await ask(apikey, apikey)], [role, role]);
      assertEquals(await ask(apikey, jwt), [403, "42501"]);
      // PostgREST refuses this JWT, before it asks the database. The gateway refuses what follows.
      assertEquals(await ask(apikey, forged), [401, "PGRST301"]);
    }
    const refused = [
      [undefined, undefined],
      [undefined, jwt],
      [undefined, SECRET_KEY],
      [`${SECRET_KEY}0`, undefined],
      [jwt, undefined],
      [PUBLISHABLE_KEY, SECRET_KEY],
    ];
    for (const [apikey, bearer] of refused) {
      assertEquals(await ask(apikey, bearer), [401, undefined], `${apikey} ${bearer}`);
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
