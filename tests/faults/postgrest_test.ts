import { assert } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

/** How many connections PostgREST has to the database (local/postgrest.ts). */
const POOL = 10;

/** Sends PostgREST's process a signal. */
function signal(name: Deno.Signal): void {
  if (!stack.postgrest) throw new Error("There is no PostgREST: put one on the PATH");
  Deno.kill(stack.postgrest.pid, name);
}

/** Runs slow statements in all connections of PostgREST's pool, again and again, until aborted. */
async function exhaustPool(sql: postgres.Sql, until: AbortSignal): Promise<void> {
  await sql`
    create function public.sleep(seconds integer) returns void language sql as 'select pg_sleep(seconds)'`;
  await sql`revoke execute on function public.sleep from public`;
  await sql`grant execute on function public.sleep to service_role`;
  try {
    await Promise.all(Array.from({ length: 2 * POOL }, async () => {
      while (!until.aborted) {
        const response = await fetch(`${stack.apiUrl}/rest/v1/rpc/sleep`, {
          method: "POST",
          headers: { apikey: stack.secretKey, "Content-Type": "application/json" },
          body: '{"seconds":3}',
        });
        await response.body?.cancel();
      }
    }));
  } finally {
    await sql`drop function public.sleep`;
  }
}

describe("the service mends itself, with only lawful answers, when", () => {
  it("PostgREST is killed, and killed again as soon as it is back", async () => {
    await underLoad({ stack, causes: /503|error reading a body|connection/ }, async (load) => {
      for (let kill = 0; kill < 4; kill++) {
        signal("SIGKILL");
        await load.answers(8, 500);
        await load.answers(8, 200);
      }
    });
  });

  it("PostgREST stands still", async () => {
    await underLoad({ stack, causes: /TimeoutError/ }, async (load) => {
      signal("SIGSTOP");
      try {
        await load.answers(8, 500);
      } finally {
        signal("SIGCONT");
      }
    });
  });

  it("slow statements hold all connections of PostgREST's pool", async () => {
    const sql = postgres(stack.databaseUrl, { max: 1, onnotice: () => {} });
    await underLoad({ stack, causes: /TimeoutError/ }, async (load) => {
      const abortion = new AbortController();
      const exhausted = exhaustPool(sql, abortion.signal);
      try {
        await load.answers(16, 500);
      } finally {
        abortion.abort();
        await exhausted;
      }
    });
    await sql.end();
  });

  it("PostgREST's connections to the database are cut, ten times", async () => {
    const sql = postgres(stack.databaseUrl, { max: 1 });
    await underLoad({ stack, causes: /503 PGRST00[0-3]|57P01|failed: 400$/ }, async (load) => {
      for (let cut = 0; cut < 10; cut++) {
        const { count } = await sql`
          select pg_terminate_backend(pid) from pg_stat_activity where usename = 'authenticator'`;
        assert(count > 0, "there was no connection to cut");
        await load.answers(20);
      }
    });
    await sql.end();
  });
});
