// Needs nothing.

import { assertEquals, assertMatch } from "@std/assert";
import { it } from "@std/testing/bdd";
import { sentinel } from "../../supabase/functions/audit-log-streams/destinations/sentinel.ts";
import type { Leased, Outcome, Taken } from "../../supabase/functions/audit-log-streams/queue.ts";
import { BUDGET, run, type RunOptions } from "../../supabase/functions/audit-log-streams/run.ts";
import { serveOnLoopback } from "../helpers/loopback.ts";

const LINE =
  `{"id":"0192d3f4-0000-7000-8000-000000000001","created_at":"2026-11-20T08:00:00.000Z",` +
  `"action":"agent_added","user_email":"ada@example.com","agent_name":"A","data":{}}`;

function batchOf(host: string, number = 1, is_troubled = false): Leased {
  return {
    lease: "",
    organization_id: "",
    stream_id: "",
    what: "entries",
    lines: [LINE],
    // It computes nothing: whatever answers does so before any time has passed.
    destination: { kind: "slack", url: `https://${host}/services` },
    sealed: null,
    sealed_before: null,
    is_troubled,
    number,
    name: "",
    platform_id: "",
  };
}

function deliverFrom(queue: RunOptions["queue"], more: Partial<RunOptions> = {}) {
  return run({
    queue,
    keys: { byId: new Map(), publicKey: "" },
    ownHosts: [],
    resolve: () => Promise.resolve([]),
    timeoutMs: 30_000,
    log: () => {},
    active: { workers: 0 },
    ...more,
  });
}

/** A queue of these destinations, and what became of their batches. */
function queueOf(waiting: object[]) {
  const settled: Outcome[] = [];
  const queue = {
    take(): Promise<Taken> {
      const destination = waiting.shift() as Leased["destination"] | undefined;
      return Promise.resolve(destination ? { batch: { ...batchOf("x"), destination } } : {});
    },
    settle(_: Leased, outcome: Outcome): Promise<Taken> {
      settled.push(outcome);
      return Promise.resolve({});
    },
  };
  return { queue, settled };
}

it("healthy streams have their turn beside 40 destinations that are known to be dead, and before a backlog has its second", async () => {
  const silence = Promise.withResolvers<string[]>();
  const turns = (count: number, host: string) => Array.from({ length: count }, () => host);
  /** Whose turn is next. A backlog has 30 batches. */
  const waiting = [...turns(40, "dead"), ...turns(12, "backlog"), ...turns(5, "healthy")];
  const settled: { host: string; outcome: Outcome }[] = [];
  const served = Promise.withResolvers<void>();
  const queue = {
    take(withTroubled: boolean): Promise<Taken> {
      const n = waiting.findIndex((host) => withTroubled || host !== "dead");
      const [host] = n < 0 ? [] : waiting.splice(n, 1);
      return Promise.resolve<Taken>(host ? { batch: batchOf(host, 1, host === "dead") } : {});
    },
    settle(batch: Leased, outcome: Outcome, wantsMore: boolean): Promise<Taken> {
      const { host } = new URL(batch.destination.url);
      settled.push({ host, outcome });
      if (countOf("healthy") === 5) {
        served.resolve();
      } else if (host === "backlog") {
        if (wantsMore && batch.number < 30) {
          return Promise.resolve({ batch: batchOf(host, batch.number + 1) });
        }
        waiting.push(host);
      }
      return Promise.resolve({});
    },
  };
  const active = { workers: 0 };
  const countOf = (name: string) => settled.filter(({ host }) => host === name).length;
  const done = deliverFrom(queue, {
    budget: { ...BUDGET, bytes: Infinity },
    resolve: (host) => host === "dead" ? silence.promise : Promise.resolve([]),
    active,
  });
  await Promise.race([served.promise, done]);
  // The backlogs have ended, too.
  await new Promise((resolve) => setTimeout(resolve, 10));
  assertEquals([countOf("healthy"), countOf("dead")], [5, 0]);
  assertEquals(active.workers, BUDGET.workers / 2);
  silence.resolve([]);
  await done;
  assertEquals([countOf("dead"), active.workers], [40, 0]);
});

it("a stream whose destination is none fails alone, and the others have their turn", async () => {
  const url = "https://x/services";
  const waiting: object[] = [{}, { kind: true, url }, { kind: "valueOf", url }];
  for (const each of [1, "https://256.1.1.1/", url]) waiting.push({ kind: "slack", url: each });
  const { queue, settled } = queueOf(waiting);
  await deliverFrom(queue);
  assertEquals(settled.map(({ decision }) => decision), Array(6).fill("wait"));
  assertEquals(settled.at(-1)?.error, "no address of x was found");
});

it("what a destination says is not in the function's log", async () => {
  const lines: Record<string, unknown>[] = [];
  await using server = serveOnLoopback(() => new Response("the answer", { status: 503 }));
  const url = `${server.url.replace("http://127.0.0.1", "https://localhost")}/services`;
  const urls = [url, url.replace("localhost", "nowhere.example")];
  const { queue, settled } = queueOf(urls.map((url) => ({ kind: "slack", url })));
  await deliverFrom(queue, { allowsLoopback: true, log: (line) => lines.push(line) });
  for (const { error } of settled) {
    assertMatch(error ?? "", /the answer|no address of nowhere.example was found/);
  }
  const { host } = new URL(url);
  assertEquals(lines.sort((one) => one["status"] ? -1 : 1), [
    { stream_id: "", host, status: 503, code: "wait" },
    { stream_id: "", host: new URL(urls[1]!).host, status: undefined, code: "Error" },
  ]);
});

it("what gives a token is not the destination, and an entry that is rejected is not delivered", async () => {
  const items = [{ create: { status: 400 } }];
  await using server = serveOnLoopback(() =>
    Response.json({ access_token: "token", errors: true, items })
  );
  const url = server.url.replace("http://127.0.0.1", "https://localhost");
  const asking = { method: "POST" as const, url: new URL(url), headers: {} };
  sentinel.askForToken = () => ({ ...asking, body: new Uint8Array() });
  const { queue, settled } = queueOf([
    { kind: "elasticsearch", url: `${url}/index` },
    { kind: "sentinel", url: "https://nowhere.example/dataCollectionRules/a/streams/b" },
  ]);
  const { entries } = await deliverFrom(queue, { allowsLoopback: true });
  const found = settled.map(({ decision, status }) => `${decision} ${status}`).sort();
  assertEquals([entries, found], [0, ["delivered 200", "wait undefined"]]);
});
