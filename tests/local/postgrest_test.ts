import { assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { packagedPostgrest } from "../../local/postgrest.ts";

// tests/faults/service_test.ts kills a PostgREST that runs: it is started again.

describe("the stack's PostgREST", () => {
  it("is never run if it came from npm and its checksum differs", async () => {
    const path = new URL(import.meta.url).pathname;
    await assertRejects(() => packagedPostgrest(path), Error, "is not run: its SHA-256 is");
  });
});
