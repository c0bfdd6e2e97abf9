import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type EdgeFunction, startEdgeFunction } from "../../local/edge_function.ts";
import { freePort } from "../../local/free_port.ts";
import { startPostgres, stopPostgres } from "../../local/postgres.ts";
import { startTemporaryStack } from "../../local/temporary_stack.ts";
import { pidOf, type Sql } from "../project.ts";
import { connect, type Connection, crash, processesOf, signal } from "./cluster.ts";
import { type Fault, type LoadOptions, underLoad } from "./load.ts";

const stack = await startTemporaryStack();
afterAll(() => stack[Symbol.asyncDispose]());

/** How many connections the server takes (local/postgres.ts). */
const MAX_CONNECTIONS = 60;

/** Connects as the superuser, who gets the server's last connections. */
function connectAsAdmin(onclose = () => {}): Connection {
  // A connection that is cut while the driver asks for types rejects a promise that nobody can catch.
  return connect(stack.postgres, { max: 1, fetch_types: false, onclose });
}

async function cutOtherConnections(admin: Sql): Promise<void> {
  const cut = await admin`
    select pg_terminate_backend(pid) from pg_stat_activity
    where backend_type = 'client backend' and pid <> pg_backend_pid()`;
  assert(cut.length > 0, "there was no connection to cut");
}

/**
 * What the function logs when the database is gone: PostgREST gets no connection, the database says
 * goodbye, or the connection is cut before that.
 */
const GONE = /503 PGRST00[0-3]|57P0[1-3]|failed: 400$/;

/** Tests that the service recovers from a fault. Without `causes`, no request may fail. */
function recovers(when: string, causes: RegExp | null, fault: Fault): void {
  it(when, () => underLoad({ stack, causes }, fault));
}

describe("the service gives only lawful answers, and recovers, when", () => {
  recovers("all connections to the database are cut, five times", GONE, async (load) => {
    await using admin = connectAsAdmin();
    for (let cut = 0; cut < 5; cut++) {
      await cutOtherConnections(admin);
      await load.answers(20);
    }
  });

  recovers("the database is killed, and started again", GONE, async (load) => {
    await crash(stack.postgres);
    await load.answers(40, 500);
    await startPostgres(stack.postgres);
  });

  recovers("one of the database's processes is killed", GONE, async (load) => {
    let isClosed = false;
    await using admin = connectAsAdmin(() => isClosed = true);
    signal([await pidOf(admin)], "SIGKILL");
    await load.answers(40);
    assert(isClosed, "the process was not killed");
  });

  recovers("the database stands still", /TimeoutError/, async (load) => {
    const pids = await processesOf(stack.postgres);
    signal(pids, "SIGSTOP");
    await load.answers(8, 500).finally(() => signal(pids, "SIGCONT"));
  });

  recovers("the database has no connection left", GONE, async (load) => {
    await using admin = connectAsAdmin();
    await cutOtherConnections(admin);
    const others = Array.from({ length: MAX_CONNECTIONS }, () => connectAsAdmin());
    await Promise.allSettled(others.map((other) => other`select 1`));
    await load.answers(40, 500);
    await Promise.all(others.map((other) => other.end()));
  });

  const standbyOrGone = new RegExp(`cannot set transaction read-write mode|${GONE.source}`);
  recovers("the database is a standby until it is promoted", standbyOrGone, async (load) => {
    const { dataDir } = stack.postgres;
    await stopPostgres(dataDir, "fast");
    await Deno.writeTextFile(join(dataDir, "standby.signal"), "");
    await startPostgres(stack.postgres);
    await load.answers(40, 500);
    await using admin = connectAsAdmin();
    await admin`select pg_promote()`;
  });

  // The platform makes transactions read-only when a disk is almost full. PostgREST asks for others.
  recovers(
    "transactions are read-only by default, and then no request fails",
    null,
    async (load) => {
      await using admin = connectAsAdmin();
      // So that this connection can reset the setting.
      await admin`set default_transaction_read_only = off`;
      await admin`alter system set default_transaction_read_only = on`;
      await admin`select pg_reload_conf()`;
      try {
        await load.answers(100);
      } finally {
        await admin`alter system reset default_transaction_read_only`;
        await admin`select pg_reload_conf()`;
      }
    },
  );

  recovers("somebody locks the counters of all keys", /TimeoutError/, async (load) => {
    await using admin = connectAsAdmin();
    await admin.begin(async (transaction) => {
      await transaction`lock table audit_log_private.rate_limits in access exclusive mode`;
      await load.answers(8, 500);
    });
  });

  recovers("somebody locks the counters of some keys: others are served", /55P03/, async (load) => {
    await using admin = connectAsAdmin();
    await admin.begin(async (transaction) => {
      const some = transaction(load.apiKeyIds.slice(0, 5));
      await transaction`
        select from audit_log_private.rate_limits where api_key_id in ${some} for update`;
      await load.answers(5, 500);
      await load.answers(50, 200);
    });
  });

  const cutOff = /503|error reading a body|connection/;
  recovers("PostgREST is killed, and once more as soon as it is back", cutOff, async (load) => {
    for (let kill = 0; kill < 2; kill++) {
      Deno.kill(stack.postgrest.pid, "SIGKILL");
      await load.answers(8, 500);
      await load.answers(8, 200);
    }
  });
});

/** Stands in for the Data API: passes requests on, unless a test answers them. */
const port = freePort();
let answer: (request: Request) => Promise<Response> = pass;
const serve = () =>
  Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, (request) => answer(request));
let dataApi = serve();
const faults: string[] = [];
const edgeFunction = await startEdgeFunction({
  apiUrl: `http://127.0.0.1:${port}`,
  secretKey: stack.secretKey,
  log: (line) => {
    if (line.includes('"error"')) faults.push(line);
  },
});
afterAll(async () => {
  await edgeFunction[Symbol.asyncDispose]();
  await dataApi.shutdown();
});

/** Sends the load to a function of the test's own. */
function to({ port }: EdgeFunction, faults: string[], causes: RegExp | null = null): LoadOptions {
  const url = `http://127.0.0.1:${port}/public-audit-log`;
  return { stack, edgeFunction: { url, faults }, causes };
}

/** Tests that the service recovers when the Data API gives other answers for a while. Counts its requests from 0. */
function recoversFrom(
  is: string,
  causes: RegExp | null,
  other: (request: Request, number: number) => Promise<Response>,
): void {
  it(is, () =>
    underLoad(to(edgeFunction, faults, causes), async (load) => {
      let asked = 0;
      answer = (request) => other(request, asked++);
      await load.answers(8, causes ? 500 : 200).finally(() => answer = pass);
      assert(asked >= 8, "the Data API was not asked");
    }));
}

function pass({ url, method, headers, body }: Request): Promise<Response> {
  const { pathname, search } = new URL(url);
  return fetch(`${stack.apiUrl}${pathname}${search}`, { method, headers, body });
}

/** Sends half of the true answer, which says that it is longer, and then does something else. */
async function half(
  request: Request,
  then: (rest: ReadableStreamDefaultController<Uint8Array>) => void | Promise<void>,
): Promise<Response> {
  const text = await (await pass(request)).bytes();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(text.subarray(0, text.length / 2)),
    pull: then,
  });
  return new Response(body, { headers: { "Content-Length": `${text.length}` } });
}

/** Resolves after longer than the function waits. */
function hang(): Promise<void> {
  return delay(6_000);
}

// tests/pure/handler_test.ts tests whole answers with wrong content.
describe("the service gives only lawful answers, and recovers, when the Data API", () => {
  recoversFrom(
    "hangs, before an answer or in the middle of it",
    /TimeoutError/,
    (request, number) => number % 2 ? half(request, hang) : hang().then(() => pass(request)),
  );

  recoversFrom(
    "cuts its answers off in the middle",
    /error reading a body/,
    (request) => half(request, (rest) => rest.close()),
  );

  recoversFrom("is slow, and then no request fails", null, async (request) => {
    const response = await pass(request);
    await delay(1_500);
    return response;
  });

  it("refuses connections", () =>
    underLoad(to(edgeFunction, faults, /Caused by: .*refused/), async (load) => {
      await dataApi.shutdown();
      await load.answers(8, 500).finally(() => dataApi = serve());
    }));
});

describe("no answer depends on the clock of the function's machine, even if it is", () => {
  for (const [is, days] of [["a day ahead", 1], ["a day behind", -1]] as const) {
    it(is, async () => {
      const log: string[] = [];
      await using wrong = await startEdgeFunction({
        apiUrl: stack.apiUrl,
        secretKey: stack.secretKey,
        main: new URL(`wrong_clock.ts?days=${days}`, import.meta.url),
        log: (line) => log.push(line),
      });
      await underLoad(to(wrong, log), (load) => load.answers(40));
      const [, itsTime = ""] = log.join("").match(/^The clock says (.*)$/m) ?? [];
      const wrongBy = (Date.parse(itsTime) - Date.now()) / (24 * 60 * 60 * 1000);
      assertEquals(Math.round(wrongBy), days);
    });
  }
});
