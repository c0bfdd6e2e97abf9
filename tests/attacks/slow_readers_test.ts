import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import { API_URL, insertEntries, LONGEST, newLog, SECRET_KEY, sql } from "../helpers.ts";
import { statusOnly, TWO_DAYS, withKey } from "../helpers.ts";
import { SlowReader } from "./slow_reader.ts";

const edgeFunction = await startEdgeFunction({
  apiUrl: API_URL,
  secretKey: SECRET_KEY,
  main: new URL("short_waits.ts", import.meta.url),
  log: () => {},
});
afterAll(() => edgeFunction[Symbol.asyncDispose]());
const server = { hostname: "127.0.0.1", port: edgeFunction.port };
const path = `/public-audit-log?${TWO_DAYS}`;

function ask(token: string, limit: number): Promise<Response> {
  return fetch(`http://127.0.0.1:${server.port}${path}&limit=${limit}`, withKey(token));
}

/** Makes an organization whose page of 1000 entries has 7 MB, more than the sockets on the way take. */
async function largeOrganization() {
  const organization = await newLog();
  await insertEntries(sql, organization.id, "2026-03-01", 1000, LONGEST);
  return organization;
}

describe("the Edge Function", () => {
  it("cuts off readers that stop or crawl within the largest page. Then it answers the key's next request. No other key waits, not even beside 250 silent connections", async () => {
    const silent = await Promise.all(Array.from({ length: 250 }, () => Deno.connect(server)));
    const [noisy, quiet] = [await largeOrganization(), await largeOrganization()];
    const readers: SlowReader[] = [];
    for (let n = 0; n < 6; n++) {
      const reader = await SlowReader.ask(server, `${path}&limit=1000`, noisy.token);
      readers.push(reader);
      // Each gets its turn when the one before was given up.
      await reader.readHeaders();
      if (n % 3 > 0) await reader.readByte();
    }
    let isAnswered = false;
    const next = ask(noisy.token, 1000).then((response) => response.bytes());
    next.finally(() => isAnswered = true);
    for (let asked = 0; asked < 20 || !isAnswered && asked < 59; asked++) {
      assertEquals(await statusOnly(ask(quiet.token, asked % 10 ? 1 : 1000)), 200);
      await Promise.all([readers[2]?.readByte(), readers[5]?.readByte()]);
    }
    const whole = (await next).length;
    assert(whole > 7_000_000);
    for (const reader of readers) assert(await reader.readRest() < whole - 1_000_000);
    for (const connection of silent) connection.close();
  });

  it("cuts off a reader that never pauses for long, when the time for a whole body is over", async () => {
    const { token } = await largeOrganization();
    const whole = (await (await ask(token, 1000)).bytes()).length;
    const reader = await SlowReader.ask(server, `${path}&limit=1000`, token);
    await reader.readHeaders();
    let isAnswered = false;
    const next = statusOnly(ask(token, 1)).finally(() => isAnswered = true);
    let read = 0;
    while (!isAnswered) {
      read += await reader.readPiece();
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
    assertEquals(await next, 200);
    assert(read + await reader.readRest() < whole - 1_000_000);
  });
});
