import { assert } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import postgres from "postgres";
import { databaseUrl, startPostgres, stopPostgres } from "../../local/postgres.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

/** How many connections the server takes (local/postgres.ts). */
const MAX_CONNECTIONS = 60;

const PID_FILE = join(stack.postgres.dataDir, "postmaster.pid");

/** A connection as the superuser, who is let in last, too. */
function connectAsAdmin(onclose = () => {}): postgres.Sql {
  const { port, adminPassword } = stack.postgres;
  return postgres(databaseUrl(port, "supabase_admin", adminPassword), {
    max: 1,
    // As of the load's own connection (load.ts).
    fetch_types: false,
    onclose,
    onnotice: () => {},
  });
}

/** Cuts all connections but one's own. */
async function cutConnections(admin: postgres.Sql): Promise<void> {
  const cut = await admin`
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()`;
  assert(cut.length > 0, "there was no connection to cut");
}

/** The server and all its processes. */
async function processes(): Promise<number[]> {
  const admin = connectAsAdmin();
  const rows = await admin<{ pid: number }[]>`select pid from pg_stat_activity`;
  await admin.end();
  return [parseInt(await Deno.readTextFile(PID_FILE)), ...rows.map(({ pid }) => pid)];
}

/** Sends a signal to processes; some may have ended. */
function signal(pids: number[], name: Deno.Signal): void {
  for (const pid of pids) {
    try {
      Deno.kill(pid, name);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** What is logged when the database goes away: what it, or PostgREST in its place, then says. */
const GONE = new RegExp(
  [
    // No connection, or none to be had.
    "503 PGRST00[0-3]",
    // Its last words.
    "57P0[1-3]",
    // It was cut off before any.
    "failed: 400$",
  ].join("|"),
);

describe("the service mends itself, with only lawful answers, when", () => {
  it("all connections to the database are cut, ten times", async () => {
    const admin = connectAsAdmin();
    await underLoad({ stack, causes: GONE }, async (load) => {
      for (let cut = 0; cut < 10; cut++) {
        await cutConnections(admin);
        await load.answers(20);
      }
    });
    await admin.end();
  });

  it("the database is killed, and recovers when it is started", async () => {
    await underLoad({ stack, causes: GONE }, async (load) => {
      signal(await processes(), "SIGKILL");
      // In a container nobody may notice that it is dead, and its lock would keep the next one out.
      await Deno.remove(PID_FILE);
      await load.answers(40, 500);
      await startPostgres(stack.postgres);
    });
  });

  it("one of the database's processes is killed, and it recovers by itself", async () => {
    await underLoad({ stack, causes: GONE }, async (load) => {
      let isClosed = false;
      const admin = connectAsAdmin(() => isClosed = true);
      const [{ pid }] = await admin<[{ pid: number }]>`select pg_backend_pid() as pid`;
      signal([pid], "SIGKILL");
      await load.answers(40);
      assert(isClosed, "the process was not killed");
      await admin.end();
    });
  });

  it("the database stands still", async () => {
    await underLoad({ stack, causes: /TimeoutError/ }, async (load) => {
      const pids = await processes();
      signal(pids, "SIGSTOP");
      try {
        await load.answers(8, 500);
      } finally {
        signal(pids, "SIGCONT");
      }
    });
  });

  it("the database has no connection left", async () => {
    await underLoad({ stack, causes: GONE }, async (load) => {
      const admin = connectAsAdmin();
      await cutConnections(admin);
      const others = Array.from({ length: MAX_CONNECTIONS }, connectAsAdmin);
      await Promise.allSettled(others.map((other) => other`select 1`));
      await load.answers(40, 500);
      await Promise.all([admin, ...others].map((sql) => sql.end()));
    });
  });

  it("the database takes no writes, as a standby until it is promoted", async () => {
    const { dataDir } = stack.postgres;
    const causes = new RegExp(`cannot set transaction read-write mode|${GONE.source}`);
    await underLoad({ stack, causes }, async (load) => {
      await stopPostgres(dataDir, "fast");
      await Deno.writeTextFile(join(dataDir, "standby.signal"), "");
      await startPostgres(stack.postgres);
      await load.answers(40, 500);
      const admin = connectAsAdmin();
      await admin`select pg_promote()`;
      await admin.end();
    });
  });

  it("new transactions are read only unless they say otherwise, and then no request fails", async () => {
    // As the platform does when a disk is almost full; PostgREST's say otherwise.
    const admin = connectAsAdmin();
    // This connection must write again.
    await admin`set default_transaction_read_only = off`;
    await underLoad({ stack }, async (load) => {
      await admin`alter system set default_transaction_read_only = on`;
      await admin`select pg_reload_conf()`;
      try {
        await load.answers(200);
      } finally {
        await admin`alter system reset default_transaction_read_only`;
        await admin`select pg_reload_conf()`;
      }
    });
    await admin.end();
  });

  it("somebody holds a lock on the counters of all keys, and all connections wait for it", async () => {
    const admin = connectAsAdmin();
    await underLoad({ stack, causes: /TimeoutError/ }, async (load) => {
      await admin.begin(async (transaction) => {
        await transaction`lock table audit_log_private.rate_limits in access exclusive mode`;
        await load.answers(16, 500);
      });
    });
    await admin.end();
  });

  it("somebody holds a lock on the counters of some keys, and the others are served", async () => {
    const admin = connectAsAdmin();
    await underLoad({ stack, causes: /55P03/ }, async (load) => {
      await admin.begin(async (transaction) => {
        const some = load.apiKeyIds.slice(0, 5);
        await transaction`
          select from audit_log_private.rate_limits where api_key_id in ${
          transaction(some)
        } for update`;
        await load.answers(5, 500);
        await load.answers(100, 200);
      });
    });
    await admin.end();
  });
});
