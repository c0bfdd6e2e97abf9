import { assert, assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { type Turn, Turns } from "../../supabase/functions/public-audit-log/turns.ts";

/** Lets everything run that waits only for promises. */
async function settle(): Promise<void> {
  for (let n = 0; n < 20; n++) await null;
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
    const turns = new Turns();
    const come = ask(turns, [...Array(60).fill(["noisy", 1000]), ["quiet", 100]]);
    await settle();
    assertEquals(come.map(({ key }) => key), ["noisy", "quiet"]);
    for (let n = 0; n < come.length; n++) {
      come[n]?.turn[Symbol.dispose]();
      await settle();
      assert(come.slice(n + 1).filter(({ key }) => key === "noisy").length <= 1);
    }
    assertEquals(come.length, 61);
  });

  it("leaves nothing of its key behind", async () => {
    const turns = new Turns();
    for (let n = 0; n < 1000; n++) {
      using _turn = await turns.next(`unknown ${n}`, 100);
    }
    assertEquals(turns.keysAtWork, 0);
  });

  it("that was handed over to a body lasts until the body ends", async () => {
    const turns = new Turns();
    const end = await turns.next("key", 10).then((turn) => {
      using _ = turn;
      return turn.handOver(70_000);
    });
    const come = ask(turns, [["key", 10]]);
    await settle();
    assertEquals(come.length, 0);
    end();
    await settle();
    assertEquals(come.length, 1);
  });

  it("for a largest page waits while two other keys have such turns. It comes when their pages prove smaller", async () => {
    const turns = new Turns();
    const keys = Array.from({ length: 100 }, (_, n): [string, number] => [`${n}`, 1000]);
    const come = ask(turns, keys);
    await settle();
    assertEquals(come.length, 2);
    for (let n = 0; n < 4; n++) {
      come[n]?.turn.handOver(1_000_000);
      await settle();
    }
    assertEquals(come.length, 4 + 1);
  });

  it("never waits for large pages if it is for a small page, or for none", async () => {
    const turns = new Turns();
    const keys = Array.from({ length: 9 }, (_, n): [string, number] => [`${n}`, 1000]);
    const large = ask(turns, keys);
    await settle();
    assertEquals(large.length, 2);
    const come = ask(turns, [["small", 100], ["bad query", 0]]);
    await settle();
    assertEquals([come.map(({ key }) => key), large.length], [["small", "bad query"], 2]);
  });

  it("is an error if it does not come within two minutes, and then holds up nobody", async () => {
    const { setTimeout } = globalThis;
    const turns = new Turns();
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
      for (const { turn } of come) turn[Symbol.dispose]();
      for (const turn of held) turn[Symbol.dispose]();
      assertEquals(turns.keysAtWork, 0);
    } finally {
      Object.assign(globalThis, { setTimeout });
    }
  });
});
