// Needs nothing.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { it } from "@std/testing/bdd";
import { type Slot, Slots } from "../../supabase/functions/public-audit-log/slots.ts";

/** Lets everything run that waits only for promises. */
async function settle(): Promise<void> {
  for (let n = 0; n < 20; n++) await null;
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${n}`);
}

/** Asks for slots, and collects them in the order in which they come. */
function ask(slots: Slots, requests: [token: string, entries: number][]) {
  const come: { token: string; slot: Slot }[] = [];
  for (const [token, entries] of requests) {
    slots.take(token, entries).then((slot) => come.push({ token, slot }));
  }
  return come;
}

it("a slot comes to the requests of a token one after the other, and to other tokens at once", async () => {
  const come = ask(new Slots(), [...Array(60).fill(["noisy", 1000]), ["quiet", 100]]);
  await settle();
  assertEquals(come.map(({ token }) => token), ["noisy", "quiet"]);
  for (let n = 0; n < come.length; n++) {
    come[n]?.slot.shrinkTo(0);
    await settle();
    assert(come.slice(n + 1).filter(({ token }) => token === "noisy").length <= 1);
  }
  assertEquals(come.length, 61);
});

it("a slot that a body keeps lasts until the body ends", async () => {
  const slots = new Slots();
  const slot = await slots.take("token", 10);
  slot.shrinkTo(70_000);
  const come = ask(slots, [["token", 10], ["token", 1000]]);
  await settle();
  assertEquals(come.length, 0);
  slot.shrinkTo(0);
  await settle();
  assertEquals(come.length, 1);
});

it("a slot for a largest page waits while two others have such slots. It comes when their pages prove smaller. For a small page, or for none, it comes at once", async () => {
  const slots = new Slots();
  const come = ask(slots, names(100).map((token) => [token, 1000]));
  const others = ask(slots, [["small", 100], ["bad query", 0]]);
  await settle();
  assertEquals([come.length, others.length], [2, 2]);
  for (let n = 0; n < 4; n++) {
    come[n]?.slot.shrinkTo(1_000_000);
    await settle();
  }
  assertEquals(come.map(({ token }) => token), names(4 + 1));
});

it("a slot for a small page waits while eleven others have such slots, however small: all pages together have 24 MiB", async () => {
  const small = ask(new Slots(), names(20).map((token, n) => [token, n % 2 ? 100 : n]));
  await settle();
  assertEquals(small.length, 11);
  for (let n = 0; n < small.length; n++) {
    small[n]?.slot.shrinkTo(0);
    await settle();
  }
  assertEquals(small.map(({ token }) => token), names(20));
});

it("a slot is an error if it does not come within two minutes, and then holds up no request of its token", async () => {
  const { setTimeout } = globalThis;
  const slots = new Slots();
  const held = await slots.take("a", 10);
  Object.assign(globalThis, { setTimeout: (ring: () => void) => setTimeout(ring, 0) });
  const late = slots.take("a", 10);
  Object.assign(globalThis, { setTimeout });
  const come = ask(slots, [["a", 10], ["a", 10]]);
  await assertRejects(() => late, Error, "waited 120000 ms");
  assertEquals(come.length, 0);
  held.shrinkTo(0);
  await settle();
  assertEquals(come.length, 1);
  come[0]?.slot.shrinkTo(0);
  await settle();
  assertEquals(come.length, 2);
});

it("a slot is an error if it does not come within two minutes, and then holds up nobody", async () => {
  const { setTimeout } = globalThis;
  const slots = new Slots();
  const held = await Promise.all(["a", "b"].map((token) => slots.take(token, 1000)));
  const waits: number[] = [];
  // The first of the two that wait does not wait for two minutes.
  const shortened = (ring: () => void, milliseconds: number) =>
    setTimeout(ring, waits.push(milliseconds) === 1 ? 0 : milliseconds);
  Object.assign(globalThis, { setTimeout: shortened });
  try {
    const late = slots.take("d", 1000);
    const come = ask(slots, [["e", 101]]);
    await settle();
    assertEquals([come.length, waits], [0, [120_000, 120_000]]);
    await assertRejects(() => late, Error, "waited 120000 ms");
    await settle();
    assertEquals(come.map(({ token }) => token), ["e"]);
    for (const slot of held) slot.shrinkTo(0);
    const next = ask(slots, [["a", 1000], ["d", 1000]]);
    await settle();
    assertEquals(next.map(({ token }) => token), ["a", "d"]);
  } finally {
    Object.assign(globalThis, { setTimeout });
  }
});
