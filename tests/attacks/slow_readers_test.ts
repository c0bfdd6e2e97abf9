import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { startEdgeFunction } from "../../local/edge_function.ts";
import {
  API_URL,
  newOrganization,
  SECRET_KEY,
  signUp,
  sql,
  statusOnly,
  TWO_DAYS,
  withKey,
} from "../helpers.ts";

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

/** An organization whose page of 1000 entries has 7 MB: more than the sockets on the way take in. */
async function largeOrganization() {
  const organization = await newOrganization(await signUp());
  await sql`
    insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name, data)
    select ${organization.id}, '2026-03-01', 'feedback_given', repeat(chr(1), 318) || '@a', repeat(chr(1), 200),
      jsonb_build_object('t', repeat('\\', 2042))
    from generate_series(1, 1000)`;
  return organization;
}

/** Asks for the largest page, and reads no more of it than one is told to. */
class SlowReader {
  #connection: Deno.TcpConn | undefined;
  text = "";

  async ask(token: string): Promise<void> {
    this.#connection = await Deno.connect(server);
    const head =
      `GET ${path}&limit=1000 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    await this.#connection.write(new TextEncoder().encode(head));
  }

  async readByte(): Promise<void> {
    const byte = new Uint8Array(1);
    if (!await this.#connection?.read(byte)) throw new Error(`no more than ${this.text}`);
    this.text += String.fromCharCode(...byte);
  }

  async readHeaders(): Promise<void> {
    while (!this.text.endsWith("\r\n\r\n")) await this.readByte();
  }

  /** Reads all that is left, until the server closes the connection; how many bytes. */
  async readRest(): Promise<number> {
    let bytes = 0;
    try {
      for await (const chunk of this.#connection?.readable ?? []) bytes += chunk.length;
    } catch {
      // Cut off.
    }
    return bytes;
  }
}

describe("readers of the largest page that stop after the headers, after a byte, or crawl", () => {
  it("are given up, and then their key's others are answered; other keys never wait for them", async () => {
    const [noisy, quiet] = [await largeOrganization(), await largeOrganization()];
    const readers = Array.from({ length: 6 }, () => new SlowReader());
    for (const reader of readers) {
      await reader.ask(noisy.token);
      // Two have a turn, and the others none before those are given up.
      await reader.readHeaders();
      if (readers.indexOf(reader) % 3 > 0) await reader.readByte();
    }
    let isAnswered = false;
    const next = ask(noisy.token, 1000).then((response) => response.bytes());
    next.finally(() => isAnswered = true);
    for (let asked = 0; asked < 20 || !isAnswered && asked < 59; asked++) {
      assertEquals(await statusOnly(ask(quiet.token, asked % 2 ? 1 : 1000)), 200);
      for (const reader of readers) if (readers.indexOf(reader) % 3 === 2) await reader.readByte();
    }
    const whole = (await next).length;
    assert(whole > 7_000_000);
    for (const reader of readers) assert(await reader.readRest() < whole - 1_000_000);
  });
});

describe("connections in bursts", () => {
  it("500 at once, half of which say nothing: the others are answered", async () => {
    const { token } = await newOrganization(await signUp());
    const connections = await Promise.all(
      Array.from({ length: 250 }, () => Deno.connect(server)),
    );
    const statuses = await Promise.all(
      Array.from({ length: 250 }, () => statusOnly(ask(token, 1))),
    );
    assertEquals(statuses.sort(), [...Array(60).fill(200), ...Array(190).fill(429)]);
    for (const connection of connections) connection.close();
    assertEquals(await statusOnly(ask(token, 1)), 429);
  });
});
