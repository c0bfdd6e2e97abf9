import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { permissionFlags, startEdgeFunction } from "../../local/edge_function.ts";
import { API_URL, SECRET_KEY, statusOnly, TWO_DAYS, UNKNOWN_TOKEN, withKey } from "../helpers.ts";

const options = { apiUrl: API_URL, secretKey: SECRET_KEY, log: () => {} };

/** Asks a function's process with an unknown key. To answer 401, it must ask the database. */
async function statusOf(permissions: string[]): Promise<number> {
  await using edgeFunction = await startEdgeFunction({ ...options, permissions });
  const url = `http://127.0.0.1:${edgeFunction.port}/public-audit-log?${TWO_DAYS}`;
  return await statusOnly(fetch(url, withKey(UNKNOWN_TOKEN)));
}

describe("the function's process", () => {
  it("serves with its permissions, and cannot do without any of them", async () => {
    const flags = permissionFlags(API_URL);
    assertEquals(await statusOf(flags), 401);
    const without = (part: string) => flags.map((flag) => flag.replace(part, ""));
    for (const part of ["127.0.0.1:0,", "SUPABASE_URL,", ",SUPABASE_SECRET_KEYS"]) {
      await assertRejects(() => statusOf(without(part)), Error, "Requires");
    }
    assertEquals(await statusOf(without(`,${new URL(API_URL).host}`)), 500);
  });

  const refusals = {
    "read a file": /Requires read access/,
    "write a file": /Requires write access/,
    "run a program": /Requires run access/,
    "read another variable": /Requires env access/,
    "load a library": /Requires ffi access/,
    "learn the host's name": /Requires sys access/,
    "call a stranger": /Requires net access/,
    "ask a name server": /Requires net access/,
    "listen on a port of its choice": /Requires net access/,
    "import from a stranger": /Requires import access/,
    "import from esm.sh": /Requires import access/,
    "import from npm": /Could not find a matching package for .* in the node_modules directory/,
  };

  it(`cannot ${Object.keys(refusals).join(", ")}`, async () => {
    const main = new URL("permission_probe.ts", import.meta.url);
    const lockfile = new URL("../../deno.lock", import.meta.url);
    const locked = await Deno.readTextFile(lockfile);
    await using probe = await startEdgeFunction({ ...options, main });
    using stranger = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    for (const [attempt, refusal] of Object.entries(refusals)) {
      const query = new URLSearchParams({ attempt, stranger: `127.0.0.1:${stranger.addr.port}` });
      // If a call were permitted, it would never get an answer.
      const signal = AbortSignal.timeout(10_000);
      const answer = await fetch(`http://127.0.0.1:${probe.port}/?${query}`, { signal })
        .then((response) => response.text(), String);
      assertMatch(answer, refusal, attempt);
    }
    assertEquals(await Deno.readTextFile(lockfile), locked);
  });
});
