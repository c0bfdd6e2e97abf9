import { assert, assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { networkOf, type Turn, Turns } from "../../supabase/functions/public-audit-log/turns.ts";

/** Lets everything run that waits only for promises. */
async function settle(): Promise<void> {
  for (let n = 0; n < 20; n++) await null;
}

/** Makes turns that know these keys: the database has accepted them. */
async function knowing(...keys: string[]): Promise<Turns> {
  const turns = new Turns();
  for (const key of keys) {
    const turn = await turns.next(key, 0);
    turn.settle(true);
    turn.end();
  }
  return turns;
}

/** Names of keys, or of strangers. */
function names(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${n}`);
}

/** Asks for turns, and collects them in the order in which they come. */
function ask(turns: Turns, requests: [key: string, entries: number][]) {
  const come: { key: string; turn: Turn }[] = [];
  for (const [key, entries] of requests) {
    turns.next(key, entries).then((turn) => come.push({ key, turn }));
  }
  return come;
}

describe("a turn", () => {
  it("comes to the requests of a key one after the other, and to other keys at once", async () => {
    const turns = await knowing("noisy", "quiet");
    const come = ask(turns, [...Array(60).fill(["noisy", 1000]), ["quiet", 100]]);
    await settle();
    assertEquals(come.map(({ key }) => key), ["noisy", "quiet"]);
    for (let n = 0; n < come.length; n++) {
      come[n]?.turn.end();
      await settle();
      assert(come.slice(n + 1).filter(({ key }) => key === "noisy").length <= 1);
    }
    assertEquals(come.length, 61);
  });

  it("leaves nothing of its key behind", async () => {
    const turns = new Turns();
    for (let n = 0; n < 1000; n++) {
      const turn = await turns.next(`unknown ${n}`, 100);
      if (n % 100 === 0) turn.settle(false);
      turn.end();
    }
    // The last refused one's place stays empty for 5 ms.
    while (!turns.isUnused) await new Promise((resolve) => setTimeout(resolve));
  });

  it("that was handed over to a body lasts until the body ends", async () => {
    const turns = await knowing("key");
    const turn = await turns.next("key", 10);
    const end = turn.handOver(70_000);
    turn.end();
    const come = ask(turns, [["key", 10]]);
    await settle();
    assertEquals(come.length, 0);
    end();
    await settle();
    assertEquals(come.length, 1);
  });

  it("for a largest page waits while two other keys have such turns. It comes when their pages prove smaller", async () => {
    const turns = await knowing(...names(100));
    const come = ask(turns, names(100).map((key) => [key, 1000]));
    await settle();
    assertEquals(come.length, 2);
    for (let n = 0; n < 4; n++) {
      come[n]?.turn.handOver(1_000_000);
      await settle();
    }
    assertEquals(come.length, 4 + 1);
  });

  it("never waits for large pages if it is for a small page, or for none", async () => {
    const turns = await knowing("small", "bad query", ...names(9));
    const large = ask(turns, names(9).map((key) => [key, 1000]));
    await settle();
    assertEquals(large.length, 2);
    const come = ask(turns, [["small", 100], ["bad query", 0]]);
    await settle();
    assertEquals([come.map(({ key }) => key), large.length], [["small", "bad query"], 2]);
  });

  it("for a small page waits while eleven other keys have such turns: all pages together have 24 MiB", async () => {
    const turns = await knowing(...names(20));
    const small = ask(turns, names(20).map((key) => [key, 100]));
    await settle();
    assertEquals(small.length, 11);
  });

  it("comes to two requests at a time with tokens that the database has not accepted, in their order. A key waits for none of them", async () => {
    // One more than are remembered.
    const turns = await knowing("forgotten", "revoked", ...names(9_999));
    const revoked = await turns.next("revoked", 0);
    revoked.settle(false);
    revoked.end();
    const strangers = ["a", "b", "c", "revoked", "d", "forgotten", "new key"];
    const come: string[] = [];
    const asked = strangers.map(async (hash) => {
      const turn = await turns.next(hash, 100);
      come.push(hash);
      return turn;
    });
    const large = ask(turns, [["e", 1000], ["f", 1000]]);
    const keys = ask(turns, [["0", 100], ["1", 1000]]);
    await settle();
    assertEquals([come.length, large.length, keys.length], [2, 1, 2]);
    for (let n = 0; n < 5; n++) {
      const turn = await asked[n];
      if (n % 2) turn?.settle(false);
      else turn?.end();
      await settle();
      // After a refusal, the next turn comes 5 ms later.
      assertEquals(come.length, n % 2 ? n + 2 : n + 3);
      await asked[n + 2];
      assertEquals(come, strangers.slice(0, n + 3));
    }
  });

  it("comes from one network for all addresses that one machine can have", () => {
    const cases: [address: string | undefined, network: string][] = [
      ["2001:db8::1", "2001:db8:0:0"],
      ["2001:DB8:0:0:ffff::", "2001:db8:0:0"],
      ["2001:db8:0:1::", "2001:db8:0:1"],
      ["203.0.113.7", "203.0.113.7"],
      ["::ffff:203.0.113.7", "::ffff:203.0.113.7"],
      [undefined, ""],
    ];
    for (const [address, network] of cases) assertEquals(networkOf(address), network);
  });

  it("is an error if it does not come within two minutes, and then holds up nobody. After a refusal, the next comes 5 ms later", async () => {
    const { setTimeout } = globalThis;
    const turns = await knowing("a", "b", "d", "e");
    const held = await Promise.all(["a", "b"].map((key) => turns.next(key, 1000)));
    const waits: number[] = [];
    // The first of the two that wait does not wait for two minutes.
    const shortened = (ring: () => void, milliseconds: number) =>
      setTimeout(ring, waits.push(milliseconds) === 1 ? 0 : milliseconds);
    Object.assign(globalThis, { setTimeout: shortened });
    try {
      const late = turns.next("d", 1000);
      const come = ask(turns, [["e", 101]]);
      await settle();
      assertEquals([come.length, waits], [0, [120_000, 120_000]]);
      await assertRejects(() => late, Error, "waited 120000 ms");
      await settle();
      assertEquals(come.map(({ key }) => key), ["e"]);
      for (const { turn } of come) turn.end();
      for (const turn of held) turn.end();
      assertEquals(turns.isUnused, true);
      const refused = await turns.next("refused", 0);
      refused.settle(false);
      refused.end();
      assertEquals(waits.at(-1), 5);
    } finally {
      Object.assign(globalThis, { setTimeout });
    }
  });
});
