import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { DEMO_EMAILS } from "../../tasks/demo.ts";
import { sql } from "../helpers.ts";

const SEED = await Deno.readTextFile(new URL("../../supabase/seed.sql", import.meta.url));
const STATEMENTS = SEED.split(/(?<=;)\n\n/);
/** What `supabase start` gives its database, unless told otherwise. */
const SUPABASE_START_SECRET = "super-secret-jwt-token-with-at-least-32-characters-long";

/** A connection on which the database looks as if it had these settings, and no others. */
async function looksLike(settings: { jwt_secret?: string; local_stack?: string }) {
  const connection = await sql.reserve();
  for (const name of ["jwt_secret", "local_stack"] as const) {
    await connection`select set_config(${`app.settings.${name}`}, ${settings[name] ?? ""}, false)`;
  }
  return {
    connection,
    [Symbol.asyncDispose]: async () => {
      await connection`reset all`;
      await connection`discard temp`;
      connection.release();
    },
  };
}

/** What the seed would have written. */
async function seeded(): Promise<unknown> {
  const [counts] = await sql`
    select
      (select count(*)::int from auth.users where email = any(${[...DEMO_EMAILS]})) as people,
      (select count(*)::int from audit_log.organizations
        where name in ('Analytical Engines', 'Compiler Works')) as organizations`;
  return { ...counts };
}

describe("seed.sql", () => {
  const projects = {
    "a hosted project": {},
    "an older hosted project, which keeps its own secret there": {
      jwt_secret: crypto.randomUUID().repeat(2),
    },
  };
  for (const [kind, hosted] of Object.entries(projects)) {
    it(`refuses to write to ${kind}`, async () => {
      const before = await seeded();
      await using project = await looksLike(hosted);
      const refusal = await assertRejects(() => project.connection.unsafe(SEED), Error);
      assertMatch(refusal.message, /^seed.sql is for a local stack only.* Nothing was written.$/);
      assertEquals(await seeded(), before);
    });
  }

  it("writes nothing to a hosted project by way of a client that goes on after errors", async () => {
    const before = await seeded();
    await using project = await looksLike({});
    for (const statement of STATEMENTS) await project.connection.unsafe(statement).catch(() => {});
    assertEquals(await seeded(), before);
  });

  it("begins in the stack of deno task start and in that of supabase start", async () => {
    for (
      const local of [{ local_stack: "deno task start" }, { jwt_secret: SUPABASE_START_SECRET }]
    ) {
      await using stack = await looksLike(local);
      await stack.connection.unsafe(STATEMENTS[0] ?? "");
      assertEquals((await stack.connection`select * from people`).length, 0);
    }
  });
});
