// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import {
  type Leased,
  type Outcome,
  parse,
  type Taken,
} from "../../supabase/functions/audit-log-streams/queue.ts";
import {
  BUDGET,
  round,
  type RoundOptions,
} from "../../supabase/functions/audit-log-streams/round.ts";

const LINE =
  `{"id":"0192d3f4-0000-7000-8000-000000000001","created_at":"2026-11-20T08:00:00.000Z",` +
  `"action":"agent_added","user_email":"ada@example.com","agent_name":"A","data":{}}`;

function batchOf(host: string, number = 1): Leased {
  return {
    lease: "",
    organization_id: "",
    shown_id: "",
    stream_id: "",
    what: "entries",
    is_again: false,
    // It computes nothing: whatever answers does so before any time has passed.
    destination: { kind: "slack", url: `https://${host}/services` },
    sealed: null,
    sealed_before: null,
    attempt: 1,
    number,
    batch_name: "",
    lines: [LINE],
  };
}

function deliverFrom(queue: RoundOptions["queue"], more: Partial<RoundOptions>) {
  return round({
    queue,
    budget: BUDGET,
    keys: { byId: new Map(), publicKey: "" },
    ownHosts: [],
    resolve: () => Promise.resolve([]),
    timeoutMs: 30_000,
    neighboursTimeoutMs: 30_000,
    log: () => {},
    active: { quick: 0, slow: 0 },
    ...more,
  });
}

it("healthy streams have their turn while 40 newly dead destinations hang, and before a backlog has its second", async () => {
  const silence = Promise.withResolvers<string[]>();
  const turns = (count: number, host: string) => Array.from({ length: count }, () => host);
  /** Whose turn is next. A backlog has 30 batches. */
  const waiting = [...turns(12, "backlog"), ...turns(40, "dead"), ...turns(5, "healthy")];
  const settled: { host: string; outcome: Outcome }[] = [];
  const served = Promise.withResolvers<void>();
  const queue = {
    take(): Promise<Taken> {
      const host = waiting.shift();
      return Promise.resolve<Taken>(host === undefined ? {} : { batch: batchOf(host) });
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
    recut: () => Promise.resolve([]),
  };
  const active = { quick: 0, slow: 0 };
  const countOf = (name: string) => settled.filter(({ host }) => host === name).length;
  const done = deliverFrom(queue, {
    budget: { ...BUDGET, patienceMs: 10 },
    resolve: (host) => host === "dead" ? silence.promise : Promise.resolve([]),
    active,
  });
  await Promise.race([served.promise, done]);
  assertEquals(countOf("backlog"), 12 * BUDGET.batchesInARow);
  assertEquals(active.slow, BUDGET.slots);
  // Those that waited for long when all slots for slow ones were taken were given up. No other has ended.
  const errors = settled.filter(({ host }) => host === "dead").map(({ outcome }) => outcome.error);
  assertEquals(errors.filter((error) => !error?.startsWith("it was slow")), []);
  silence.resolve([]);
  await done;
  assertEquals(countOf("dead"), 40);
});

it("a stream whose destination is none fails alone, and the others have their turn", async () => {
  const url = "https://x/services";
  const waiting: object[] = [{}, { kind: true, url }, { kind: "valueOf", url }];
  for (const each of [1, "https://256.1.1.1/", url]) waiting.push({ kind: "slack", url: each });
  const settled: Outcome[] = [];
  const queue = {
    take(): Promise<Taken> {
      const destination = waiting.shift();
      const { lines, ...header } = batchOf("x");
      return Promise.resolve(
        destination ? parse(`${JSON.stringify({ ...header, destination })}\n${lines}`) : {},
      );
    },
    settle(_: Leased, outcome: Outcome): Promise<Taken> {
      settled.push(outcome);
      return Promise.resolve({});
    },
    recut: () => Promise.resolve([]),
  };
  await deliverFrom(queue, {});
  assertEquals(settled.map(({ decision }) => decision), Array(6).fill("wait"));
  assertEquals(settled.at(-1)?.error, "no address of x was found");
});
