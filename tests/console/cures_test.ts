// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { cure, CURES } from "../../console/streams/cures.ts";
import { deliver } from "../../supabase/functions/audit-log-streams/deliver.ts";
import type { Leased } from "../../supabase/functions/audit-log-streams/queue.ts";
import { readKeys } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { send, type SendOptions } from "../../supabase/functions/audit-log-streams/send.ts";
import { makeCertificate, newPrivateKey } from "../helpers/certificate.ts";

/** What each kind of failure begins its cure with. Errors without a status are those of Deno 2.1.4 and of newer ones. */
const CASES: [status: number | null, error: string, cure: string][] = [
  [null, "invalid peer certificate: Expired", "Renew the destination's certificate"],
  [null, "invalid peer certificate: certificate expired: verification time", "Renew the desti"],
  [null, "invalid peer certificate: NotValidForName", "Check the host in the address"],
  [null, "invalid peer certificate: BadSignature", "Replace the destination's certificate"],
  [null, "Network is unreachable (os error 101)", "Check the destination's network"],
  [null, "Connection reset by peer (os error 104)", "Look into the destination's own log"],
  [null, "there was no whole answer within 30 s", "Check the destination's firewall and load"],
  [null, "Connection timed out (os error 110)", "Check the destination's firewall and load"],
  [null, "its answer has too many headers", "Check the path"],
  [null, "its answer comes in too many pieces", "Check the path"],
  [null, "the secret must be one line of ASCII characters", "Enter the token again"],
  [null, "something new", "Send the reason to the people who run this service"],
  [200, "status 200 without a confirmation: <h1>Sign in", "Check the address: what answers"],
  [200, "it rejects the entry A of B with status 403: {}", "Check the token: it is wrong"],
  [200, "it rejects the entry A of B with status 429: {}", "Nothing to do"],
  [200, 'every entry is rejected: {"partialSuccess":{}}', "Read its answer: the destination"],
  [301, "status 301", "Enter the address to which this one leads"],
  [400, 'status 400: {"code":6}', "Check the address and the settings"],
  [401, "status 401: certificate", "Check the token: it is wrong"],
  [403, "status 403", "Check the token: it is wrong"],
  [404, "status 404: connection refused", "Check the address: there is nothing"],
  [405, "status 405", "Check the address: there is nothing"],
  [410, "status 410", "Resume it if it should go on"],
  [429, "status 429", "Nothing to do"],
  [503, "status 503", "Look into the destination's own log: it has a fault"],
];

/** Servers that fail, each on a port of its own. */
async function failures(): Promise<[error: string, cure: string][]> {
  const { cert, key } = await makeCertificate();
  const place = { hostname: "127.0.0.1", port: 0 };
  const plays = {
    closes: Deno.listen(place),
    plain: Deno.listen(place),
    cuts: Deno.listenTls({ ...place, cert, key }),
    speaks: Deno.listenTls({ ...place, cert, key }),
    long: Deno.listenTls({ ...place, cert, key }),
  };
  const texts: Record<string, string> = {
    plain: "HTTP/1.1 407 Log in\r\n\r\n",
    speaks: "SSH-2.0-OpenSSH_9.6\r\n",
    long: `HTTP/1.1 200 OK\r\n\r\n${"a".repeat(1_000_001)}`,
  };
  const serving = Object.entries(plays).map(async ([name, server]) => {
    for await (const connection of server) {
      const bytes = new TextEncoder().encode(texts[name] ?? "");
      const answer = async () => {
        if (name !== "closes") await connection.read(new Uint8Array(9_999));
        for (let n = 0; n < bytes.length;) n += await connection.write(bytes.subarray(n));
      };
      await answer().catch(() => {});
      connection.close();
    }
  });
  const closed = Deno.listen(place);
  closed.close();
  const portOf = (server: Deno.Listener) => (server.addr as Deno.NetAddr).port;
  const proxy = new URL(`http://127.0.0.1:${portOf(plays.plain)}`);

  async function fail(server: Deno.Listener, options: Partial<SendOptions> = {}, host = "a") {
    const url = new URL(`https://${host}.example.net:${portOf(server)}`);
    const request = { method: "POST" as const, url, headers: {}, body: new Uint8Array(9) };
    const all = { ownHosts: ["own.example.net"], isAllowed: () => true, caCerts: [cert] };
    const resolve = () => Promise.resolve(["127.0.0.1"]);
    return await send(request, { ...all, resolve, ...options }, AbortSignal.timeout(10_000))
      .then(() => "", ({ message }) => message);
  }
  const keys = await readKeys(await newPrivateKey());
  const destination = { kind: "splunk", url: "https://a.example.net" };
  const lost = { destination, sealed: "other.a.b.c", sealed_before: null, lines: [] };
  const { error: unopened = "" } = await deliver(
    lost as unknown as Leased,
    { keys, timeoutMs: 1_000, ownHosts: [] },
  );
  const found: [string, string][] = [
    [await fail(closed), "Check the port, and whether the destination runs"],
    [await fail(plays.closes), "Look into the destination's own log: it closed"],
    [await fail(plays.cuts), "Look into the destination's own log: it closed"],
    [await fail(plays.plain), "Check the port: what answers there is no HTTPS server"],
    [await fail(plays.speaks), "Check the port: what answers there is no HTTPS server"],
    [await fail(plays.long), "Check the path"],
    [await fail(plays.cuts, {}, "a.b"), "Check the host in the address"],
    [await fail(plays.cuts, { caCerts: [] }), "Give the destination a certificate of a public"],
    [await fail(plays.cuts, { resolve: () => Promise.resolve([]) }), "Correct the host in the"],
    [await fail(plays.cuts, { isAllowed: () => false }), "Enter a public host"],
    [await fail(plays.cuts, {}, "own"), "Enter another address"],
    [await fail(plays.cuts, { proxy }), "Ask the people who run this service to check their"],
    [unopened, "Enter the token again"],
  ];
  for (const server of Object.values(plays)) server.close();
  await Promise.all(serving);
  return found;
}

it("each cause of a failure has a cure of its own, which real errors find", async () => {
  const real = (await failures()).map(([error, begins]) => [null, error, begins] as const);
  const used = new Set<string>();
  for (const [status, error, begins] of [...CASES, ...real]) {
    const text = cure({ kind: "splunk", status, error });
    assertEquals(text.slice(0, begins.length), begins, error);
    used.add(text);
  }
  assertEquals(used.size, new Set(CURES.map(([, text]) => text)).size);
});
