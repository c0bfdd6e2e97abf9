import { assertEquals, assertMatch } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import { API_URL, SECRET_KEY } from "../helpers.ts";

const REFUSALS = {
  "read a file": /Requires read access/,
  "write a file": /Requires write access/,
  "run a program": /Requires run access/,
  "read another variable": /Requires env access/,
  "load a library": /Requires ffi access/,
  "learn the host's name": /Requires sys access/,
  "call a stranger": /Requires net access/,
  "ask a name server": /Requires net access/,
  "listen on a port of its choice": /Requires net access/,
  "import from esm.sh": /Requires import access/,
  "import from npm": /Could not find a matching package for .* in the node_modules directory/,
};

describe("the function's process", () => {
  it(`cannot ${Object.keys(REFUSALS).join(", ")}`, async () => {
    const main = new URL("permission_probe.ts", import.meta.url);
    const options = { apiUrl: API_URL, secretKey: SECRET_KEY, main, log: () => {} };
    await using probe = await startEdgeFunction(options);
    const answer = await fetch(`http://127.0.0.1:${probe.port}`);
    const errors: Record<string, string> = await answer.json();
    assertEquals(Object.keys(errors), Object.keys(REFUSALS));
    for (const [name, refusal] of Object.entries(REFUSALS)) {
      assertMatch(errors[name] ?? "", refusal);
    }
  });
});
