// Needs stacks of its own. Slow.

import { NO_CONNECTION, READING_SCHEMA } from "../helpers/postgrest.ts";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startPostgres } from "../../dev/local/postgres.ts";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import type { LogLine } from "../../supabase/functions/public-audit-log/log_line.ts";
import { addOrganization, exhaust, revoke, valueOf } from "../../dev/harness/project.ts";
import { connect, type Connection, crash, processesOf, signal } from "../helpers/cluster.ts";
import { type Load, underLoad } from "../helpers/load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

/** Connects as the superuser, who gets the server's last connections. */
function connectAsAdmin(): Connection {
  // A connection that is cut while the driver asks for types rejects a promise that nobody can catch.
  return connect(stack.postgres, { max: 1, fetch_types: false });
}

/**
 * What the function logs when the database is gone: PostgREST gets no connection, the database says
 * goodbye, or the connection is cut before that.
 */
const GONE = new RegExp(`50[34] (${NO_CONNECTION.join("|")})|57P0[1-3]|failed: 400$`);

/**
 * Tests that a fault under load is survived: the service is healthy before and after it, every answer in between is
 * allowed, the cause of each 500 is logged once, and the requests are counted. Without `causes`, no request may fail.
 */
function recovers(
  when: string,
  causes: RegExp | null,
  fault: (load: Load, admin: Connection) => Promise<void>,
): void {
  it(when, async () => {
    await using admin = connectAsAdmin();
    // A fault must look like neither of their answers.
    const [revoked, exhausted] = [await addOrganization(admin), await addOrganization(admin)];
    await revoke(admin, revoked.apiKeyId);
    await exhaust(admin, exhausted.apiKeyId);
    const refused = [{ token: revoked.token, due: 401 }, { token: exhausted.token, due: 429 }];
    const options = { stacks: [stack], atOnce: 8, refused };
    const { answers, asked, reads, organizationIds } = await underLoad(options, async (load) => {
      await load.waitUntilHealthy();
      await fault(load, admin);
      await load.waitUntilHealthy();
    });
    assertEquals(answers.length, asked, "requests without an answer within 20 s");
    const lines = stack.faults
      .filter((line) => line.startsWith("{"))
      .map((line): LogLine => JSON.parse(line));
    for (const { status, due, requestId } of answers) {
      if (status !== 500) {
        assertEquals(status, due);
        continue;
      }
      const logged = lines.filter(({ request_id }) => request_id === requestId);
      assertEquals(logged.length, 1, `log lines of ${requestId}`);
      assertMatch(logged[0]?.error ?? "", causes ?? /no request may fail/);
    }
    await using sql = connectAsAdmin();
    const counted: number = await valueOf(sql`
      select sum(cardinality(counted_at))::int from audit_log_private.rate_limits
      where organization_id in ${sql(organizationIds)}`);
    assert(counted >= reads && counted <= asked, `${reads} pages, ${counted} counted`);
  });
}

describe("the service gives only allowed answers, and recovers, when", () => {
  recovers("all connections to the database are cut, five times", GONE, async (load, admin) => {
    // While PostgREST has none, it answers at once with an error.
    for (let cuts = 0; cuts < 5;) {
      const cut = await admin`
        select pg_terminate_backend(pid) from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()`;
      if (cut.length > 0) cuts++;
      await load.waitForAnswers(20);
    }
  });

  recovers("the database is killed, and started again", GONE, async (load) => {
    await crash(stack.postgres);
    await load.waitForAnswers(40, 500);
    await startPostgres(stack.postgres);
  });

  // A wait for a key's lock may end while all stands still (55P03). PostgREST may still be reading the schema after an
  // earlier fault (PGRST002).
  const late = new RegExp(`TimeoutError|55P03|${READING_SCHEMA}`);
  recovers("the database stands still", late, async (load) => {
    const pids = await processesOf(stack.postgres);
    signal(pids, "SIGSTOP");
    await load.waitForAnswers(8, 500).finally(() => signal(pids, "SIGCONT"));
  });

  // Supabase makes transactions read-only when a disk is almost full. PostgREST asks for writable ones.
  recovers("transactions are read-only by default: no request fails", null, async (load, admin) => {
    // Keeps this connection writable, so that it can reset the setting.
    await admin`set default_transaction_read_only = off`;
    await admin`alter system set default_transaction_read_only = on`;
    await admin`select pg_reload_conf()`;
    await load.waitForAnswers(100);
    await admin`alter system reset default_transaction_read_only`;
    await admin`select pg_reload_conf()`;
  });
});
