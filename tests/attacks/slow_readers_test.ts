// Needs a local stack. Slow.

import { assert, assertEquals } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { insertEntries, LONGEST, newLog, quotaOf, sql, startFunction } from "../helpers/mod.ts";
import { statusOnly, TWO_DAYS, withKey } from "../helpers/mod.ts";
import { SlowReader } from "./slow_reader.ts";

const edgeFunction = await startFunction({ main: new URL("short_waits.ts", import.meta.url) });
afterAll(() => edgeFunction[Symbol.asyncDispose]());
const url = `${edgeFunction.url}?${TWO_DAYS}`;

function ask(token: string, limit: number): Promise<Response> {
  return fetch(`${url}&limit=${limit}`, withKey(token));
}

/** Makes an organization whose page of 1000 entries has 7 MB, more than the sockets on the way take. */
async function largeOrganization() {
  const organization = await newLog();
  await insertEntries(sql, organization.id, "2026-03-01", 1000, LONGEST);
  return organization;
}

it("the Edge Function cuts off readers that stop or take too long within the largest page. Then it answers the key's next request. No other key waits, not even beside 250 silent connections", async () => {
  const { port } = edgeFunction;
  const silent = await Promise.all(Array.from({ length: 250 }, () => Deno.connect({ port })));
  const [noisy, quiet] = [await largeOrganization(), await largeOrganization()];
  const [stopped, slow]: [SlowReader[], Promise<number>[]] = [[], []];
  for (let n = 0; n < 4; n++) {
    const reader = await SlowReader.ask(`${url}&limit=1000`, noisy.token);
    // Each gets its slot when the one before was given up.
    await reader.readHeaders();
    if (n % 2) stopped.push(reader);
    else slow.push(reader.readRest(100));
  }
  const quota = await quotaOf(sql);
  let isAnswered = false;
  const next = ask(noisy.token, 1000).then((response) => response.bytes());
  next.finally(() => isAnswered = true);
  for (let asked = 0; asked < 20 || !isAnswered && asked < quota - 1; asked++) {
    assertEquals(await statusOnly(ask(quiet.token, asked % 10 ? 1 : 1000)), 200);
  }
  const whole = (await next).length;
  assert(whole > 7_000_000 && whole < 7_500_000, `${whole} bytes`);
  for (const read of [...stopped.map((reader) => reader.readRest()), ...slow]) {
    assert(await read < whole - 1_000_000);
  }
  for (const connection of silent) connection.close();
});
